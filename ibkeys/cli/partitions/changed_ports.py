"""How plan, apply and undo show changes of P_Key tables and enforcement. Every port is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli.documents.field import NOTHING, JsonRow
from ibkeys.cli.listing.folding import folded_lines
from ibkeys.cli.render import OneLine, table_lines
from ibkeys.cli.screen.colour import ColouredValue, role_of_change
from ibkeys.cli.showing import NAME_TITLES, name_cells
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.change.wanted import EnforcementChange, TableChange
    from ibkeys.keys.pkey import PKey
    from ibkeys.topology.model import Topology

    _ChangedTable = tuple[TableChange, str, tuple[ColouredValue, ...]]


_HOST_AND_LEAF: Final = ("ca", "leaf port")
_PER_LINE: Final = 3
"""How many entries of a table are on one line: they fit beside the other columns on a terminal of 80 columns."""


def changed_ports(
    tables: Sequence[TableChange], enforcement: Sequence[EnforcementChange], each: bool, fabric: Topology | None
) -> Iterator[str]:
    """Yield lines for the changes of *tables* and *enforcement*.

    *each*: whether each port has its own row; else ports with the same change share a row. *fabric*: the topology by
    which names are folded, if known.
    """
    changed = [(table, _kind(table), tuple(entries_of(table))) for table in tables]
    if not each:
        changed = _together(changed)
    entries = [
        {**table.port.to_json(), "kind": kind, "entries": [*changes] if each else _in_lines(changes)}
        for table, kind, changes in changed
    ]
    yield from _lines(entries, ("Kind", "Entries"), ("kind", "entries"), each, fabric)
    bits = [
        {**change.port.to_json(), "before": str(change.before), "after": ColouredValue(str(change.after), "changed")}
        for change in enforcement
    ]
    yield from _lines(bits, ("Enforces", "Planned"), ("before", "after"), each, fabric)


def _together(changed: Sequence[_ChangedTable]) -> list[_ChangedTable]:
    """Return *changed*, with the kind ``ca, leaf port`` for changes that both kinds of port have.

    Hosts and their leaf ports often change in the same way, and then share one row.
    """
    kinds: dict[tuple[ColouredValue, ...], set[str]] = {}
    for _, kind, changes in changed:
        kinds.setdefault(changes, set()).add(kind)
    shared_changes = {changes for changes, found_kinds in kinds.items() if found_kinds.issuperset(_HOST_AND_LEAF)}
    return [
        (table, ", ".join(_HOST_AND_LEAF) if kind in _HOST_AND_LEAF and changes in shared_changes else kind, changes)
        for table, kind, changes in changed
    ]


def _in_lines(entries: tuple[ColouredValue, ...]) -> list[OneLine]:
    """Return the entries for the row of several ports, `_PER_LINE` on each line."""
    return [OneLine(entries[at : at + _PER_LINE]) for at in range(0, len(entries), _PER_LINE)]


def _lines(
    rows: Sequence[JsonRow], titles: Sequence[str], keys: Sequence[str], each: bool, fabric: Topology | None
) -> Iterator[str]:
    def cells(row: JsonRow) -> list[Any]:
        return [row[key] for key in keys]

    if not rows:
        return
    if each:
        yield from table_lines([*NAME_TITLES, *titles], ([*name_cells(row), *cells(row)] for row in rows))
    else:
        yield from folded_lines(FoldedNames(rows, fabric), rows, titles, cells)
    yield ""


def _kind(table: TableChange) -> str:
    return "leaf port" if table.port.is_external else table.port.node_type


def entries_of(table: TableChange) -> list[ColouredValue]:
    """Return the changed entries of a table, as ``3: - -> 0x8010``, in the colour of the change.

    If none changes, return one text that says so.
    """
    entries = [
        ColouredValue(f"{index}: {before or NOTHING} -> {after or NOTHING}", role_of_change(before, after))
        for index, before, after in changed_entries(table)
    ]
    return entries or [ColouredValue("stays as it is", "")]


def changed_entries(table: TableChange) -> Iterator[tuple[int, PKey | None, PKey | None]]:
    """Yield (index, before, after) of each changed entry; None is an empty entry."""
    for index in sorted({*table.before, *table.after}):
        before, after = table.before.get(index), table.after.get(index)
        if before != after:
            yield index, before, after
