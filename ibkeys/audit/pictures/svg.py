"""SVG elements as text: every attribute and text escaped, nothing invisible let through."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from ibkeys.printable import clean


def element(name: str, *inside: str, **attributes: object) -> str:
    """Return an element around elements made before. ``class_`` is class, ``text_anchor`` is text-anchor."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-') if key != 'viewBox' else key}={quoteattr(clean(str(value)))}"
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{''.join(inside)}</{name}>" if inside else f"<{name}{written}/>"


def text(words: str) -> str:
    """Return a text to put inside an element."""
    return escape(clean(words))


def shortened(words: str, most: int) -> str:
    """Return *words* cut to *most* characters, with an ellipsis where something was cut."""
    shown = clean(words)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def listed(things: Sequence[str], most: int) -> str:
    """Return the first of *things*, and how many more there are."""
    more = len(things) - most
    return ", ".join(things[:most]) + (f" and {more:,} more" if more > 0 else "")
