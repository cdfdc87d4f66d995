"""The recordings that are kept, and where one that is made anew differs from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.corpus import DATA
from tests.recordings.recorder import Scenario, record, written

FOLDER: Final = DATA / "recordings"
ANEW: Final = ".venv/bin/python -m tests.recordings"
"""The command that writes all recordings anew; names of scenarios after it: only these."""


def path_of(name: str) -> Path:
    """Return the file of a scenario's recording."""
    return FOLDER / f"{name}.json"


def difference(scenario: Scenario) -> str:
    """Make a scenario again, and return the first line in which it differs from its recording, with the command that
    it belongs to; "" where all is the same."""
    recording = record(scenario)
    now = written(recording).splitlines()
    path = path_of(scenario.name)
    before = path.read_text().splitlines() if path.exists() else []
    if now == before:
        return ""
    same = [old == new for old, new in zip(before, now, strict=False)]
    line = same.index(False) if False in same else len(same)
    old, new = (text[line].strip() if line < len(text) else "(no line)" for text in (before, now))
    lines = f"- {old}\n+ {new}"
    return (
        f"{scenario.name}, {_command_at(recording, line)}: {path.name}:{line + 1}\n{lines}\n"
        f"If that is meant: {ANEW} {scenario.name}"
    )


def _command_at(recording: dict[str, Any], line: int) -> str:
    """Return the command to which a line of a recording belongs."""
    above: list[Any] = []
    for command in recording["commands"]:
        above.append(command)
        if len(written({**recording, "commands": above}).splitlines()) - _behind(recording) > line:
            return f"`ibkeys {command['command']}`"
    return "before its first command"


def _behind(recording: dict[str, Any]) -> int:
    """Return how many lines come after the commands."""
    return len(written({**recording, "commands": []}).splitlines()) - 1
