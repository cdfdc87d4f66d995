"""Making text from the fabric safe to show (a node's description may hold any byte), and cutting long lists."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Sequence
from typing import Final

_LONGEST: Final = 60
"""The most characters that a message quotes."""


class Detail(str):
    """A note for which the user has nothing to decide or to repair. The command line writes it only with ``-v``.
    Documents and the library have it among the other notes. A note about something that was not read is no `Detail`.
    """

    __slots__ = ()


def clean(text: str) -> str:
    """Return *text* on one line: each newline becomes a blank, other control characters are escaped.

    Characters that change the direction of text (U+202E), and other invisible characters, count as control characters.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return " " if char == "\n" else char.encode("unicode_escape").decode()


def place_of(error: BaseException) -> str:
    """Return the file and line of an unexpected *error*, in place of its text, which may quote anything, a key too."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "an unknown place"


def shortened(text: str) -> str:
    """Return *text* in quotes for a message, cut if it is long."""
    return repr(cut(text))


def cut(text: str, most: int = _LONGEST) -> str:
    """Return *text*, or only its beginning if it is longer than *most* characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


NAMED: Final = 3
"""How many things a sentence names at most; the others are counted."""


class Rest(enum.Enum):
    """The treatment of items for which a sentence has no room."""

    COUNTED = ""
    """They are only counted: a script gets them from the attributes of an error."""
    HINTED = " (all of them: -v)"
    NAMED = None
    """All are named: with -v, and by a command that has no option -v."""


_rest = Rest.COUNTED


def set_rest(rest: Rest) -> None:
    """Set how `named` treats items for which there is no room. Only the command line calls this."""
    global _rest
    _rest = rest


def names_all() -> bool:
    """Return whether all items are named, however many there are."""
    return _rest is Rest.NAMED


def calls_from_script() -> bool:
    """Return whether the reader of messages is a script, not a user of the command line."""
    return _rest is Rest.COUNTED


def named(things: Sequence[object], most: int = NAMED) -> str:
    """Return the first *most* of *things*, how many more there are, and how to see them; all if `names_all`."""
    if len(things) <= most or names_all():
        return ", ".join(map(str, things))
    return f"{', '.join(map(str, things[:most]))} and {len(things) - most} more{_rest.value}"


def first_lines(lines: Sequence[str], most: int, rest: Callable[[int], str]) -> list[str]:
    """Return *lines*; if there are more than *most*, the first *most*, and a line about the others.

    *rest*: returns this line for the number of lines that are left out.
    """
    left = len(lines) - most
    return [*lines[:most], rest(left)] if left > 0 else [*lines]


def counted(number: int, what: str) -> str:
    """Return ``1 port``, ``2 ports``."""
    return f"{number} {what}{'s' if number != 1 else ''}"
