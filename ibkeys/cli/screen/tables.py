"""Laying out a table to fit the width: each column is as wide as its widest cell if there is room.

Else, in this order: columns with the same value in every row are written once, cells are folded within their column,
and a row takes several lines. Nothing is left out, and no name, GUID or value that fits a line is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat, zip_longest
from typing import Final, NamedTuple

from ibkeys.cli.screen.colour import paint
from ibkeys.cli.screen.lines import columns, folded, pieces

JOINED: Final = ", "
"""The text between the parts of a line of a cell."""
_GAP: Final = 2
_INDENT: Final = 4
"""Blanks before the further lines of a row."""


class CellLine(NamedTuple):
    """One line of a cell, cleaned. ``role``: the role of its colour (`colour.paint`).

    ``parts``: the text and role of each part if the roles differ. `JOINED` separates them; without room for all, each
    has its own line.
    """

    text: str
    role: str = ""
    parts: tuple[tuple[str, str], ...] = ()


Cell = tuple[CellLine, ...]
CellRows = Sequence[Sequence[Cell]]
_EMPTY: Final = CellLine("")


def _within(cell: Cell, width: int) -> Cell:
    """Return the lines of *cell*, folded to *width*."""
    for line in cell:
        if _width(line.text) > width:
            break
    else:
        return cell
    return tuple(
        CellLine(each, role)
        for line in cell
        for text, role in line.parts or ((line.text, line.role),)
        for each in folded(text, width, 0).split("\n")
    )


def _width(text: str) -> int:
    """Return the `columns` of a cleaned text without colours. Faster for ASCII, because tables may be very large."""
    return len(text) if text.isascii() else columns(text)


def _least(rows: CellRows, at: int) -> int:
    """Return the width of a column's longest part that cannot be folded."""
    parts = (part for row in rows for line in row[at] for part in pieces(line.text))
    return max((columns(part.lstrip(" ")) for part in parts), default=0)


_Tiers = list[list[tuple[int, int]]]
"""For each line of a row its columns, as (index, width)."""


def laid_out(
    titles: Sequence[str],
    rows: CellRows,
    numeric: Sequence[bool],
    below: Iterable[Sequence[str]] | None,
    width: int | None,
) -> Iterator[str]:
    """Yield the lines of a table with *titles*, of at most *width* columns; None: of any width.

    *numeric*: whether each column stands at the right. *below*: lines to write unchanged below each row.
    """
    head = [(CellLine(title),) for title in titles]
    table = [head, *rows]
    every = [(at, max(_width(line.text) for row in table for line in row[at])) for at in range(len(titles))]
    tiers: _Tiers = [every]
    if width is not None and _width_of(every) > width:
        shared = _shared(rows)
        if shared:
            values = "; ".join(f"{titles[at]} {_in_prose(rows[0][at])}" for at in shared)
            yield from folded(f"the same in every row: {values}", width).split("\n")
        tiers = _fitted(table, [each for each in every if each[0] not in shared], width)
    yield from _lines_of_row(head, tiers, numeric)
    for row, further in zip(rows, repeat(()) if below is None else below, strict=False):
        yield from _lines_of_row(row, tiers, numeric)
        yield from further


def _width_of(tier: Sequence[tuple[int, int]]) -> int:
    return sum(width for _, width in tier) + _GAP * (len(tier) - 1)


def _shared(rows: CellRows) -> list[int]:
    """Return the columns with the same value in all rows, except the first column; none for a single row."""
    if len(rows) < 2:
        return []
    return [at for at in range(1, len(rows[0])) if all(row[at] == rows[0][at] for row in rows)]


def _in_prose(cell: Cell) -> str:
    return " ".join(paint(line.text, line.role) for line in cell if line.text) or "-"


def _fitted(rows: CellRows, natural: Sequence[tuple[int, int]], width: int) -> _Tiers:
    """Return the layout with the fewest lines: columns in their natural width, or with folded cells."""
    room = width - _INDENT
    wide = _in_tiers([(at, min(wanted, room)) for at, wanted in natural], width)
    if len(wide) == 1 and all(wanted <= room for _, wanted in natural):
        return wide
    least = {at: min(_least(rows, at), room) for at, _ in natural}
    narrow = [
        _widened(tier, dict(natural), width - (_INDENT if number else 0))
        for number, tier in enumerate(_in_tiers([*least.items()], width))
    ]
    return min((narrow, wide), key=lambda tiers: _height(rows, tiers))


def _in_tiers(sized: Sequence[tuple[int, int]], width: int) -> _Tiers:
    tiers: _Tiers = [[]]
    for each in sized:
        room = width - (_INDENT if len(tiers) > 1 else 0)
        if tiers[-1] and _width_of([*tiers[-1], each]) > room:
            tiers.append([])
        tiers[-1].append(each)
    return tiers


def _widened(tier: list[tuple[int, int]], natural: dict[int, int], room: int) -> list[tuple[int, int]]:
    """Return *tier* with the free room given to its columns, first to the columns that need the least."""
    left = room - _width_of(tier)
    widths = dict(tier)
    order = sorted(widths, key=lambda at: natural[at] - widths[at])
    for number, at in enumerate(order):
        more = min(natural[at] - widths[at], left // (len(order) - number))
        widths[at] += max(more, 0)
        left -= max(more, 0)
    return [(at, widths[at]) for at, _ in tier]


def _height(rows: CellRows, tiers: _Tiers) -> int:
    return sum(max(len(_within(row[at], width)) for at, width in tier) for row in rows for tier in tiers)


def _lines_of_row(row: Sequence[Cell], tiers: _Tiers, numeric: Sequence[bool]) -> Iterator[str]:
    for number, tier in enumerate(tiers):
        before = " " * _INDENT if number else ""
        for lines in zip_longest(*[_within(row[at], width) for at, width in tier], fillvalue=_EMPTY):
            parts = [_padded(line, width, numeric[at]) for line, (at, width) in zip(lines, tier, strict=True)]
            yield (before + (" " * _GAP).join(parts)).rstrip()


def _padded(line: CellLine, width: int, right: bool) -> str:
    text, role, parts = line
    blanks = " " * (width - _width(text))
    if parts:
        text = JOINED.join(paint(*part) for part in parts)
    elif role:
        text = paint(text, role)
    return blanks + text if right else text + blanks
