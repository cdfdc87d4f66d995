"""The command for each event: no shell, bounded in number and time, nothing secret in what it gets."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ibkeys.errors import UsageError
from ibkeys.watch import commands
from ibkeys.watch.commands import AT_ONCE, MOST_WAITING, EventCommand, split_command
from tests.integration.polling import wait_until


def python(script: str, *words: object) -> list[str]:
    return [sys.executable, "-I", "-c", script, *map(str, words)]


APPEND = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def test_each_event_is_on_standard_input(tmp_path: Path) -> None:
    out, said = tmp_path / "out", []
    running = EventCommand(python(APPEND, out), said.append)
    for number in range(10):
        running.give(json.dumps({"number": number}))
    running.finish()
    assert sorted(json.loads(line)["number"] for line in out.read_text().splitlines()) == list(range(10))
    assert said == []


@pytest.mark.parametrize(
    ("text", "words"),
    [("a 'b c' \"d\"", ["a", "b c", "d"]), ("a $HOME `id` ; rm -r *", ["a", "$HOME", "`id`", ";", "rm", "-r", "*"])],
)
def test_there_is_no_shell(text: str, words: list[str]) -> None:
    assert split_command(text) == words


@pytest.mark.parametrize("text", ["", "  ", "a 'b"])
def test_a_command_line_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="event command: "):
        split_command(text)


def test_the_environment_is_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_SMKEY", "@/etc/secret")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    monkeypatch.setenv("TZ", "UTC")
    out = tmp_path / "out"
    running = EventCommand(python("import os,sys; open(sys.argv[1], 'w').write(' '.join(os.environ))", out), print)
    running.give("{}")
    running.finish()
    seen = set(out.read_text().split())
    assert "TZ" in seen
    assert not seen & {"IBKEYS_SMKEY", "NOTIFY_SOCKET"}


def test_no_more_than_a_few_run_at_once_and_wait(tmp_path: Path) -> None:
    gate, said = tmp_path / "gate", []
    os.mkfifo(gate)
    holder = os.open(gate, os.O_RDWR)  # nobody waits to open it, and reading waits for what is written
    try:
        running = EventCommand(python("import sys; open(sys.argv[1], 'rb', 0).read(1)", gate), said.append)
        for _ in range(AT_ONCE + MOST_WAITING + 5):
            running.give("{}")
        assert len(running.running) == AT_ONCE
        assert len(running.waiting) == MOST_WAITING
        assert running.left_out == 5
        assert len(said) == 1
        running.waiting.clear()
        os.write(holder, b"x" * AT_ONCE)
        running.finish()
        assert not running.running
    finally:
        os.close(holder)


def has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    gate, said, now = tmp_path / "gate", [], [0.0]
    os.mkfifo(gate)
    holder = os.open(gate, os.O_RDWR)
    script = "import subprocess,sys; subprocess.run(['cat', sys.argv[1]])"
    try:
        running = EventCommand(python(script, gate), said.append, lambda: now[0])
        running.give("{}")
        (process,) = [each.process for each in running.running]
        now[0] = commands.LONGEST
        running.tend()
        assert not running.running
        assert process.returncode == -9
        wait_until(lambda: not has_members(process.pid))  # whoever inherited the child has to reap it yet
        assert said == [f"event command: {sys.executable}: was killed after 30 s"]
    finally:
        os.close(holder)


def test_a_command_that_not_even_sigkill_ends_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, said, now = tmp_path / "gate", [], [0.0]
    os.mkfifo(gate)
    holder = os.open(gate, os.O_RDWR)
    monkeypatch.setattr(commands.os, "killpg", lambda *_: None)  # as a process that hangs in the kernel takes it
    monkeypatch.setattr(commands, "DYING", 0.0)
    try:
        running = EventCommand(["cat", str(gate)], said.append, lambda: now[0])
        running.give("{}")
        (process,) = [each.process for each in running.running]
        now[0] = commands.LONGEST
        running.tend()
        assert not running.running
        assert process.poll() is None
        assert said == ["event command: cat: was killed after 30 s"]
    finally:
        process.kill()
        process.wait()
        os.close(holder)


def test_failures_are_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    for words in (python("raise SystemExit(3)"), [str(tmp_path / "not-there")]):
        running = EventCommand(words, said.append)
        for _ in range(3):
            running.give("{}")
        running.finish()
    assert [text.partition(": ")[2].partition(": ")[2][:21] for text in said] == [
        "ended with exit code ",
        "cannot be started: No",
    ]


def test_a_command_that_reads_nothing_is_no_error() -> None:
    said: list[str] = []
    running = EventCommand(["true"], said.append)
    for _ in range(20):
        running.give("x" * 8000)
    running.finish()
    assert said == []
