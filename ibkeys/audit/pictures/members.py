"""Partitions as bars: how many full and limited members each has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ibkeys.audit.pictures.svg import element, shortened, text

Counted = tuple[int, str | None, int, int]
"""A partition, its name or None, its full members, its limited members."""

_ROW: Final = 38
_BAR: Final = 11
_NAME: Final = 22
_LEAST: Final = 0.4
"""The width of the narrowest bar, in percent, so that one member of very many is still visible."""


def members_svg(partitions: Sequence[Counted], scale: int) -> str:
    """Return the bars as an SVG to be put into a page. The SVG is as wide as its place in the page, and its text has
    the same size at any width. *scale* is the number of members that a whole row stands for.
    """
    rows = "".join(part for line, each in enumerate(partitions) for part in _row(each, line * _ROW, max(scale, 1)))
    label = f"{len(partitions)} partitions with their full and limited members"
    return element("svg", rows, class_="picture", height=len(partitions) * _ROW, role="img", aria_label=label)


def _row(partition: Counted, y: int, scale: int) -> Iterator[str]:
    number, name, full, limited = partition
    label = f"0x{number:04x}" + (f" {shortened(name, _NAME)}" if name else "")
    yield element(
        "text", text(label), *([element("title", text(name))] if name and len(name) > _NAME else []), x=0, y=y + 14
    )
    yield element("text", text(_counts(full, limited)), class_="count", x="100%", y=y + 14, text_anchor="end")
    yield element("rect", class_="track", x=0, y=y + 19, width="100%", height=_BAR, rx=2)
    x = 0.0
    for kind, width in zip(("full", "limited"), _widths(full, limited, scale), strict=True):
        if width:
            place = {"x": f"{x:.2f}%", "y": y + 19, "width": f"{width:.2f}%", "height": _BAR}
            yield element("rect", class_=kind, **place)
            x += width


def _widths(full: int, limited: int, scale: int) -> list[float]:
    """Return the widths of the two bars in percent; the larger is shortened where the smaller would be invisible."""
    widths = [max(100 * members / scale, _LEAST) if members else 0.0 for members in (full, limited)]
    larger = widths.index(max(widths))
    widths[larger] = min(widths[larger], 100 - widths[1 - larger])
    return widths


def _counts(full: int, limited: int) -> str:
    return ", ".join(f"{members:,} {kind}" for kind, members in (("full", full), ("limited", limited)) if members) or (
        "no members"
    )
