"""What a command imports: start-up stays near click's own."""

from __future__ import annotations

import os
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


def imported_by(*args: str, **variables: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(args=list(args))],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.rpartition("imported:")[2].split())


@pytest.mark.parametrize("args", [["--version"], ["--help"]])
def test_version_and_help_import_little(args: list[str]) -> None:
    modules = imported_by(*args)
    assert modules.isdisjoint({"sqlite3", "json", "cffi", "ibkeys.fabric", "ibkeys.mad", "ibkeys.cli.options"})


def test_what_needs_no_fabric_imports_none() -> None:
    modules = imported_by("pkey-check", "0x8001", "0x1")
    assert modules.isdisjoint({"sqlite3", "json", "cffi", "ibkeys.fabric", "ibkeys.sim"})


def test_showing_on_a_pipe_imports_no_database_and_no_key_store() -> None:
    modules = imported_by("pkey-show", "--backend", TWO_SWITCH)
    assert modules.isdisjoint({"sqlite3", "ibkeys.store.keystore.keystore"})


def test_the_simulated_backend_needs_no_extension() -> None:
    assert "ibkeys.umad._libibumad" not in imported_by("pkey-show", "--backend", TWO_SWITCH)


@pytest.mark.parametrize(
    ("line", "never"),
    [
        ("ibkeys pkey-s", {"sqlite3", "json", "ibkeys.cli.options"}),
        ("ibkeys pkey-show -N ", {"sqlite3", "cffi", "ibkeys.audit", "ibkeys.sim", "ibkeys.fabric.live"}),
        ("ibkeys pkey-add --override ", {"sqlite3", "cffi", "ibkeys.audit", "ibkeys.fabric.live"}),
        ("ibkeys audit --check ", {"cffi", "ibkeys.sim.subnet", "ibkeys.umad._libibumad"}),
        ("ibkeys sim ctl ", {"sqlite3", "cffi", "ibkeys.audit"}),
    ],
)
def test_a_completion_imports_what_it_offers(line: str, never: set[str]) -> None:
    assert imported_by(_IBKEYS_COMPLETE="bash_complete", COMP_WORDS=line).isdisjoint(never)


def test_the_interpreter_ends_without_a_look_at_each_object() -> None:
    script = """
import atexit, gc
before = gc.get_freeze_count()  # Python 3.12 begins with some hundred
atexit.register(lambda: print("frozen:", gc.get_freeze_count() > 10_000))  # what is registered first runs last
from ibkeys.cli import main
for _ in range(2):
    try:
        main(["--version"])
    except SystemExit:
        print("more than before:", gc.get_freeze_count() > before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    said = [line for line in done.stdout.splitlines() if ":" in line]
    assert said == ["more than before: False", "more than before: False", "frozen: True"]
