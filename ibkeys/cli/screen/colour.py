"""Colour for what has a rank (severity) or a direction (change); the word itself always stands there too.

Text is painted where it is made and loses its colour where it is written, if the stream is to have none: so nobody who
makes a line asks where it goes. What comes from the fabric is cleaned before it is painted, so that every escape in a
line is one of `paint`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal, TextIO

import click

Wish = Literal["auto", "always", "never"]
WISHES: Final[tuple[Wish, ...]] = ("auto", "always", "never")
_ESCAPE: Final = "\x1b"

_STYLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "critical": {"fg": "red", "bold": True},
    "high": {"fg": "red"},
    "medium": {"fg": "yellow"},
    "low": {"fg": "cyan"},
    "info": {"fg": "blue"},
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "changed": {"fg": "yellow"},
}


def paint(text: str, role: str) -> str:
    """Return *text* in the colour of *role*: a severity, or ``added``, ``removed``, ``changed``; any other has none."""
    style = _STYLES.get(role)
    return click.style(text, **style) if style is not None and text else text


def role_of_change(before: object, after: object) -> str:
    """Return ``added`` where nothing was before, ``removed`` where nothing is left, else ``changed``."""
    if before in (None, ""):
        return "added"
    return "removed" if after in (None, "") else "changed"


def shown(text: str, stream: TextIO) -> str:
    """Return *text* as *stream* is to have it: painted, or plain."""
    return text if _ESCAPE not in text or _is_wanted(stream) else plain(text)


def plain(text: str) -> str:
    """Return *text* without its colours."""
    return click.unstyle(text) if _ESCAPE in text else text


def choose(context: click.Context, wish: Wish = "auto") -> None:
    """Let what *context* writes have colour: ``auto`` on a terminal, unless NO_COLOR or TERM=dumb are set."""
    refused = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    context.color = {"always": True, "never": False, "auto": False if refused else None}[wish]


def _is_wanted(stream: TextIO) -> bool:
    context = click.get_current_context(silent=True)
    wanted = context.color if context is not None else None
    return stream.isatty() if wanted is None else wanted
