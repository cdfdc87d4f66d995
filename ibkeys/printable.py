"""Text from the fabric, made safe to show: a node's description may hold any byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final


def clean(text: str) -> str:
    """Return *text* on one line and without control characters; those of direction (U+202E) and other invisible ones
    are control characters too."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return " " if char == "\n" else char.encode("unicode_escape").decode()


NAMED: Final = 3
"""So many things are named in one sentence; the rest is counted."""


def named(things: Sequence[object]) -> str:
    """Return the first few of *things* and how many more there are."""
    listed = ", ".join(str(each) for each in things[:NAMED])
    return f"{listed} and {len(things) - NAMED} more" if len(things) > NAMED else listed


def counted(number: int, what: str) -> str:
    """Return ``1 port``, ``2 ports``."""
    return f"{number} {what}{'s' if number != 1 else ''}"
