"""The line of progress: it is on a terminal alone, fits it, is gone at the end, and holds nobody up."""

from __future__ import annotations

import errno
import io
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest

from ibkeys.cli import exits
from ibkeys.cli.screen import progress
from ibkeys.cli.screen.progress import ProgressLine
from tests.cli.conftest import TWO_SWITCH, Terminal, on_terminal, run
from tests.cli.screen.screen import shown_lines


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds on the clock: the last number."""
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[-1])
    return now


@contextmanager
def on(stream: io.StringIO, columns: int = 60, term: str = "xterm") -> Iterator[None]:
    """Let *stream* be what is written to, as a terminal of so many columns."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(stream), redirect_stderr(stream):
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", term)
        yield


def test_it_says_how_far_a_task_is_and_for_how_long(clock: list[float]) -> None:
    terminal = Terminal()
    with on(terminal), ProgressLine() as line:
        line.show("ports", 0, 40)
        assert shown_lines(terminal.getvalue()) == [f"ports  [{'-' * 30}]  0/40  0:00:00"]
        clock.append(3825)
        line.show("ports", 10, 40)
        assert shown_lines(terminal.getvalue()) == [f"ports  [{'#' * 7}{'-' * 23}]  10/40  1:02:05"]
        clock.append(3826)
        line.show("reading")
        assert shown_lines(terminal.getvalue()) == ["reading  1:02:06"]
    assert shown_lines(terminal.getvalue()) == []


@pytest.mark.parametrize("columns", range(20, 90))
def test_it_fits_and_leaves_the_last_column_empty(columns: int) -> None:
    terminal = Terminal()
    with on(terminal, columns), ProgressLine() as line:
        line.show("3 silent or hiding; next lease ends", 2, 5)
        (text,) = shown_lines(terminal.getvalue())
    assert len(text) < columns
    assert text.endswith("2/5  0:00:00")


def test_it_is_drawn_ten_times_in_a_second_at_most(clock: list[float]) -> None:
    terminal = Terminal()
    with on(terminal), ProgressLine() as line:
        for step in range(0, 1024, 8):
            clock.append(100 + step / 1024)
            line.show("ports", step, 1024)
    assert terminal.getvalue().count("ports") == 10


def test_another_line_takes_its_place_and_it_is_drawn_below(clock: list[float]) -> None:
    terminal = Terminal()
    with on(terminal), ProgressLine() as line:
        for step, say in enumerate((exits.write, exits.write_exact, exits.note)):
            clock.append(100 + step)
            line.show("ports", step, 3)
            say("said")
    assert shown_lines(terminal.getvalue()) == ["said", "said", "ibkeys: note: said"]
    assert terminal.getvalue().count("ports") == 3


@pytest.mark.parametrize(
    ("stream", "term", "is_wanted"),
    [(Terminal(), "dumb", True), (Terminal(), "xterm", False), (io.StringIO(), "xterm", True)],
    ids=["cannot clear a line", "not wanted", "no terminal"],
)
def test_nothing_is_drawn_elsewhere(stream: io.StringIO, term: str, is_wanted: bool) -> None:
    with on(stream, term=term), ProgressLine(is_wanted) as line:
        assert not line.is_drawing
        line.show("ports", 1, 2)
    assert stream.getvalue() == ""


class Hung(Terminal):
    """A terminal that was hung up."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_is_gone_stops_nobody(clock: list[float]) -> None:
    with on(Hung()), ProgressLine() as line:
        line.show("ports", 1, 2)
        assert not line.is_drawing
        line.show("ports", 2, 2)


FILL = """
import os, sys
from ibkeys.cli.screen.progress import ProgressLine
from ibkeys.cli.streams import outlasting_readers
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b"x" * 1024)
except BlockingIOError:
    os.set_blocking(2, True)
with outlasting_readers():
    with ProgressLine() as line:
        line.show("ports", 1, 2)
        print(line.is_drawing)
"""


def test_a_terminal_that_takes_nothing_holds_nobody_up() -> None:
    """As after Ctrl-S: a write to it waits until somebody reads."""
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-c", FILL]
        environment = {**os.environ, "TERM": "xterm"}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (0, "True\n")


def test_commands_have_it_and_leave_nothing_of_it() -> None:
    result = on_terminal("mkey-show", "--all", "--backend", TWO_SWITCH)
    assert result.code == 0
    assert "reading the fabric" in result.err
    assert shown_lines(result.err) == []
    assert "\r" not in on_terminal("mkey-show", "--all", "--backend", TWO_SWITCH, "-d").err
    assert run("mkey-show", "--all", "--backend", TWO_SWITCH).err == ""
