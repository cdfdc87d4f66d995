"""The tables of the copy at one moment, and the differences between two moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ibkeys.change.wanted import FieldValue, differing_places
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.plan.model import PartitionPlan
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.enforcement import ENFORCEMENT_BITS
from ibkeys.topology.port_id import PortId, PortKey


class PortTables(NamedTuple):
    """The values of one port that a rehearsal compares. ``p_keys``: all entries, 0 for an empty one; ``enforcement``:
    inbound and outbound; ``m_key``, ``level``, ``lease``, ``lid``: 0 for a port that is no end port."""

    p_keys: tuple[int, ...]
    enforcement: tuple[bool, bool]
    m_key: int
    level: int
    lease: int
    lid: int


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """One value of one port that differs. ``kind``, ``index``, and values as in `ibkeys.change.wanted.PlannedChange`;
    of an M_Key only whether it is zero, set, or another one."""

    key: PortKey
    kind: str
    index: int | None
    before: FieldValue
    after: FieldValue


Tables = Mapping[PortKey, PortTables]


def tables_of(subnet: Subnet) -> dict[PortKey, PortTables]:
    """Return the tables of every port, as the ports have them. Of two nodes with the same GUID the first counts."""
    found: dict[PortKey, PortTables] = {}
    for node in subnet.nodes:
        for port in node.all_ports:
            found.setdefault((node.guid, port.number), tables_of_port(port))
    return found


def tables_of_port(port: SimPort) -> PortTables:
    """Return the tables of one port."""
    info = PortInfo(bytes(port.info))
    bits = bool(port.inbound_enforcement), bool(port.outbound_enforcement)
    values = (port.m_key, info.m_key_protect_bits, info.m_key_lease_period, port.lid) if port.is_end_port else (0,) * 4
    return PortTables(tuple(port.p_keys), bits, *values)


def identities(subnet: Subnet) -> dict[PortKey, PortId]:
    """Return the identity of every port of *subnet*."""
    types = {1: "ca", 2: "switch", 3: "router"}
    return {
        (node.guid, port.number): PortId(
            node.guid, port.guard.guid or None, node.description, types[node.node_type], port.number, port.guard.lid
        )
        for node in reversed(subnet.nodes)
        for port in node.all_ports
    }


def put_back(subnet: Subnet, tables: Tables) -> None:
    """Give the ports the P_Keys and the enforcement of *tables* without a Set, so that no subnet manager notices it."""
    for node in {node.guid: node for node in reversed(subnet.nodes)}.values():  # the same nodes as in `tables_of`
        for port in node.all_ports:
            wanted = tables[node.guid, port.number]
            if tuple(port.p_keys) != wanted.p_keys:
                port.p_keys = list(wanted.p_keys)
            port.inbound_enforcement, port.outbound_enforcement = wanted.enforcement


def planned_tables(plan: PartitionPlan, before: Tables) -> dict[PortKey, PortTables]:
    """Return the tables that *plan* makes of the tables *before*. Ports that are not in *before* are left out. A port
    that the plan lists and does not change stays as it is."""
    after = dict(before)
    for table in plan.tables:
        if table.differs and (port := after.get(table.port.key)) is not None:
            entries = [int(table.after.get(index, 0)) for index in range(len(port.p_keys))]
            after[table.port.key] = port._replace(p_keys=tuple(entries))
    for change in plan.enforcement:
        if (port := after.get(change.port.key)) is not None:
            after[change.port.key] = port._replace(enforcement=(change.after.inbound, change.after.outbound))
    return after


def reversed_plan(plan: PartitionPlan) -> PartitionPlan:
    """Return the plan that takes *plan* back."""
    return replace(
        plan,
        tables=tuple(replace(each, before=each.after, after=each.before) for each in plan.tables),
        enforcement=tuple(replace(each, before=each.after, after=each.before) for each in plan.enforcement),
    )


def differences(before: Tables, after: Tables) -> list[ValueDifference]:
    """Return every value in which two moments differ, port by port."""
    return [each for key in before for each in _differences_of(key, before[key], after[key])]


def _differences_of(key: PortKey, before: PortTables, after: PortTables) -> Iterator[ValueDifference]:
    if before == after:
        return
    was, now = ({index: PKey(entry) for index, entry in enumerate(each.p_keys) if entry} for each in (before, after))
    for index in differing_places(was, now):
        yield ValueDifference(key, "pkey", index, _text(was.get(index)), _text(now.get(index)))
    for name, one, other in zip(ENFORCEMENT_BITS, before.enforcement, after.enforcement, strict=True):
        if one != other:
            yield ValueDifference(key, name, None, one, other)
    if before.m_key != after.m_key:
        yield ValueDifference(key, "m_key", None, _state(before.m_key), "another" if after.m_key else "zero")
    for name, one_number, other_number in (
        ("m_key_protect_bits", before.level, after.level),
        ("m_key_lease_period", before.lease, after.lease),
        ("lid", before.lid, after.lid),
    ):
        if one_number != other_number:
            yield ValueDifference(key, name, None, one_number, other_number)


def _text(key: PKey | None) -> str | None:
    return None if key is None else str(key)


def _state(m_key: int) -> str:
    return "set" if m_key else "zero"
