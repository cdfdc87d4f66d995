"""Finding the positions of a policy's parts in its text, and replacing parts of the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from ibkeys.partitions.lines import pairs
from ibkeys.partitions.model import Definition, MemberRule, Policy
from ibkeys.partitions.words import BLANKS


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A replacement of ``text[start:end]`` by ``new``."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class ListItem:
    """One item of a port list, by offsets in the text.

    ``name_end``: the end of its name, before a ``=``. ``is_group``: it is an ``mgid=GID``, which is one item with all
    of its flags.
    """

    start: int
    name_end: int
    end: int
    is_group: bool


@dataclass(frozen=True, slots=True)
class BodyLine:
    """The part of a definition's port list on one line, by offsets in the text.

    The part is at ``start`` to ``end``, without comment and semicolon; the whole line at ``line_start`` to
    ``line_end``, with its newline. ``close``: the offset of the semicolon that ends the definition, None if it is not
    on this line. ``is_header``: the line also has the header of the definition.
    """

    line_start: int
    line_end: int
    start: int
    end: int
    close: int | None
    is_header: bool
    items: tuple[ListItem, ...]


class PolicyText:
    """The text of *policy*, which must have its bytes, and the offsets of its parts in ``text``."""

    def __init__(self, policy: Policy) -> None:
        assert policy.data is not None
        self.text = policy.data.decode("utf-8", "surrogateescape")
        self._line_starts = [0, *accumulate(len(line) + 1 for line in self.text.split("\n"))]

    def offset(self, at: MemberRule | Definition) -> int:
        """Return the offset at which a member rule or a definition begins."""
        return self._line_starts[at.line - 1] + at.column - 1

    def body(self, definition: Definition) -> tuple[BodyLine, ...]:
        """Return the lines of a definition's port list; the first is the header's line."""
        return tuple(self._body(self.text.index(":", self.offset(definition)) + 1))

    def line_end(self, offset: int) -> int:
        """Return the offset after the line of *offset*, its newline included."""
        newline = self.text.find("\n", offset)
        return newline + 1 if newline >= 0 else len(self.text)

    def code_end(self, line: BodyLine) -> int:
        """Return the offset after the last item of *line* and its comma, if it has one."""
        return line.start + len(self.text[line.start : line.end].rstrip(BLANKS))

    def rest(self, line: BodyLine) -> str:
        """Return the text after the semicolon on *line*, the last line of a definition: blanks, a comment, or another
        definition."""
        assert line.close is not None
        return self.text[line.close + 1 : line.line_end]

    def is_followed(self, line: BodyLine) -> bool:
        """Return whether another definition begins on *line*, the last line of a definition."""
        return bool(self.rest(line).partition("#")[0].strip())

    def edited(self, edits: Iterable[TextEdit]) -> bytes:
        """Return the bytes of the text after *edits*. The edits must not overlap; insertions at the same offset keep
        their order."""
        parts, at = [], 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            assert edit.start >= at
            parts += [self.text[at : edit.start], edit.new]
            at = edit.end
        return "".join([*parts, self.text[at:]]).encode("utf-8", "surrogateescape")

    def _body(self, start: int) -> Iterator[BodyLine]:
        line_start, is_header = self.text.rfind("\n", 0, start) + 1, True
        while True:
            line_end = self.line_end(start)
            end = line_end - 1 if self.text[line_end - 1 : line_end] == "\n" else line_end
            sharp = self.text.find("#", start, end)
            end = sharp if sharp >= 0 else end
            close = self.text.find(";", start, end)
            end = close if close >= 0 else end
            items = tuple(_items(self.text, start, end))
            yield BodyLine(line_start, line_end, start, end, close if close >= 0 else None, is_header, items)
            if close >= 0 or line_end == len(self.text):
                return
            line_start = start = line_end
            is_header = False


def _items(text: str, start: int, end: int) -> Iterator[ListItem]:
    for pair in pairs(text, start, end):
        if pair.name.text == "mgid":
            first = pair.name.column - 1
            yield ListItem(first, first + len("mgid"), first + len(text[first:end].rstrip()), True)
            return
        if pair.name.text or pair.value is not None:
            yield ListItem(pair.name.column - 1, pair.name.end - 1, (pair.value or pair.name).end - 1, False)
