"""Colour for what has a rank (severity), a direction (change) or is a verdict; the word itself always stands there too.

Text is painted where it is made and loses its colour where it is written, if the stream is to have none: so nobody who
makes a line asks where it goes. What comes from the fabric is cleaned before it is painted, so that every escape in a
line is one of `paint`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TextIO

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
    "good": {"fg": "green"},
    "bad": {"fg": "red", "bold": True},
    "doubtful": {"fg": "yellow"},
}


class Painted(NamedTuple):
    """A value for people in the colour of *role*, as `paint` has it."""

    value: Any
    role: str


def paint(text: str, role: str) -> str:
    """Return *text* in the colour of *role*: a severity, ``added``, ``removed``, ``changed``, or a verdict: ``good``,
    ``bad``, ``doubtful``; any other has none."""
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
    """Let what *context* writes have colour: ``auto`` as the environment says, else on a terminal."""
    context.color = {"always": True, "never": False, "auto": _of_environment()}[wish]


def _of_environment() -> bool | None:
    """Return whether the environment wants colour; None: on a terminal (no-color.org, force-color.org,
    bixense.com/clicolors). NO_COLOR counts first."""
    get = os.environ.get
    if get("NO_COLOR"):
        return False
    if any(get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return False if get("CLICOLOR") == "0" or get("TERM") == "dumb" else None


def _is_wanted(stream: TextIO) -> bool:
    context = click.get_current_context(silent=True)
    wanted = context.color if context is not None else None
    return stream.isatty() if wanted is None else wanted
