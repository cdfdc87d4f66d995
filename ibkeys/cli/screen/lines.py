"""Folding lines to the width of a terminal: between words, never within a node's name, a GUID or a value.

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
_DEEP: Final = 16
"""Blanks at the beginning of a line above which the line continues another one.

Its own continuation begins in the same column.
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
    import shutil  # late, and only for a terminal: it loads the modules of all archive formats

    return max(_LEAST, shutil.get_terminal_size((NARROW, 24)).columns)


def keep_whole(names: Iterable[str | None]) -> None:
    """Keep the *names* of nodes whole in lines that are folded from now on; None is an unnamed node."""
    for name in names:
        name = clean(name or "")
        first, blank, _ = name.partition(" ")
        if first and blank:
            _names.setdefault(first, set()).add(name)


def forget_names() -> None:
    """Allow lines to be folded within all names again."""
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


def folded(text: str, width: int | None, hang: int | None = None) -> str:
    """Return *text* with its lines folded to *width* columns; None: unchanged.

    *hang*: blanks before a continued line. None: as many as the last column of the line has before it, if two blanks or
    more separate columns, else a few more than the line itself has.
    """
    if width is None:
        return text
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
    before = " " * min(_hang_of(plain(line), width // 2) if hang is None else hang, width // 2)
    if max(columns(part.lstrip(" ")) for part in parts) > width - len(before):
        before = " " * min(len(before), _HANG + _indent_of(plain(line)))  # fewer blanks leave room for a path
    lines: list[str] = []
    current = ""
    for part in parts:
        for fitting in _fitting(part, width - len(before)):
            if current.strip() and columns(current) + columns(fitting) > width:
                lines.append(current.rstrip(" "))
                current = before + fitting.lstrip(" ")
            else:
                current += fitting
    lines.append(current.rstrip(" "))
    return [each.replace(_GLUE, " ") for each in lines]


def _hang_of(line: str, most: int) -> int:
    """Return the number of blanks before the continuation of *line*.

    *most*: the last place where a column may begin.
    """
    begins = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= most]
    if begins:
        return begins[-1]
    own = _indent_of(line)
    return own if own > _DEEP else own + _HANG


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _fitting(part: str, width: int) -> Iterator[str]:
    """Yield *part* in pieces of at most *width* columns.

    Unchanged if it fits; else split at blanks, then after commas, then anywhere.
    """
    if columns(part.lstrip(" ")) <= width:
        yield part
    elif _GLUE in part:
        for each in re.split(f"(?={_GLUE})", part):
            yield from _fitting(each.replace(_GLUE, " "), width)
    elif "," in part.rstrip(","):
        for each in re.split(r"(?<=,)(?=.)", part):
            yield from _fitting(each, width)
    else:
        yield from _cut(part, width)


def _cut(word: str, width: int) -> Iterator[str]:
    """Yield pieces of a word that is longer than a line; no escape of a colour is cut."""
    current = ""
    for each in _COLOUR_OR_CHAR.findall(word):
        if columns((current + each).lstrip(" ")) > width:
            yield current
            current = ""
        current += each
    yield current


def _glued(text: str) -> str:
    """Return *text* with `_GLUE` for each blank at which it is not folded. Colours make no difference to the choice."""
    parts = _COLOUR_OR_CHAR.findall(text)
    glued = iter(_glued_plain("".join(part for part in parts if len(part) == 1)))
    return "".join(next(glued) if len(part) == 1 else part for part in parts)


def _glued_plain(text: str) -> str:
    text = _NUMBERED.sub(rf"\1{_GLUE}", text)
    if not _names:
        return text
    for found in {match[0].lstrip(_OPENING) for match in _FIRST_WORD.finditer(text.replace(_GLUE, " "))}:
        for name in _names.get(found, ()):
            text = text.replace(_NUMBERED.sub(rf"\1{_GLUE}", name), name.replace(" ", _GLUE))
    return text
