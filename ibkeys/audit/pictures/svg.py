"""SVG elements as text: every attribute and text escaped, nothing invisible let through."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from ibkeys.printable import clean

_WIDTHS: Final = {
    **dict.fromkeys("0123456789abcdeghknopqsuvxyz_", 7.7),
    **dict.fromkeys("iljI|.,:;' ", 4.1),
    **dict.fromkeys('ftr[]()/\\-"!', 5.6),
    **dict.fromkeys("mwMWOQGDHNU@%&+=<>#~^…", 12.1),
}
"""Widths of letters in DejaVu Sans of 12 pixels, the widest of the fonts in the style, rounded up."""
_ASCII: Final = 8.6
_OTHER: Final = 17.0
"""The widths of all other characters: `_ASCII` for ASCII, `_OTHER` for the rest of Unicode."""


def element(name: str, *inside: str, **attributes: object) -> str:
    """Return an element with the elements *inside* it. ``class_`` is class, ``text_anchor`` is text-anchor."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-') if key != 'viewBox' else key}={quoteattr(clean(str(value)))}"
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{''.join(inside)}</{name}>" if inside else f"<{name}{written}/>"


def picture(
    class_: str, parts: Sequence[str], width: int, height: int, label: str, top: int = 0, **more: object
) -> str:
    """Return an ``svg`` element of *parts*, which begin at the height *top*. A page can hold it, and `file_of` makes a
    file of it.
    """
    return element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_=class_,
        viewBox=f"0 {top} {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        **more,
    )


def file_of(svg: str) -> str:
    """Return the text of a file with nothing but a `picture`."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n'


def text(words: str) -> str:
    """Return a text to put inside an element."""
    return escape(clean(words))


def shortened(words: str, most: int) -> str:
    """Return *words* cut to *most* characters, with an ellipsis where something was cut."""
    shown = clean(words)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def text_width(words: str) -> int:
    """Return the width in pixels that *words* have at most, at 12 pixels in the fonts of the style."""
    return math.ceil(sum(_WIDTHS.get(char, _ASCII if char.isascii() else _OTHER) for char in clean(words)))


def fitting(words: str, most: int) -> str:
    """Return *words* cut to a `text_width` of *most*, with an ellipsis where something was cut."""
    shown = clean(words)
    if text_width(shown) <= most:
        return shown
    room = most - text_width("…")
    for length, char in enumerate(shown):
        room -= text_width(char)
        if room < 0:
            return shown[:length] + "…"
    return shown


def broken(words: str, most: int) -> list[str]:
    """Return *words* as lines, broken after commas. No line has a `text_width` above *most*: a longer part is cut."""
    lines = [""]
    for part in re.split(r"(?<=,) ", clean(words)):
        longer = f"{lines[-1]} {part}" if lines[-1] else part
        if text_width(longer) <= most or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(part)
    return [fitting(line, most) for line in lines]


def listed(things: Sequence[str], most: int) -> str:
    """Return, as text, the first *most* of *things*, and how many more there are."""
    more = len(things) - most
    return ", ".join(things[:most]) + (f" and {more:,} more" if more > 0 else "")
