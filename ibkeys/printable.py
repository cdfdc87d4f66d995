"""Text from the fabric, made safe to show: a node's description may hold any byte."""

from __future__ import annotations


def clean(text: str) -> str:
    """Return *text* on one line and without control characters; those of direction (U+202E) and other invisible ones
    are control characters too."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return " " if char == "\n" else char.encode("unicode_escape").decode()
