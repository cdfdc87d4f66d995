"""Colours for severities, changes and verdicts; the word itself is always written too.

Code that makes a line colours it, and need not know the stream. The function that writes the line removes the colours
if the stream shall have none. Text from the fabric is cleaned before it is coloured, so that every escape sequence in a
line is from `paint`.
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


class ColouredValue(NamedTuple):
    """A value for people with the *role* that `paint` colours it by."""

    value: Any
    role: str


def paint(text: str, role: str) -> str:
    """Return *text* in the colour of *role*; unchanged for a role without a colour.

    A role is a severity, a change (``added``, ``removed``, ``changed``) or a verdict (``good``, ``bad``, ``doubtful``).
    """
    style = _STYLES.get(role)
    return click.style(text, **style) if style is not None and text else text


def role_of_change(before: object, after: object) -> str:
    """Return the role of a change.

    ``added`` if *before* is None or empty, ``removed`` if *after* is, else ``changed``.
    """
    if before in (None, ""):
        return "added"
    return "removed" if after in (None, "") else "changed"


def for_stream(text: str, stream: TextIO) -> str:
    """Return *text* for *stream*: with its colours, or without."""
    return text if _ESCAPE not in text or _is_wanted(stream) else plain(text)


def plain(text: str) -> str:
    """Return *text* without its colours."""
    return click.unstyle(text) if _ESCAPE in text else text


def set_colours(context: click.Context, _param: click.Parameter, wish: Wish) -> None:
    """Set whether the command of *context* writes colours: the callback of --color.

    ``auto``: as environment variables say, else on a terminal only.
    """
    context.color = {"always": True, "never": False, "auto": None}[wish]


def _wanted_by_environment() -> bool | None:
    """Return whether environment variables ask for colours; None: on a terminal only. NO_COLOR has precedence.

    Sources: no-color.org, force-color.org, bixense.com/clicolors.
    """
    get = os.environ.get
    if get("NO_COLOR"):
        return False
    if any(get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return False if get("CLICOLOR") == "0" or get("TERM") == "dumb" else None


def _is_wanted(stream: TextIO) -> bool:
    context = click.get_current_context(silent=True)
    color = context.color if context is not None else None
    if color is None:
        color = _wanted_by_environment()
    return stream.isatty() if color is None else color
