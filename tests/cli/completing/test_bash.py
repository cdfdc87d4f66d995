"""The script in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ibkeys.cli.completing import names
from tests.cli.conftest import run

DRIVER = """
PATH=$1:$PATH
source "$2"
compopt() { echo "compopt $*"; }
COMP_LINE=$3 COMP_POINT=${#3}
_ibkeys_completion ibkeys
for each in "${COMPREPLY[@]}"; do eval "printf '<%s>\\n' ${4:-}$each${4:-}"; done
"""
"""Each word is evaluated as bash will when the line is entered: what it would run is run. $4: a quote that was open."""


def completed(tmp_path: Path, line: str, quote: str = "") -> str:
    bash = shutil.which("bash")
    assert bash is not None
    script, program = tmp_path / "script", tmp_path / "bin" / "ibkeys"
    script.write_text(run("completion", "bash").out)
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ibkeys "$@"\n')
    program.chmod(0o755)
    command = [bash, "--norc", "-c", DRIVER, "bash", str(program.parent), str(script), line, quote]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ibkeys mkey-dep", "<mkey-deploy>\n"),
        ("ibkeys audit --check MK001,HY004", "<MK001,HY004>\n"),
        ("ibkeys audit --check=HY004", "<HY004>\n"),
        ("ibkeys pkey-show --backend sim: --format j", "<json>\n"),
        ("ibkeys audit --policy a", "compopt -o default\n"),
        ("ibkeys keystore import ", "compopt -o dirnames\n"),
        ("ibkeys pkey-show --from=$(touch hit) ", ""),
        ("ibkeys pkey-show -N '", ""),
    ],
)
def test_lines(tmp_path: Path, cache: Path, line: str, expected: str) -> None:
    assert completed(tmp_path, line) == expected
    assert not (tmp_path / "hit").exists()


@pytest.mark.parametrize(("typed", "quote"), [("", ""), ('"', '"'), ("'", "'")])
def test_names_with_blanks_are_one_word_and_hostile_ones_run_nothing(
    tmp_path: Path, cache: Path, typed: str, quote: str
) -> None:
    """The list is written past what keeps it, as if it were of somebody who wants to be run."""
    cache.mkdir(parents=True)
    hostile = ["$(touch hit)", "`touch hit`", "x;touch hit", "x'$(touch hit)'", "*", "~", "-rf", "x\\", "plain,file"]
    (cache / names.NODES).write_text("\n".join([*hostile, "node01 mlx5_0"]) + "\n")
    shown = completed(tmp_path, f"ibkeys pkey-show -N {typed}", quote)
    assert shown == "<node01 mlx5_0>\n<plain,file>\n"
    assert not (tmp_path / "hit").exists()
