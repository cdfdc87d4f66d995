"""The partition matrix: partitions down, ports across. Ports with the same P_Keys share one column, so that a fabric of
40,000 ports is as wide as it has kinds of ports, and neighbouring cells that are alike are drawn as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from ibkeys.audit.pictures.svg import element, listed, shortened, text

Partition = tuple[int, str | None, Sequence[int], Sequence[int]]
"""A partition, its name or None, the GUIDs of its full members, those of its limited members."""

MOST_COLUMNS: Final = 120
MOST_ROWS: Final = 400
_CELL: Final = 16
_LEFT: Final = 250
_RIGHT: Final = 130
_TOP: Final = 96
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


def shown_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that a picture has room for: those with the most ports, in their order."""
    if len(columns) <= MOST_COLUMNS:
        return list(columns)
    largest = set(sorted(range(len(columns)), key=lambda index: (-len(columns[index].ports), index))[:MOST_COLUMNS])
    return [column for index, column in enumerate(columns) if index in largest]


def partition_matrix_svg(
    partitions: Sequence[Partition], names: Mapping[int, str] | None = None, *, standalone: bool = True
) -> str:
    """Return the matrix as an SVG file, or with *standalone* False as an element for a page that has `STYLE`.

    *names*: port GUID → what to call the port. A cell is dark for full members, light with an edge for limited ones,
    dark with a light dot for ports with both P_Keys.
    """
    every = columns_of(partitions)
    columns = shown_columns(every)
    rows = list(partitions[:MOST_ROWS])
    width = _LEFT + max(len(columns), 1) * _CELL + _RIGHT
    foot = _TOP + max(len(rows), 1) * _CELL
    height = foot + 40
    left_out = _left_out(every, columns, partitions, rows)
    if left_out:
        height += 20
    width = max(width, 640)
    parts = [
        *([element("style", STYLE)] if standalone else []),
        element("rect", class_="page", width=width, height=height),
        *_heads(columns, names or {}),
        *_lines(len(columns), len(rows)),
        *_cells(columns, rows),
        *_labels(rows, len(columns)),
        *_legend(foot + 14),
    ]
    if not rows:
        parts.append(element("text", text("no partition"), x=8, y=_TOP + 12))
    if left_out:
        parts.append(element("text", text(left_out), class_="muted", x=8, y=foot + 48))
    label = (
        f"{len(partitions)} partitions and {sum(len(column.ports) for column in every)} ports with their memberships"
    )
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


def _heads(columns: Sequence[Column], names: Mapping[int, str]) -> Iterator[str]:
    """Yield what stands above each column: how many ports it is, and in a tooltip which."""
    yield element("text", text("ports with the same P_Keys"), class_="muted", x=_LEFT - 10, y=14, text_anchor="end")
    for index, column in enumerate(columns):
        x = _LEFT + index * _CELL + _CELL // 2 + 4
        ports = [port_name(guid, names) for guid in column.ports]
        head = ports[0] if len(ports) == 1 else f"{len(ports):,} ports"
        yield element(
            "text",
            element("title", text(listed(ports, _NAMED))),
            text(shortened(head, 13)),
            transform=f"translate({x} {_TOP - 6}) rotate(-90)",
        )


def _lines(columns: int, rows: int) -> Iterator[str]:
    right, foot = _LEFT + columns * _CELL, _TOP + rows * _CELL
    down = "".join(f"M{_LEFT + index * _CELL} {_TOP}V{foot}" for index in range(columns + 1))
    across = "".join(f"M{_LEFT} {_TOP + index * _CELL}H{right}" for index in range(rows + 1))
    yield element("path", class_="line", d=down + across, fill="none")


def _cells(columns: Sequence[Column], rows: Sequence[Partition]) -> Iterator[str]:
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
            x, width = _LEFT + indexes[0] * _CELL, len(indexes) * _CELL
            shape = "limited" if kind == "limited" else "full"
            yield element("rect", class_=shape, x=x + 1.5, y=y + 1.5, width=width - 3, height=_CELL - 3, rx=2)
            if kind == "both":
                for index in indexes:
                    yield element("circle", class_="dot", cx=_LEFT + index * _CELL + _CELL / 2, cy=y + _CELL / 2, r=3)


def _labels(rows: Sequence[Partition], columns: int) -> Iterator[str]:
    right = _LEFT + columns * _CELL + 10
    for index, (partition, name, full, limited) in enumerate(rows):
        y = _TOP + index * _CELL + 12
        label = f"0x{partition:04x}" + (f" {shortened(name, _NAME)}" if name else "")
        yield element("text", *([element("title", text(name))] if name else []), text(label), x=8, y=y)
        yield element("text", text(f"{len(full):,} full, {len(limited):,} lim."), class_="muted", x=right, y=y)


def _legend(y: int) -> Iterator[str]:
    for index, (kind, words) in enumerate((("full", "full member"), ("limited", "limited member"), ("both", "both"))):
        x = 8 + index * 130
        shape = "limited" if kind == "limited" else "full"
        yield element("rect", class_=shape, x=x + 0.5, y=y + 0.5, width=12, height=12, rx=2)
        if kind == "both":
            yield element("circle", class_="dot", cx=x + 6.5, cy=y + 6.5, r=3)
        yield element("text", text(words), x=x + 18, y=y + 11)


def _left_out(
    every: Sequence[Column], columns: Sequence[Column], partitions: Sequence[Partition], rows: Sequence[Partition]
) -> str:
    said = []
    if len(columns) < len(every):
        ports = sum(len(column.ports) for column in every) - sum(len(column.ports) for column in columns)
        said.append(f"{len(every) - len(columns):,} kinds of ports ({ports:,} ports)")
    if len(rows) < len(partitions):
        said.append(f"{len(partitions) - len(rows):,} partitions")
    return f"Left out for want of room: {' and '.join(said)}" if said else ""


def port_name(guid: int, names: Mapping[int, str]) -> str:
    """Return what to call a port: its name, else its GUID."""
    return names.get(guid) or f"0x{guid:016x}"
