"""The interlocks for a change of many ports: one sentence for each, with the first few ports by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from ibkeys.change.consent import Objection
from ibkeys.change.passing import INTERLOCK_OF, MEANING, Cut, Passing, cuts, far_end
from ibkeys.change.target import Target
from ibkeys.change.writer import Writer
from ibkeys.fabric.subnet_manager import BESIDE_SM
from ibkeys.keys.pkey import DEFAULT_FULL
from ibkeys.plan.model import EnforcementChange, TableChange
from ibkeys.plan.order import Entries, moves
from ibkeys.topology.port_id import PortId, PortKey

NAMED: Final = 3
"""So many ports are named in one sentence; the rest is counted."""


def named(ports: Sequence[PortId | str]) -> str:
    """Return the first few of *ports* and how many more there are."""
    listed = ", ".join(str(port) for port in ports[:NAMED])
    return f"{listed} and {len(ports) - NAMED} more" if len(ports) > NAMED else listed


def counted(number: int, what: str) -> str:
    """Return ``1 port``, ``2 ports``."""
    return f"{number} {what}{'s' if number != 1 else ''}"


def objections(
    writer: Writer,
    tables: Sequence[TableChange],
    enforcement: Sequence[EnforcementChange],
    targets: Mapping[PortKey, Target],
    disconnecting: bool = False,
) -> list[Objection]:
    """Return the interlocks that the change sets off. *disconnecting*: that ports end with an empty table is wanted."""
    ends = [table for table in tables if not table.port.is_external]
    found = [
        *_index_0(ends),
        *_index_moves(ends),
        *_default_pkey(writer, ends, targets, disconnecting),
        *_enforcing(writer, tables, enforcement, targets),
    ]
    return found + writer.objection_to_active_sm(BESIDE_SM)


def _about(interlock: str, ports: Sequence[PortId | str], says: str) -> list[Objection]:
    return [Objection(interlock, f"{says} on {counted(len(ports), 'port')}: {named(ports)}")] if ports else []


def _index_0(ends: Iterable[TableChange]) -> list[Objection]:
    ports = [
        table.port
        for table in ends
        if 0 in table.before and (0 not in table.after or table.after[0].partition != table.before[0].partition)
    ]
    return _about("index-0", ports, "the P_Key at index 0, which IPoIB and many tools use, is emptied or replaced")


def _index_moves(ends: Iterable[TableChange]) -> list[Objection]:
    found = [
        f"{table.port} ({key} from index {source} to {target})"
        for table in ends
        for source, target, key in moves(table)
    ]
    if not found:
        return []
    message = f"{counted(len(found), 'P_Key')} to be moved to another index; running QPs hold the old one and break"
    return [Objection("index-move", f"{message}: {named(found)}")]


def _default_pkey(
    writer: Writer, ends: Iterable[TableChange], targets: Mapping[PortKey, Target], disconnecting: bool
) -> list[Objection]:
    lost, sm = [], []
    for table in ends:
        target = targets.get(table.port.key)
        is_sm = target is not None and writer.holds_sm(target.port)
        if _has_default(table.before) and not _has_default(table.after):
            # The SM may have moved here since the plan was made: to disconnect its port is never wanted.
            if is_sm or not disconnecting or table.after:
                lost.append(table.port)
        elif is_sm and DEFAULT_FULL in table.before.values() and DEFAULT_FULL not in table.after.values():
            sm.append(table.port)
    return [
        *_about("default-pkey", lost, "the last default P_Key (0x7fff or 0xffff) is lost, and with it the SA,"),
        *_about("default-pkey", sm, "0xffff of the SM is lost, so limited members can no longer reach the SA,"),
    ]


def _has_default(table: Entries) -> bool:
    return any(key.is_default for key in table.values())


def _enforcing(
    writer: Writer,
    tables: Sequence[TableChange],
    enforcement: Sequence[EnforcementChange],
    targets: Mapping[PortKey, Target],
) -> list[Objection]:
    """What enforcing switch ports no longer let through to the SA, and enforcement between switches."""
    planned = {table.port.key: table for table in tables}
    changing = {change.port.key: change for change in enforcement}
    found: dict[Cut, list[PortId | str]] = {cut: [] for cut in MEANING}
    between: list[PortId | str] = []
    for key, target in targets.items():
        if not target.port.is_external:
            continue
        table, change = planned.get(key), changing.get(key)
        now, bits = target.enforcement, change.after if change is not None else target.enforcement
        before = Passing.of(now.inbound, now.outbound, (table.before if table is not None else target.table).values())
        after = Passing.of(bits.inbound, bits.outbound, (table.after if table is not None else target.table).values())
        for cut in cuts(before, after, partial(far_end, writer, target.port)):
            found[cut].append(target.id)
        if change is not None and _enables(change) and far_end(writer, target.port) == "switch":
            between.append(target.id)
    return [
        *(each for cut, ports in found.items() for each in _about(INTERLOCK_OF[cut], ports, f"{MEANING[cut]},")),
        *_about("enforce-blind", between, "enforcement on a link between switches"),
    ]


def _enables(change: EnforcementChange) -> bool:
    before, after = change.before, change.after
    return (after.inbound and not before.inbound) or (after.outbound and not before.outbound)
