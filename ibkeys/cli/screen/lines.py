"""Folding lines to the width of a terminal: between words, never within a node's name, a GUID or a value that fits a
line.

A line that does not go to a terminal is not folded, because scripts read it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final, TextIO

from ibkeys.cli.screen.colour import plain
from ibkeys.printable import clean

NARROW: Final = 80
"""Columns of a terminal that does not report its width."""
_LEAST: Final = 20
_HANG: Final = 2
_CONTINUES_FROM: Final = 16
"""A line that begins with more blanks than this continues another line. If it is folded, its next line begins in the
same column.
"""
_GAP: Final = re.compile(r"(?<=[^ ]) {2,}(?=[^ ])")
_GLUE: Final = "\0"
"""Stands for a blank at which a line is not folded. No text has this character: `ibkeys.printable.clean` escapes it."""
_NUMBERED: Final = re.compile(r"(\b(?:port|LID|index|GUID)|\([a-z]+) (?=[0-9])")
_FIRST_WORD: Final = re.compile(r"[^ ]+(?= )")
_COLOUR_OR_CHAR: Final = re.compile(r"\x1b\[[0-9;]*m|.", re.DOTALL)
_OPENING: Final = "(\"'`["

_names: dict[str, set[str]] = {}
"""The names of nodes that contain a blank, by their first word."""


def width_of(stream: TextIO) -> int | None:
    """Return the width of *stream* in columns; None if it is not a terminal."""
    if not stream.isatty():
        return None
    import shutil  # not at the top: it loads the modules of all archive formats, and only a terminal needs it

    return max(_LEAST, shutil.get_terminal_size((NARROW, 24)).columns)


def keep_whole(names: Iterable[str | None]) -> None:
    """Register *names* of nodes, within which no later line is folded. None, an unnamed node, is ignored."""
    for name in names:
        name = clean(name or "")
        first, blank, _ = name.partition(" ")
        if first and blank:
            _names.setdefault(first, set()).add(name)


def forget_names() -> None:
    """Forget all registered names, so that lines may be folded within them again."""
    _names.clear()


def columns(text: str) -> int:
    """Return the width of *text* on a terminal in columns: colours have none, some characters two."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(map(_columns_of, plain(text)))


def _columns_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fold_text(text: str, width: int, hang: int | None = None) -> str:
    """Return *text* with its lines folded to *width* columns.

    *hang*: how many blanks each continuation begins with. None: it begins where the last column of the line begins, if
    the line has columns with at least two blanks between them; else two columns to the right of the line's beginning.
    """
    return "\n".join(each for line in text.split("\n") for each in _fold_line(line, width, hang))


def pieces(text: str) -> list[str]:
    """Return the parts of *text* between which it may be folded, each with the blanks before it."""
    return [part.replace(_GLUE, " ") for part in _glued_pieces(text)]


def _glued_pieces(text: str) -> list[str]:
    return re.findall(r" *[^ ]+| +$", _glued(text))


def _fold_line(line: str, width: int, hang: int | None) -> list[str]:
    if columns(line) <= width:
        return [line]
    parts = _glued_pieces(line)
    before = " " * min(_continuation_indent(plain(line), width // 2) if hang is None else hang, width // 2)
    if max(columns(part.lstrip(" ")) for part in parts) > width - len(before):
        before = " " * min(len(before), _HANG + _indent_of(plain(line)))  # fewer blanks leave room for a path
    lines: list[str] = []
    current = ""
    for part in parts:
        for piece in _split_to_fit(part, width - len(before)):
            if current.strip() and columns(current) + columns(piece) > width:
                lines.append(current.rstrip(" "))
                current = before + piece.lstrip(" ")
            else:
                current += piece
    lines.append(current.rstrip(" "))
    return [each.replace(_GLUE, " ") for each in lines]


def _continuation_indent(line: str, last_start: int) -> int:
    """Return the number of blanks with which the continuation of *line* begins.

    *last_start*: a column that begins further to the right does not count.
    """
    column_starts = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= last_start]
    if column_starts:
        return column_starts[-1]
    indent = _indent_of(line)
    return indent if indent > _CONTINUES_FROM else indent + _HANG


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _split_to_fit(part: str, width: int) -> Iterator[str]:
    """Yield *part* in pieces of at most *width* columns.

    A part that is too long is split at blanks; if pieces are still too long, after commas, and then anywhere.
    """
    if columns(part.lstrip(" ")) <= width:
        yield part
    elif _GLUE in part:
        for each in re.split(f"(?={_GLUE})", part):
            yield from _split_to_fit(each.replace(_GLUE, " "), width)
    elif "," in part.rstrip(","):
        for each in re.split(r"(?<=,)(?=.)", part):
            yield from _split_to_fit(each, width)
    else:
        yield from _cut(part, width)


def _cut(word: str, width: int) -> Iterator[str]:
    """Yield pieces, of at most *width* columns, of a word that is longer. No escape sequence of a colour is cut."""
    current = ""
    for each in _COLOUR_OR_CHAR.findall(word):
        if columns((current + each).lstrip(" ")) > width:
            yield current
            current = ""
        current += each
    yield current


def _glued(text: str) -> str:
    """Return *text* with `_GLUE` in place of each blank at which it must not be folded. Colours in it are ignored."""
    parts = _COLOUR_OR_CHAR.findall(text)
    glued = iter(_glued_plain("".join(part for part in parts if len(part) == 1)))
    return "".join(next(glued) if len(part) == 1 else part for part in parts)


def _glued_plain(text: str) -> str:
    text = _NUMBERED.sub(rf"\1{_GLUE}", text)
    if not _names:
        return text
    for first_word in {match[0].lstrip(_OPENING) for match in _FIRST_WORD.finditer(text.replace(_GLUE, " "))}:
        for name in _names.get(first_word, ()):
            text = text.replace(_NUMBERED.sub(rf"\1{_GLUE}", name), name.replace(" ", _GLUE))
    return text
