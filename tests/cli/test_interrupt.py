"""SIGINT while the program is being imported: exit code 130, and no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.__main__ import Interrupt
from tests.cli.conftest import TWO_SWITCH
from tests.corpus import DATA

ROOT = DATA.parent.parent
# Runs the program; whenever it begins to look for a module (for one in so many), a fork of it is interrupted there.
# Prints for each the module, its exit code, and what it said.
SCRIPT = """
import os, runpy, sys, tempfile
ends, one_in, looked = [], int(sys.argv.pop(1)), 0
class Finder:
    def find_spec(self, name, path=None, target=None):
        global looked
        looked += 1
        if looked % one_in:
            return
        said = tempfile.TemporaryFile()
        child = os.fork()
        if child:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            ends.append((name, code, said.read().decode()))
        else:
            sys.meta_path.remove(self)
            for descriptor in (1, 2):
                os.dup2(said.fileno(), descriptor)
            ends.clear()
            os.kill(os.getpid(), 2)
try:
    finder = Finder()
    import ibkeys.__main__
    sys.meta_path.insert(0, finder)
    ibkeys.__main__.start()
finally:
    for end in ends:
        print(*map(repr, end), sep="\\t")
"""


@pytest.mark.parametrize("one_in", [10, pytest.param(1, marks=pytest.mark.soak)])
def test_interrupted_while_it_imports(one_in: int) -> None:
    command = [sys.executable, "-c", SCRIPT, str(one_in), "pkey-show", "-f", "csv", "--backend", TWO_SWITCH]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert (done.returncode, done.stderr) == (0, "")
    ends = [tuple(map(literal_eval, line.split("\t"))) for line in done.stdout.splitlines() if "\t" in line]
    assert len(ends) * one_in > 100
    assert [end for end in ends if end[1:] not in ((130, ""), (130, "ibkeys: error: interrupted\n"))] == []


BODY = """
import signal
class Field:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)
class Table:
    field = Field()
whole = True
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that is interrupted by itself, with the program's handler in place."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "interrupted.py").write_text(BODY)
    before, tracing = signal.signal(signal.SIGINT, Interrupt()), sys.gettrace()
    yield "interrupted"
    signal.signal(signal.SIGINT, before)
    sys.settrace(tracing)
    sys.modules.pop("interrupted", None)


def load(name: str) -> None:
    __import__(name)
    raise AssertionError("the interrupt comes right after the import")


def test_an_import_is_not_cut_off(module: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        load(module)
    assert sys.modules[module].whole


def test_an_import_that_fails_ends_in_the_interrupt(module: str, tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(BODY + "raise ImportError\n")
    with pytest.raises(KeyboardInterrupt):
        load(module)


def test_elsewhere_the_interrupt_comes_at_once(module: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert module not in sys.modules
