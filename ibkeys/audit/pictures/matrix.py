"""The partition matrix as SVG: one file, or parts that stand side by side in a page and below each other on paper.

Neighbouring cells that are alike are drawn as one. No label overlaps another: their sizes are computed before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from ibkeys.audit.pictures.columns import Matrix, MatrixColumn, MatrixRow
from ibkeys.audit.pictures.svg import element, file_of, fitting, picture, text, text_width

CELL: Final = 16
BAND: Final = 24
"""Columns of a part: with the labels, as wide as a sheet of A4."""
_NAME: Final = 210
_HEAD: Final = 260
"""Most room of a partition's name, and of the ports above a column, in pixels."""
_EDGE: Final = 8
_HINT: Final = "ports with the same memberships"
_KINDS: Final = (("full", "full member"), ("limited", "limited member"), ("both", "both"))

STYLE: Final = """
.matrix {
  --page: #ffffff; --text: #191d22; --muted: #4f5a65; --line: #d3d9e0;
  --full: #0a5596; --limited: #f3cf97; --edge: #7d4e00;
}
@media screen and (prefers-color-scheme: dark) {
  .matrix {
    --page: #14171a; --text: #e9ecef; --muted: #a9b3bd; --line: #3a424a;
    --full: #58a6e8; --limited: #5c4314; --edge: #e2a13a;
  }
}
.matrix .page { fill: var(--page); }
.matrix text { fill: var(--text); font: 12px system-ui, "DejaVu Sans", sans-serif; }
.matrix .muted { fill: var(--muted); } .matrix .line { stroke: var(--line); }
.matrix .full { fill: var(--full); } .matrix .limited { fill: var(--limited); stroke: var(--edge); }
.matrix .dot { fill: var(--limited); stroke: var(--edge); }
"""


def matrix_svg(matrix: Matrix) -> str:
    """Return the matrix as an SVG file.

    A cell is dark for full members, light with an edge for limited members, dark with a light dot for ports with both
    P_Keys.
    """
    frame = _Frame(matrix)
    foot = frame.height + 14
    width = max(frame.left + frame.width(len(matrix.columns)), text_width(matrix.left_out) + 2 * _EDGE, 480)
    height = foot + (46 if matrix.left_out else 26)
    parts = [
        element("style", STYLE),
        element("rect", class_="page", width=width, height=height),
        *frame.labels(),
        element("g", *frame.band(0, len(matrix.columns)), transform=f"translate({frame.left} 0)"),
        *_legend(foot),
    ]
    if matrix.left_out:
        parts.append(element("text", text(matrix.left_out), class_="muted", x=_EDGE, y=foot + 34))
    label = f"{len(matrix.rows)} partitions and {matrix.ports} ports with their memberships"
    return file_of(picture("matrix", parts, width, height, label))


def matrix_parts(matrix: Matrix) -> list[tuple[str, str]]:
    """Return two pictures for every `BAND` columns of the matrix: the labels of its rows, and the columns. The page
    needs `STYLE`."""
    frame = _Frame(matrix)
    parts = []
    for first in range(0, max(len(matrix.columns), 1), BAND):
        count = min(BAND, len(matrix.columns) - first)
        labels = picture("matrix", [frame.ground(frame.left), *frame.labels()], frame.left, frame.height, "partitions")
        width = frame.width(count)
        label = f"columns {first + 1} to {first + count}"
        band = [frame.ground(width), *frame.band(first, count)]
        columns = picture("matrix", band, width, frame.height, label, data_first=first, data_top=frame.top)
        parts.append((labels, columns))
    return parts


class _Frame:
    """The position of every element. Lengths are pixels; the x of a band begins at its first column."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        rows = matrix.rows
        self._names = [fitting(_label(row), _NAME) for row in rows]
        self._counts = [_counts(row) for row in rows]
        self._heads = [_head(index, column) for index, column in enumerate(matrix.columns)]
        name = max(map(text_width, self._names), default=80)
        self._count_at = _EDGE + name + 12
        self.left = max(self._count_at + max(map(text_width, self._counts), default=0), text_width(_HINT) + _EDGE) + 10
        self.top = max(map(text_width, self._heads), default=20) + 14
        self.height = self.top + max(len(rows), 1) * CELL + 2

    def width(self, columns: int) -> int:
        """Return how wide a band of so many columns is."""
        return max(columns, 1) * CELL + 2

    def ground(self, width: int) -> str:
        return element("rect", class_="page", width=width, height=self.height)

    def labels(self) -> Iterator[str]:
        yield element("text", text(_HINT), class_="muted", x=_EDGE, y=self.top - 8)
        if not self._names:
            yield element("text", text("no partition"), x=_EDGE, y=self.top + 12)
        for index, row in enumerate(self._matrix.rows):
            y = self.top + index * CELL + 12
            title = [element("title", text(row.name))] if row.name else []
            yield element("text", *title, text(self._names[index]), x=_EDGE, y=y, data_row=index)
            yield element("text", text(self._counts[index]), class_="muted", x=self._count_at, y=y, data_row=index)

    def band(self, first: int, count: int) -> Iterator[str]:
        columns = self._matrix.columns[first : first + count]
        for index, column in enumerate(columns):
            yield element(
                "text",
                element("title", text(fitting(", ".join(column.names), 3000))),
                text(self._heads[first + index]),
                transform=f"translate({index * CELL + CELL // 2 + 4} {self.top - 6}) rotate(-90)",
                data_column=first + index,
            )
        yield _lines(len(columns), len(self._matrix.rows), self.top)
        yield from _cells(columns, self._matrix.rows, self.top)


def _lines(columns: int, rows: int, top: int) -> str:
    right, foot = columns * CELL, top + rows * CELL
    down = "".join(f"M{index * CELL} {top}V{foot}" for index in range(columns + 1))
    across = "".join(f"M0 {top + index * CELL}H{right}" for index in range(rows + 1))
    return element("path", class_="line", d=down + across, fill="none")


def _cells(columns: Sequence[MatrixColumn], rows: Sequence[MatrixRow], top: int) -> Iterator[str]:
    place = {row.partition: index for index, row in enumerate(rows)}
    by_row: dict[int, list[tuple[int, str]]] = {}
    for index, column in enumerate(columns):
        for partition, kind in column.keys:
            if partition in place:
                by_row.setdefault(place[partition], []).append((index, kind))
    for row, cells in sorted(by_row.items()):
        y = top + row * CELL
        # neighbouring columns of one kind have the same difference between column and position, and are drawn as one
        for (_, kind), run in groupby(enumerate(cells), key=lambda item: (item[1][0] - item[0], item[1][1])):
            indexes = [index for _, (index, _) in run]
            x, width = indexes[0] * CELL, len(indexes) * CELL
            title = element("title", text(f"{fitting(_label(rows[row]), _NAME)}: {kind}"))
            shape = "limited" if kind == "limited" else "full"
            yield element("rect", title, class_=shape, x=x + 1.5, y=y + 1.5, width=width - 3, height=CELL - 3, rx=2)
            if kind == "both":
                for index in indexes:
                    yield element("circle", class_="dot", cx=index * CELL + CELL / 2, cy=y + CELL / 2, r=3)


def _legend(y: int) -> Iterator[str]:
    for index, (kind, words) in enumerate(_KINDS):
        x = _EDGE + index * 150
        shape = "limited" if kind == "limited" else "full"
        yield element("rect", class_=shape, x=x + 0.5, y=y + 0.5, width=12, height=12, rx=2)
        if kind == "both":
            yield element("circle", class_="dot", cx=x + 6.5, cy=y + 6.5, r=3)
        yield element("text", text(words), x=x + 18, y=y + 11)


def _label(row: MatrixRow) -> str:
    return f"0x{row.partition:04x}" + (f" {row.name}" if row.name else "")


def _counts(row: MatrixRow) -> str:
    return f"{row.full:,} full, {row.limited:,} lim."


def _head(index: int, column: MatrixColumn) -> str:
    ports = f"{len(column.ports):,} ports " if len(column.ports) > 1 else ""
    return fitting(f"{index + 1}: {ports}{', '.join(column.names)}", _HEAD)
