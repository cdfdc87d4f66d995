"""Scripts: commands for a simulated subnet, each with the time at which it is executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from ibkeys.errors import FileFormatError
from ibkeys.sim.steering.commands import read_line
from ibkeys.sim.steering.words import LineError, split_line, to_seconds


class ScriptLine(NamedTuple):
    """A line of a script. ``at``: seconds after the start of the script; ``number``: its number in the text; ``text``:
    the command."""

    at: float
    number: int
    text: str


class Script:
    """Commands that are executed at their times after the start; ``@SECONDS`` before a command sets its time.

    A line without a time has the time of the line before it. Lines with equal times keep their order.
    """

    def __init__(self, lines: Sequence[ScriptLine] = ()) -> None:
        self.lines = sorted(lines, key=lambda line: line.at)
        self._next = 0

    @classmethod
    def parse(cls, text: str, path: str = "") -> Self:
        """Parse a script. The syntax of every line is checked, not whether its nodes exist. Raises FileFormatError;
        *path*: the file in its message."""
        lines: list[ScriptLine] = []
        at = 0.0
        for number, raw in enumerate(text.splitlines(), 1):
            try:
                tokens = split_line(raw)
                start = 0
                if tokens and tokens[0].text.startswith("@"):
                    at = to_seconds(tokens[0], tokens[0].text[1:])
                    start = len(raw) if len(tokens) == 1 else tokens[1].column - 1
                    if len(tokens) == 1:
                        raise LineError("a time without a command", tokens[0].column)
                command = raw[start:].strip()
                if read_line(" " * start + raw[start:]) is not None:
                    lines.append(ScriptLine(at, number, command))
            except LineError as error:
                raise FileFormatError(str(error), path, number, error.column) from None
        return cls(lines)

    def due(self, now: float) -> list[ScriptLine]:
        """Return the lines that are due *now* seconds after the start and were not returned before, in order."""
        first = self._next
        while self._next < len(self.lines) and self.lines[self._next].at <= now:
            self._next += 1
        return self.lines[first : self._next]

    @property
    def next_time(self) -> float | None:
        """The time of the next line in seconds after the start; None if all lines were returned."""
        return self.lines[self._next].at if self._next < len(self.lines) else None
