"""Parts of a policy's lines with their columns, and the problems found in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ibkeys.partitions.model import PolicyProblem, ProblemSeverity
from ibkeys.partitions.words import BLANKS


@dataclass(frozen=True, slots=True)
class LineWord:
    """A word of a line without the blanks around it, and its column, counted from 1."""

    text: str
    column: int

    @property
    def end(self) -> int:
        """The column after the word."""
        return self.column + len(self.text)


@dataclass(frozen=True, slots=True)
class NameValue:
    """``name`` or ``name=value``."""

    name: LineWord
    value: LineWord | None


def skip_blanks(text: str, at: int) -> int:
    """Return the index of the first character from *at* on that is not a blank."""
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at


def pairs(text: str, start: int, stop: int) -> Iterator[NameValue]:
    """Yield the parts between the commas of ``text[start:stop]``."""
    while True:
        comma = text.find(",", start, stop)
        end = comma if comma >= 0 else stop
        equals = text.find("=", start, end)
        if equals >= 0:
            yield NameValue(_word(text, start, equals), _word(text, equals + 1, end))
        else:
            yield NameValue(_word(text, start, end), None)
        if comma < 0:
            return
        start = comma + 1


def _word(text: str, start: int, stop: int) -> LineWord:
    piece = text[start:stop]
    stripped = piece.lstrip(BLANKS)
    return LineWord(stripped.rstrip(BLANKS), start + len(piece) - len(stripped) + 1)


@dataclass(slots=True)
class Remarks:
    """The problems found so far. ``line``: the line that is being read."""

    line: int = 0
    problems: list[PolicyProblem] = field(default_factory=list)

    def error(self, column: int, code: str, message: str) -> None:
        """Add an error: OpenSM refuses this."""
        self._add(column, "error", code, message)

    def warn(self, column: int, code: str, message: str) -> None:
        """Add a warning: OpenSM reads this in another sense than was probably meant."""
        self._add(column, "warning", code, message)

    def note(self, column: int, code: str, message: str) -> None:
        """Add a problem of severity note."""
        self._add(column, "note", code, message)

    def check_spelling(self, word: LineWord, meant: str) -> None:
        """Warn of an abbreviated word that OpenSM takes for *meant*."""
        if word.text != meant:
            shown = repr(word.text) if word.text else "an empty word"
            self.warn(word.column, "abbreviated", f"{shown} is read as {meant}; write it out")

    def of(self, severity: ProblemSeverity) -> list[PolicyProblem]:
        """Return the problems of one kind."""
        return [problem for problem in self.problems if problem.severity == severity]

    def _add(self, column: int, severity: ProblemSeverity, code: str, message: str) -> None:
        self.problems.append(PolicyProblem(self.line, column, severity, code, message))
