"""Metrics that are counted over ports: M_Keys, leases, violations, enforcement, P_Key tables.

A value that was not read is counted as unknown, or has no series; it is never a zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from ibkeys.audit.inputs import AuditInput, number, protect_bits
from ibkeys.audit.rules.counters import SATURATED
from ibkeys.export.family import Family, Labels, of_one
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import NODE_TYPE_NAMES
from ibkeys.mad.fields import NumberRow
from ibkeys.topology.nodes import Port

NODE_TYPES: Final = tuple(NODE_TYPE_NAMES.values())
_LEVELS: Final = ("0", "1", "2", "3")
_UNREADABLE: Final = ("unreadable", "unknown")
_STATES: Final[tuple[Labels, ...]] = (*product(("zero", "set", "hidden"), _LEVELS), _UNREADABLE)

VIOLATIONS: Final[Mapping[str, NumberRow]] = {
    "m_key": PortInfo.m_key_violations,
    "p_key": PortInfo.p_key_violations,
    "q_key": PortInfo.q_key_violations,
}
"""Kind of violation → its counter."""
_DIRECTIONS: Final[Mapping[str, NumberRow]] = {
    "inbound": PortInfo.partition_enforcement_inbound,
    "outbound": PortInfo.partition_enforcement_outbound,
}


def m_keys(data: AuditInput) -> Iterator[Family]:
    """Yield the states of the end ports' M_Keys, and the leases of the end ports at a level above 0."""
    states = Family(
        "ibkeys_mkey_ports",
        "End ports by what they show of their M_Key, and by M_KeyProtectBits.",
        ("m_key_state", "protect_level"),
        dict.fromkeys(_STATES, 0),
    )
    read = [port for port in data.end_ports if port.info is not None]
    unread = len(data.end_ports) - len(read)
    states.put(*_UNREADABLE, value=unread)
    for port in read:
        states.add(port.m_key_state, str(protect_bits(port)))
    yield states
    leases = [number(port, PortInfo.m_key_lease_period) for port in read if protect_bits(port)]
    finite = [seconds for seconds in leases if seconds]
    yield Family(
        "ibkeys_mkey_lease_ports",
        "End ports with M_KeyProtectBits above 0, by their M_Key lease; unknown: PortInfo was not read.",
        ("lease",),
        {("none",): len(leases) - len(finite), ("finite",): len(finite), ("unknown",): unread},
    )
    if finite:
        yield of_one("ibkeys_mkey_lease_min_seconds", "The shortest M_Key lease above 0.", min(finite))


def enforcement(data: AuditInput) -> Iterator[Family]:
    """Yield how many external switch ports enforce partitions."""
    states = ("on", "off", "unknown")
    family = Family(
        "ibkeys_enforcement_ports",
        "External switch ports by partition enforcement; unknown: PortInfo was not read.",
        ("direction", "state"),
        dict.fromkeys(product(_DIRECTIONS, states), 0),
    )
    for port in data.external_ports:
        for direction, row in _DIRECTIONS.items():
            state = "unknown" if port.info is None else "on" if number(port, row) else "off"
            family.add(direction, state)
    yield family


def p_key_tables(data: AuditInput) -> Iterator[Family]:
    """Yield the fill of P_Key tables; nothing if none was read."""
    shares = [
        len(table.entries) / port.capacity
        for port in data.fabric.ports()
        if port.capacity and (table := data.table(port)) is not None
    ]
    if shares:
        full = sum(share >= 1 for share in shares)
        yield of_one("ibkeys_pkey_tables_full", "P_Key tables without a free entry, of those that were read.", full)
        yield of_one(
            "ibkeys_pkey_table_fill_max_ratio", "The fullest P_Key table: entries in use of its capacity.", max(shares)
        )


def violations(data: AuditInput, all_ports: bool) -> Iterator[Family]:
    """Yield the violation counters: their sums, the number of ports with violations, and the counters of single ports.

    *all_ports*: include ports whose counter is 0. Source: PortInfo. P_Key and Q_Key violations are those of every port;
    M_Key violations only those of end ports, because an external port of a switch has the M_Key of port 0.
    """
    sums = Family(
        "ibkeys_violations",
        "Sum of violation counters of the ports that were read; each stops at 65535 and may be cleared.",
        ("kind", "node_type"),
    )
    counts = Family(
        "ibkeys_violation_ports",
        "Ports by violation counter: nonzero (saturated ones too), saturated at 65535.",
        ("kind", "level"),
    )
    each = Family("ibkeys_port_violations", "Violation counter of one port.", ("guid", "port", "kind"))
    for kind, row in VIOLATIONS.items():
        ports = data.end_ports if kind == "m_key" else list(data.fabric.ports())
        values = {port: number(port, row) for port in ports if port.info is not None}
        _sum_by_type(sums, kind, ports, values)
        if values or not ports:
            counts.put(kind, "nonzero", value=sum(value > 0 for value in values.values()))
            counts.put(kind, "saturated", value=sum(value == SATURATED for value in values.values()))
        for port, value in values.items():
            if value or all_ports:
                each.add(*place_of(port), kind, value=value)
    yield from (sums, counts, each)


def _sum_by_type(sums: Family, kind: str, ports: Sequence[Port], values: Mapping[Port, int]) -> None:
    """Add the sums by type of node. A type gets no series if it has ports and none of them was read."""
    there = {port.node.type_name for port in ports}
    read = {port.node.type_name for port in values}
    for node_type in (*NODE_TYPES, *sorted(there - set(NODE_TYPES))):
        if node_type in read or node_type not in there:
            sums.put(kind, node_type, value=0)
    for port, value in values.items():
        sums.add(kind, port.node.type_name, value=value)


def place_of(port: Port) -> tuple[str, str]:
    """Return the labels ``guid`` and ``port`` as treydock/infiniband_exporter has them, so that queries can join.

    ``guid`` is the port GUID, for a switch the GUID of port 0. If the port GUID is not known, it is the node GUID.
    """
    return f"0x{port.port_guid or port.node.guid:016x}", str(port.num)


def port_info(ports: Iterable[Port]) -> Family:
    """Return the metric ``ibkeys_port_info``, with the names of each port. If two ports have the same GUID and number,
    only the first is named, because a join in a query could not distinguish them.
    """
    family = Family(
        "ibkeys_port_info",
        "What a port is called; the value is 1.",
        ("guid", "port", "node_guid", "node_desc", "node_type", "lid"),
    )
    seen: set[tuple[str, str]] = set()
    for port in ports:
        place, who = place_of(port), port.id
        if place not in seen:
            seen.add(place)
            lid = "" if who.lid is None else str(who.lid)
            family.put(*place, f"0x{who.node_guid:016x}", who.node_desc or "", who.node_type, lid)
    return family
