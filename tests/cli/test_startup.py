"""What a command imports: start-up stays near click's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import TWO_SWITCH
from tests.corpus import DATA

ROOT = DATA.parent.parent
SCRIPT = """
import sys
from ibkeys.cli import main
try:
    main({args!r})
except SystemExit as ended:
    assert not ended.code, ended.code
print("imported:", *sorted(sys.modules))
"""


def imported_by(*args: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(args=list(args))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.rpartition("imported:")[2].split())


@pytest.mark.parametrize("args", [["--version"], ["--help"]])
def test_version_and_help_import_little(args: list[str]) -> None:
    modules = imported_by(*args)
    assert modules.isdisjoint({"rich", "sqlite3", "json", "cffi", "ibkeys.fabric", "ibkeys.mad", "ibkeys.cli.options"})


def test_what_needs_no_fabric_imports_none() -> None:
    modules = imported_by("pkey-check", "0x8001", "0x1")
    assert modules.isdisjoint({"rich", "sqlite3", "json", "cffi", "ibkeys.fabric", "ibkeys.sim"})


def test_showing_on_a_pipe_imports_neither_rich_nor_a_database() -> None:
    modules = imported_by("pkey-show", "--backend", TWO_SWITCH)
    assert modules.isdisjoint({"rich", "sqlite3"})


def test_the_simulated_backend_needs_no_extension() -> None:
    assert "ibkeys.umad._libibumad" not in imported_by("pkey-show", "--backend", TWO_SWITCH)
