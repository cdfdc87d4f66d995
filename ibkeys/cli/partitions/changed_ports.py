"""Which ports change, and how: P_Key tables and enforcement as plan, apply and undo show them. Every port is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli.listing.folding import folded_lines, width_of_output, wrapped
from ibkeys.cli.render import Row, table_lines
from ibkeys.cli.showing import NAMING, naming
from ibkeys.topology.folded_names import FoldedNames

if TYPE_CHECKING:
    from ibkeys.change.wanted import EnforcementChange, TableChange

_OTHER_COLUMNS: Final = 20
STAYS = "stays as it is"


def changed_ports(tables: Sequence[TableChange], enforcement: Sequence[EnforcementChange], each: bool) -> Iterator[str]:
    """Yield the lines that say what changes at which port: ports with the same change together, or *each* by itself."""
    entries = [
        {
            **table.port.to_json(),
            "kind": _kind(table),
            "entries": entries_of(table) if each else _side_by_side(entries_of(table)),
        }
        for table in tables
    ]
    yield from _lines(entries, ("Kind", "Entries"), ("kind", "entries"), each)
    bits = [
        {**change.port.to_json(), "before": str(change.before), "after": str(change.after)} for change in enforcement
    ]
    yield from _lines(bits, ("Enforces", "Planned"), ("before", "after"), each)


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


def _side_by_side(entries: Sequence[str]) -> list[str]:
    """Return *entries* in as few lines as there is room for beside the other columns."""
    return [line.strip() for line in wrapped(", ".join(entries), width_of_output() - _OTHER_COLUMNS)]


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
