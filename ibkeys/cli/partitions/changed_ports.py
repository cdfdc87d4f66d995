"""Which ports change, and how: P_Key tables and enforcement as plan, apply and undo show them. Every port is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli.listing.folding import folded_lines
from ibkeys.cli.render import NOTHING, Painted, Row, table_lines
from ibkeys.cli.screen.colour import role_of_change
from ibkeys.cli.showing import NAMING, naming
from ibkeys.topology.folded_names import FoldedNames

if TYPE_CHECKING:
    from ibkeys.change.wanted import EnforcementChange, TableChange

STAYS = "stays as it is"
_PER_LINE: Final = 3
"""Entries of a table on one line: as many as fit beside the other columns on a terminal of 80 columns."""


def changed_ports(tables: Sequence[TableChange], enforcement: Sequence[EnforcementChange], each: bool) -> Iterator[str]:
    """Yield the lines that say what changes at which port: ports with the same change together, or *each* by itself."""
    entries = [
        {**table.port.to_json(), "kind": _kind(table), "entries": _painted(entries_of(table), each)} for table in tables
    ]
    yield from _lines(entries, ("Kind", "Entries"), ("kind", "entries"), each)
    bits = [
        {**change.port.to_json(), "before": str(change.before), "after": Painted(str(change.after), "changed")}
        for change in enforcement
    ]
    yield from _lines(bits, ("Enforces", "Planned"), ("before", "after"), each)


def _painted(entries: Sequence[str], each: bool) -> list[Painted]:
    """Return the entries of `entries_of` with the colour of what happens to them. Unless *each* port has a row of its
    own, neighbours to which the same happens share a line."""
    most = 1 if each else _PER_LINE
    return [
        Painted(", ".join(several), role)
        for role, found in groupby(entries, _role_of)
        for several in _batched(found, most)
    ]


def _batched(entries: Iterable[str], most: int) -> Iterator[tuple[str, ...]]:
    """Yield *entries* in tuples of *most*, the last one with what is left."""
    left = iter(entries)
    while several := tuple(islice(left, most)):
        yield several


def _role_of(entry: str) -> str:
    before, arrow, after = entry.partition(": ")[2].partition(" -> ")
    return role_of_change(before.replace(NOTHING, ""), after.replace(NOTHING, "")) if arrow else ""


def _lines(rows: Sequence[Row], titles: Sequence[str], keys: Sequence[str], each: bool) -> Iterator[str]:
    def cells(row: Row) -> list[Any]:
        return [row[key] for key in keys]

    if not rows:
        return
    if each:
        yield from table_lines([*NAMING, *titles], ([*naming(row), *cells(row)] for row in rows))
    else:
        yield from folded_lines(FoldedNames(rows), rows, titles, cells)
    yield ""


def _kind(table: TableChange) -> str:
    return "leaf port" if table.port.is_external else table.port.node_type


def entries_of(table: TableChange) -> list[str]:
    """Return the entries of a table that change: ``3: - -> 0x8010``."""
    if not table.differs:
        return [STAYS]
    return [
        f"{index}: {table.before.get(index) or '-'} -> {table.after.get(index) or '-'}"
        for index in sorted({*table.before, *table.after})
        if table.before.get(index) != table.after.get(index)
    ]
