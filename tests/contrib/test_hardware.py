"""`make hardware` and its issue form: what a site runs, and what it sends."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contrib.shipped import CONTRIB
from tests.corpus import DATA
from tests.hardware.looking import unpacked

ROOT = CONTRIB.parent
FORM = ROOT / ".github" / "ISSUE_TEMPLATE" / "hardware.yml"
FABRIC = DATA / "fabrics" / "two-switch.net"


def make(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make with the Makefile of the project in *folder*, which is set up already."""
    shutil.copy(ROOT / "Makefile", folder)
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "ibkeys").symlink_to(Path(sys.executable).with_name("ibkeys"))
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        ["make", "-o", "setup", *words],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_make_hardware_writes_the_archive_that_the_form_names(tmp_path: Path) -> None:
    done = make(tmp_path, "hardware", "ARGS=--hash-guids -t 100 --retries 0", IBKEYS_BACKEND=f"sim:{FABRIC}")
    assert done.returncode == 0, done.stderr
    [archive] = tmp_path.glob("*.tar.gz")
    assert str(archive.name) in FORM.read_text()
    assert "are hashed" in unpacked(archive)["README.txt"].decode()
    assert not [data for data in unpacked(archive).values() if b"node01" in data]


def test_make_help_lists_it(tmp_path: Path) -> None:
    assert re.search(r"^make hardware +look at a real fabric, read only", make(tmp_path, "help").stdout, re.M)


@pytest.mark.parametrize("word", ["make hardware", "--report", "--hash-guids", "--write-loopback", "mkey-under-sm"])
def test_the_form_says_what_to_run(word: str) -> None:
    assert word in FORM.read_text()
