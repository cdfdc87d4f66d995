"""The partition matrix as one self-contained HTML page: the picture, what was chosen in it, lists of columns and rows.

The lists hold all that the picture says, so that the page can be read on paper and without JavaScript. With it, a click
on a row, a column or a cell tells who is in it and who can talk to whom; that is reckoned from the traffic that each
column's line carries as data, as `ibkeys.reach` does.
"""

from __future__ import annotations

from typing import Any, Final

from ibkeys.audit.formats.page import markup, render_page
from ibkeys.audit.formats.words import count
from ibkeys.audit.pictures.columns import Column, Matrix, Row
from ibkeys.audit.pictures.matrix import CELL, STYLE, matrix_parts
from ibkeys.topology.folded_names import ranges
from ibkeys.topology.model import Port

MOST_LISTED: Final = 10_000
"""Ports that the page lists one by one, with their GUIDs; folded, it names all."""


def render_matrix(matrix: Matrix, *, source: str = "", version: str = "") -> str:
    """Return the matrix as a page. *source*: what was read. Raises UsageError where jinja2 is not installed."""
    return render_page(
        "matrix.html.j2",
        extra_style=STYLE,
        script="matrix.js",
        source=source,
        version=version,
        heading=f"{count(len(matrix.rows), 'partition')}, {count(matrix.ports, 'port')}",
        **matrix_values(matrix),
    )


def matrix_values(matrix: Matrix) -> dict[str, Any]:
    """Return what the part of a page that shows the matrix is made of."""
    return {
        "matrix": matrix,
        "cell": CELL,
        "parts": [(markup(labels), markup(band)) for labels, band in matrix_parts(matrix)],
        "columns": _columns(matrix),
        "rows": [_row(row, matrix) for row in matrix.rows],
        "count": count,
    }


def _columns(matrix: Matrix) -> list[dict[str, Any]]:
    columns = []
    room = MOST_LISTED
    for column in matrix.columns:
        columns.append(_column(column, room))
        room -= len(columns[-1]["each"])
    return columns


def _column(column: Column, room: int) -> dict[str, Any]:
    passing = column.traffic or {}
    return {
        "count": len(column.ports),
        "held": [f"0x{partition:04x} {kind}" for partition, kind in column.keys],
        "names": column.names,
        "stopped": ", ".join(f"0x{partition:04x}" for partition in column.stopped),
        "unknown": column.traffic is None,
        "each": [_line(port) for port in column.ports[:room]],
        "kinds": " ".join(f"{partition}:{kind}" for partition, kind in column.keys),
        "traffic": " ".join(f"{partition}:{leaves}:{arrives}" for partition, (leaves, arrives) in passing.items()),
        "guid": f"0x{column.ports[0].port_guid:016x}",
    }


def _line(port: Port) -> str:
    return f"0x{port.port_guid:016x} port {port.num} {port.node.description or ''}".rstrip()


def _row(row: Row, matrix: Matrix) -> dict[str, Any]:
    return {
        "partition": f"0x{row.partition:04x}",
        "number": row.partition,
        "name": row.name or "",
        "members": [
            (counted, _numbers(matrix, row.partition, kind))
            for kind, counted in (("full", row.full), ("limited", row.limited))
        ],
    }


def _numbers(matrix: Matrix, partition: int, kind: str) -> str:
    """Return the numbers of the columns that are in a partition as *kind*."""
    numbers = [
        index + 1 for index, column in enumerate(matrix.columns) if dict(column.keys).get(partition) in (kind, "both")
    ]
    return ranges(numbers) if numbers else ""
