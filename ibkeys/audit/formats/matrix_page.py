"""The partition matrix as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ibkeys.audit.formats.page import markup, render_page
from ibkeys.audit.formats.words import count
from ibkeys.audit.pictures.matrix import (
    STYLE,
    Column,
    Partition,
    lay_out,
    partition_matrix_svg,
    port_name,
)
from ibkeys.audit.pictures.svg import listed

_NAMED: Final = 12
"""Ports of a kind that the list names."""


def render_matrix(
    partitions: Sequence[Partition], names: Mapping[int, str] | None = None, *, source: str = "", version: str = ""
) -> str:
    """Return the matrix as a page: the picture, and below it which ports each column is.

    *names*: port GUID → what to call it; *source*: what was read. Raises UsageError where jinja2 is not installed.
    """
    matrix = lay_out(partitions)
    return render_page(
        "matrix.html.j2",
        extra_style=STYLE,
        source=source,
        version=version,
        heading=f"{count(len(partitions), 'partition')}, {count(matrix.ports, 'port')}",
        left_out=matrix.left_out,
        picture=markup(partition_matrix_svg(partitions, names, standalone=False)),
        kinds=[_kind(column, names or {}) for column in matrix.columns],
        count=count,
    )


def _kind(column: Column, names: Mapping[int, str]) -> dict[str, str]:
    return {
        "count": count(len(column.ports), "port"),
        "held": listed([f"0x{partition:04x} {kind}" for partition, kind in column.keys], _NAMED),
        "ports": listed([port_name(guid, names) for guid in column.ports], _NAMED),
    }
