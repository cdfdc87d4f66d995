"""The partition matrix: partitions down, ports across. Ports with the same P_Keys share one column, so that a fabric of
40,000 ports is as wide as it has kinds of ports, and neighbouring cells that are alike are drawn as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeVar

from ibkeys.audit.pictures.svg import element, listed, shortened, text

Partition = tuple[int, str | None, Sequence[int], Sequence[int]]
"""A partition, its name or None, the GUIDs of its full members, those of its limited members."""

T = TypeVar("T")

MOST: Final = 400
"""Rows and columns that a picture shows; each still has the size of a letter."""
_CELL: Final = 16
_LETTER: Final = 7.2
"""Width of a letter, at most, in the fonts that are asked for."""
_RIGHT: Final = 130
_TOP: Final = 110
_NAME: Final = 22
_NAMED: Final = 8
"""Ports of a column that its tooltip names."""

STYLE: Final = """
.matrix {
  --page: #ffffff; --text: #191d22; --muted: #4f5a65; --line: #d3d9e0;
  --full: #0a5596; --limited: #f3cf97; --edge: #7d4e00;
}
@media (prefers-color-scheme: dark) {
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


@dataclass(frozen=True, slots=True)
class Column:
    """Ports with the same P_Keys. ``keys``: (partition, ``full``, ``limited`` or ``both``); ``ports``: their GUIDs."""

    keys: tuple[tuple[int, str], ...]
    ports: tuple[int, ...]


def columns_of(partitions: Sequence[Partition]) -> list[Column]:
    """Return the ports that are in some partition, put together where their P_Keys are the same; those of like
    partitions side by side."""
    keys: dict[int, dict[int, str]] = {}
    for partition, _, full, limited in partitions:
        for kind, guids in (("full", full), ("limited", limited)):
            for guid in guids:
                held = keys.setdefault(guid, {})
                held[partition] = kind if held.get(partition, kind) == kind else "both"
    groups: dict[tuple[tuple[int, str], ...], list[int]] = {}
    for guid, held in keys.items():
        groups.setdefault(tuple(sorted(held.items())), []).append(guid)
    return [Column(held, tuple(guids)) for held, guids in sorted(groups.items())]


@dataclass(frozen=True, slots=True)
class Matrix:
    """What a picture shows: its columns, its rows, and in words what it has no room for."""

    columns: Sequence[Column]
    rows: Sequence[Partition]
    ports: int
    left_out: str


def lay_out(partitions: Sequence[Partition]) -> Matrix:
    """Return what a picture of *partitions* shows: all of it, or of very many the kinds with the most ports, in their
    order, and the partitions that these are in."""
    every = columns_of(partitions)
    columns = _largest(every, [len(column.ports) for column in every])
    if len(columns) < len(every):
        held = {partition for column in columns for partition, _ in column.keys}
        rows = [each for each in partitions if each[0] in held]
    else:
        rows = list(partitions)
    rows = _largest(rows, [len(full) + len(limited) for _, _, full, limited in rows])
    ports = sum(len(column.ports) for column in every)
    said = []
    if len(columns) < len(every):
        missing = ports - sum(len(column.ports) for column in columns)
        said.append(f"{len(every) - len(columns):,} kinds of ports ({missing:,} ports)")
    if len(rows) < len(partitions):
        said.append(f"{len(partitions) - len(rows):,} partitions")
    return Matrix(columns, rows, ports, f"Left out for want of room: {' and '.join(said)}." if said else "")


def _largest(things: Sequence[T], sizes: Sequence[int]) -> list[T]:
    """Return the `MOST` things of the largest sizes, in their order."""
    if len(things) <= MOST:
        return list(things)
    chosen = sorted(range(len(things)), key=lambda index: (-sizes[index], index))[:MOST]
    return [things[index] for index in sorted(chosen)]


def partition_matrix_svg(
    partitions: Sequence[Partition], names: Mapping[int, str] | None = None, *, standalone: bool = True
) -> str:
    """Return the matrix as an SVG file, or with *standalone* False as an element for a page that has `STYLE`.

    *names*: port GUID → what to call the port. A cell is dark for full members, light with an edge for limited ones,
    dark with a light dot for ports with both P_Keys.
    """
    matrix = lay_out(partitions)
    columns, rows = matrix.columns, matrix.rows
    left = 24 + round(_LETTER * max([len(_label(each)) for each in rows], default=12))
    width = left + max(len(columns), 1) * _CELL + _RIGHT
    foot = _TOP + max(len(rows), 1) * _CELL
    height = foot + (60 if matrix.left_out else 40)
    width = max(width, 640)
    parts = [
        *([element("style", STYLE)] if standalone else []),
        element("rect", class_="page", width=width, height=height),
        *_heads(columns, names or {}, left),
        *_lines(len(columns), len(rows), left),
        *_cells(columns, rows, left),
        *_labels(rows, left + len(columns) * _CELL),
        *_legend(foot + 14),
    ]
    if not rows:
        parts.append(element("text", text("no partition"), x=8, y=_TOP + 12))
    if matrix.left_out:
        parts.append(element("text", text(matrix.left_out), class_="muted", x=8, y=foot + 48))
    label = f"{len(partitions)} partitions and {matrix.ports} ports with their memberships"
    svg = element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="matrix",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
    )
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + svg + "\n" if standalone else svg


def _heads(columns: Sequence[Column], names: Mapping[int, str], left: int) -> Iterator[str]:
    """Yield what stands above each column: how many ports it is, and in a tooltip which."""
    yield element("text", text("ports with the same P_Keys"), class_="muted", x=8, y=_TOP - 8)
    for index, column in enumerate(columns):
        x = left + index * _CELL + _CELL // 2 + 4
        ports = [port_name(guid, names) for guid in column.ports]
        head = f"{len(ports):,} ports" if len(ports) > 1 else _short_name(column.ports[0], names)
        yield element(
            "text",
            element("title", text(listed(ports, _NAMED))),
            text(f"{index + 1}: {head}"),
            transform=f"translate({x} {_TOP - 6}) rotate(-90)",
        )


def _lines(columns: int, rows: int, left: int) -> Iterator[str]:
    right, foot = left + columns * _CELL, _TOP + rows * _CELL
    down = "".join(f"M{left + index * _CELL} {_TOP}V{foot}" for index in range(columns + 1))
    across = "".join(f"M{left} {_TOP + index * _CELL}H{right}" for index in range(rows + 1))
    yield element("path", class_="line", d=down + across, fill="none")


def _cells(columns: Sequence[Column], rows: Sequence[Partition], left: int) -> Iterator[str]:
    place = {partition: index for index, (partition, *_) in enumerate(rows)}
    by_row: dict[int, list[tuple[int, str]]] = {}
    for index, column in enumerate(columns):
        for partition, kind in column.keys:
            if partition in place:
                by_row.setdefault(place[partition], []).append((index, kind))
    for row, cells in sorted(by_row.items()):
        y = _TOP + row * _CELL
        # a run of neighbours of one kind has the same difference between column and position
        for (_, kind), run in groupby(enumerate(cells), key=lambda item: (item[1][0] - item[0], item[1][1])):
            indexes = [index for _, (index, _) in run]
            x, width = left + indexes[0] * _CELL, len(indexes) * _CELL
            shape = "limited" if kind == "limited" else "full"
            title = element("title", text(f"{_label(rows[row])}: {kind}"))
            yield element("rect", title, class_=shape, x=x + 1.5, y=y + 1.5, width=width - 3, height=_CELL - 3, rx=2)
            if kind == "both":
                for index in indexes:
                    yield element("circle", class_="dot", cx=left + index * _CELL + _CELL / 2, cy=y + _CELL / 2, r=3)


def _labels(rows: Sequence[Partition], right: int) -> Iterator[str]:
    for index, (_, name, full, limited) in enumerate(rows):
        y = _TOP + index * _CELL + 12
        title = [element("title", text(name))] if name else []
        yield element("text", *title, text(_label(rows[index])), x=8, y=y)
        yield element("text", text(f"{len(full):,} full, {len(limited):,} lim."), class_="muted", x=right + 10, y=y)


def _label(partition: Partition) -> str:
    number, name = partition[:2]
    return f"0x{number:04x}" + (f" {shortened(name, _NAME)}" if name else "")


def _legend(y: int) -> Iterator[str]:
    for index, (kind, words) in enumerate((("full", "full member"), ("limited", "limited member"), ("both", "both"))):
        x = 8 + index * 130
        shape = "limited" if kind == "limited" else "full"
        yield element("rect", class_=shape, x=x + 0.5, y=y + 0.5, width=12, height=12, rx=2)
        if kind == "both":
            yield element("circle", class_="dot", cx=x + 6.5, cy=y + 6.5, r=3)
        yield element("text", text(words), x=x + 18, y=y + 11)


def _short_name(guid: int, names: Mapping[int, str]) -> str:
    name = names.get(guid)
    return shortened(name, 11) if name else f"…{guid & 0xFFFFFFFF:08x}"


def port_name(guid: int, names: Mapping[int, str]) -> str:
    """Return what to call a port: its name, else its GUID."""
    return names.get(guid) or f"0x{guid:016x}"
