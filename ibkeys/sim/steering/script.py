"""Scripts of control lines, each with the time at which it is to be executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from ibkeys.errors import FileFormatError
from ibkeys.sim.steering.commands import read_line
from ibkeys.sim.steering.words import LineError, split_line, to_seconds


class ScriptLine(NamedTuple):
    """A line of a script: the time after its start, the number of the line in the text, the command."""

    at: float
    number: int
    text: str


class Script:
    """Lines to be executed, each at its time after the start; ``@SECONDS`` before a command gives the time.

    A line without a time follows at once after the line before it; lines of equal time keep their order.
    """

    def __init__(self, lines: Sequence[ScriptLine] = ()) -> None:
        self.lines = sorted(lines, key=lambda line: line.at)
        self._next = 0

    @classmethod
    def parse(cls, text: str, path: str = "") -> Self:
        """Read a script; every line is checked as far as it can be without a subnet. Raises FileFormatError."""
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
        """Return the lines whose time has come *now* seconds after the start, each once, in order."""
        first = self._next
        while self._next < len(self.lines) and self.lines[self._next].at <= now:
            self._next += 1
        return self.lines[first : self._next]

    @property
    def next_time(self) -> float | None:
        """Seconds after the start at which the next line is due, None when all are done."""
        return self.lines[self._next].at if self._next < len(self.lines) else None
