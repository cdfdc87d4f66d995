"""The parts of a line of a policy with their columns, and collecting the problems of the lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ibkeys.partitions.model import PolicyProblem, ProblemSeverity
from ibkeys.partitions.words import BLANKS


@dataclass(frozen=True, slots=True)
class LineWord:
    """A word of a line without the blanks around it, and the column of its first character, from 1."""

    text: str
    column: int

    @property
    def end(self) -> int:
        """The column after the word."""
        return self.column + len(self.text)


@dataclass(frozen=True, slots=True)
class NameValue:
    """A part of a line between commas: ``name``, or ``name=value``; ``value`` is None without a ``=``."""

    name: LineWord
    value: LineWord | None


def skip_blanks(text: str, at: int) -> int:
    """Return the index of the first character of *text*, from index *at* on, that is no blank; the length if there is
    none."""
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at


def pairs(text: str, start: int, stop: int) -> Iterator[NameValue]:
    """Yield the parts between the commas of ``text[start:stop]``; columns count from the beginning of *text*."""
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
    """The problems of a policy that were found so far. ``line``: the number of the line that is being read, from 1."""

    line: int = 0
    problems: list[PolicyProblem] = field(default_factory=list)

    def error(self, column: int, code: str, message: str) -> None:
        """Add an error: OpenSM refuses the file, or its reading cannot be determined. *code*: the fixed name of the
        kind."""
        self._add(column, "error", code, message)

    def warn(self, column: int, code: str, message: str) -> None:
        """Add a warning: OpenSM reads the text otherwise than its author probably meant."""
        self._add(column, "warning", code, message)

    def note(self, column: int, code: str, message: str) -> None:
        """Add a note: no mistake, but useful to know."""
        self._add(column, "note", code, message)

    def check_spelling(self, word: LineWord, meant: str) -> None:
        """Add a warning if *word* is an abbreviation, which OpenSM reads as *meant*."""
        if word.text != meant:
            shown = repr(word.text) if word.text else "an empty word"
            self.warn(word.column, "abbreviated", f"{shown} is read as {meant}; write it out")

    def of(self, severity: ProblemSeverity) -> list[PolicyProblem]:
        """Return the problems of one severity."""
        return [problem for problem in self.problems if problem.severity == severity]

    def _add(self, column: int, severity: ProblemSeverity, code: str, message: str) -> None:
        self.problems.append(PolicyProblem(self.line, column, severity, code, message))
