"""The partition matrix as one self-contained HTML page: the picture, the details of a selection, lists of columns and
rows.

The lists repeat the whole picture in text, so that the page can be read on paper and without JavaScript. With
JavaScript, a click on a row, a column or a cell shows its members and which ports can talk to each other; that is
computed from the traffic that each column's line carries as data, as `ibkeys.reach` does.
"""

from __future__ import annotations

from typing import Any, Final

from ibkeys.audit.formats.page import limit_listed_ports, markup, render_page
from ibkeys.audit.formats.words import count
from ibkeys.audit.pictures.columns import Matrix, MatrixColumn, MatrixRow
from ibkeys.audit.pictures.fabric_map import Colouring, FabricMap
from ibkeys.audit.pictures.map_svg import class_of, map_part, map_style
from ibkeys.audit.pictures.matrix import CELL, STYLE, matrix_parts
from ibkeys.topology.names.folded import ranges
from ibkeys.topology.nodes import Port

MOST_LISTED: Final = 10_000
"""The most ports that the page lists one by one, with their GUIDs. The short names of each column name all ports."""
_COLOURED_BY: Final[dict[Colouring, str]] = {
    "partition": "partitions",
    "level": "M_Key and ProtectBits",
    "finding": "findings of the audit",
}


def render_matrix(matrix: Matrix, made: FabricMap, *, source: str = "", version: str = "") -> str:
    """Return the matrix and the map as a page. *source*: the name of the fabric or file. Raises UsageError without
    jinja2."""
    return render_page(
        "matrix.html.j2",
        extra_style=STYLE + map_style(made),
        script="matrix.js",
        source=source,
        version=version,
        heading=f"{count(len(matrix.rows), 'partition')}, {count(matrix.ports, 'port')}",
        matrix=matrix,
        cell=CELL,
        parts=[(markup(labels), markup(band)) for labels, band in matrix_parts(matrix)],
        columns=limit_listed_ports(matrix.columns, MOST_LISTED, _column),
        rows=[_row(row, matrix) for row in matrix.rows],
        count=count,
        map=markup(map_part(made)) if made.boxes else "",
        map_left_out=made.left_out,
        colourings=[_colouring(made, colouring) for colouring in made.legend],
    )


def _colouring(made: FabricMap, colouring: Colouring) -> dict[str, Any]:
    """Return the legend of a colouring: its words that occur on the map, with their meanings. For P_Keys, each word
    also has its partitions, by which the script marks the members on the map."""
    shown = {box.looks.by(colouring) for box in made.boxes}
    partitions = made.partitions if colouring == "partition" else {}
    return {
        "name": colouring,
        "label": _COLOURED_BY[colouring],
        "words": [
            (word, class_of(colouring, word), meaning, " ".join(map(str, partitions.get(word, ()))))
            for word, meaning in made.legend[colouring]
            if word in shown
        ],
    }


def _column(column: MatrixColumn, room: int) -> dict[str, Any]:
    passing = column.traffic or {}
    return {
        "count": len(column.ports),
        "held": [f"0x{partition:04x} {kind}" for partition, kind in column.keys],
        "names": column.names,
        "stopped": ", ".join(f"0x{partition:04x}" for partition in column.stopped),
        "unknown": column.traffic is None,
        "each": [_line(port) for port in column.ports[:room]],
        "kinds": " ".join(f"{partition}:{kind}" for partition, kind in column.keys),
        "traffic": " ".join(
            f"{partition}:{leaves}:{arrives}" + (f":{place}" if (place := column.places.get(partition)) else "")
            for partition, (leaves, arrives) in passing.items()
        ),
        "guid": f"0x{column.ports[0].port_guid:016x}",
    }


def _line(port: Port) -> str:
    return f"0x{port.port_guid:016x} port {port.num} {port.node.description or ''}".rstrip()


def _row(row: MatrixRow, matrix: Matrix) -> dict[str, Any]:
    return {
        "partition": f"0x{row.partition:04x}",
        "number": row.partition,
        "name": row.name or "",
        "members": [
            (title, counted, _numbers(matrix, row.partition, kind))
            for title, kind, counted in (("Full", "full", row.full), ("Limited", "limited", row.limited))
        ],
    }


def _numbers(matrix: Matrix, partition: int, kind: str) -> str:
    """Return, as text, the ranges of the numbers of the columns that are in a partition as *kind*, or as both kinds; ""
    if there is none."""
    numbers = [
        index + 1 for index, column in enumerate(matrix.columns) if dict(column.keys).get(partition) in (kind, "both")
    ]
    return ranges(numbers) if numbers else ""
