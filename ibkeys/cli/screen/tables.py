"""Laying out a table to fit the width: each column is as wide as its widest cell if there is room.

If there is not, columns with the same value in every row are written once, before the table. If the other columns are
still too wide, cells are folded within their column, or a row takes several lines, whichever needs fewer lines. Nothing
is left out, and no name, GUID or value that fits a line is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat, zip_longest
from typing import Final, NamedTuple

from ibkeys.cli.screen.colour import paint
from ibkeys.cli.screen.lines import columns, fold_text, pieces

JOINED: Final = ", "
"""The text between the parts of a line of a cell."""
_GAP: Final = 2
_INDENT: Final = 4
"""Blanks before the further lines of a row."""


class CellLine(NamedTuple):
    """One line of a cell, cleaned. ``role``: the role of its colour (`colour.paint`).

    ``parts``: the text and role of each part, if the roles differ. `JOINED` separates the parts in ``text``; if they do
    not fit the column together, each part has its own line.
    """

    text: str
    role: str = ""
    parts: tuple[tuple[str, str], ...] = ()


Cell = tuple[CellLine, ...]
CellRows = Sequence[Sequence[Cell]]
_EMPTY: Final = CellLine("")


def _fold_cell(cell: Cell, width: int) -> Cell:
    """Return *cell* with its lines folded to *width* columns."""
    for line in cell:
        if _width(line.text) > width:
            break
    else:
        return cell
    return tuple(
        CellLine(each, role)
        for line in cell
        for text, role in line.parts or ((line.text, line.role),)
        for each in fold_text(text, width, 0).split("\n")
    )


def _width(text: str) -> int:
    """Return the width of a cleaned text without colours. Faster than `columns`, because tables may be very large."""
    return len(text) if text.isascii() else columns(text)


def _min_width(rows: CellRows, at: int) -> int:
    """Return the least width of the column *at*: the width of its longest part that cannot be folded."""
    parts = (part for row in rows for line in row[at] for part in pieces(line.text))
    return max((columns(part.lstrip(" ")) for part in parts), default=0)


_RowLayout = list[list[tuple[int, int]]]
"""The columns on each line of a row, as (index, width). Rows that fit the width have one line."""


def table_layout(
    titles: Sequence[str],
    rows: CellRows,
    numeric: Sequence[bool],
    below: Iterable[Sequence[str]] | None,
    width: int | None,
) -> Iterator[str]:
    """Yield the lines of a table with *titles*, at most *width* columns wide; None: of any width.

    *numeric*: for each column whether it is aligned at the right. *below*: for each row the lines that follow it
    unchanged; None: no lines.
    """
    title_cells = [(CellLine(title),) for title in titles]
    table = [title_cells, *rows]
    natural = [(at, max(_width(line.text) for row in table for line in row[at])) for at in range(len(titles))]
    tiers: _RowLayout = [natural]
    if width is not None and _width_of(natural) > width:
        constant = _constant_columns(rows)
        if constant:
            values = "; ".join(f"{titles[at]} {_cell_in_words(rows[0][at])}" for at in constant)
            yield from fold_text(f"the same in every row: {values}", width).split("\n")
        tiers = _layout_that_fits(table, [each for each in natural if each[0] not in constant], width)
    yield from _lines_of_row(title_cells, tiers, numeric)
    for row, further in zip(rows, repeat(()) if below is None else below, strict=False):
        yield from _lines_of_row(row, tiers, numeric)
        yield from further


def _width_of(tier: Sequence[tuple[int, int]]) -> int:
    return sum(width for _, width in tier) + _GAP * (len(tier) - 1)


def _constant_columns(rows: CellRows) -> list[int]:
    """Return the indexes of columns that have the same value in all rows, except the first column.

    A single row has no such columns.
    """
    if len(rows) < 2:
        return []
    return [at for at in range(1, len(rows[0])) if all(row[at] == rows[0][at] for row in rows)]


def _cell_in_words(cell: Cell) -> str:
    return " ".join(paint(line.text, line.role) for line in cell if line.text) or "-"


def _layout_that_fits(rows: CellRows, natural: Sequence[tuple[int, int]], width: int) -> _RowLayout:
    """Return the layout of fewer lines: with columns as wide as their widest cells, or with folded cells.

    *natural*: the columns with the widths of their widest cells.
    """
    room = width - _INDENT
    wide = _split_into_lines([(at, min(wanted, room)) for at, wanted in natural], width)
    if len(wide) == 1 and all(wanted <= room for _, wanted in natural):
        return wide
    least = {at: min(_min_width(rows, at), room) for at, _ in natural}
    narrow = [
        _widen(tier, dict(natural), width - (_INDENT if number else 0))
        for number, tier in enumerate(_split_into_lines([*least.items()], width))
    ]
    return min((narrow, wide), key=lambda tiers: _count_lines(rows, tiers))


def _split_into_lines(sized: Sequence[tuple[int, int]], width: int) -> _RowLayout:
    tiers: _RowLayout = [[]]
    for each in sized:
        room = width - (_INDENT if len(tiers) > 1 else 0)
        if tiers[-1] and _width_of([*tiers[-1], each]) > room:
            tiers.append([])
        tiers[-1].append(each)
    return tiers


def _widen(tier: list[tuple[int, int]], natural: dict[int, int], room: int) -> list[tuple[int, int]]:
    """Return *tier* with wider columns: its free room is given first to the columns that need the least.

    *natural*: the widths of the widest cells. *room*: the width for the whole tier.
    """
    free = room - _width_of(tier)
    widths = dict(tier)
    order = sorted(widths, key=lambda at: natural[at] - widths[at])
    for number, at in enumerate(order):
        more = min(natural[at] - widths[at], free // (len(order) - number))
        widths[at] += max(more, 0)
        free -= max(more, 0)
    return [(at, widths[at]) for at, _ in tier]


def _count_lines(rows: CellRows, tiers: _RowLayout) -> int:
    return sum(max(len(_fold_cell(row[at], width)) for at, width in tier) for row in rows for tier in tiers)


def _lines_of_row(row: Sequence[Cell], tiers: _RowLayout, numeric: Sequence[bool]) -> Iterator[str]:
    for number, tier in enumerate(tiers):
        before = " " * _INDENT if number else ""
        for lines in zip_longest(*[_fold_cell(row[at], width) for at, width in tier], fillvalue=_EMPTY):
            parts = [_pad(line, width, numeric[at]) for line, (at, width) in zip(lines, tier, strict=True)]
            yield (before + (" " * _GAP).join(parts)).rstrip()


def _pad(line: CellLine, width: int, right: bool) -> str:
    text, role, parts = line
    blanks = " " * (width - _width(text))
    if parts:
        text = JOINED.join(paint(*part) for part in parts)
    elif role:
        text = paint(text, role)
    return blanks + text if right else text + blanks
