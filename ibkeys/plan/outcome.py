"""The fabric as a plan leaves it, to count the pairs that can talk then."""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterable, Mapping

from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.reach.count import ReachCounts
from ibkeys.reach.difference import compare_reach
from ibkeys.topology.enforcement import ENFORCEMENT_BITS
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import PortKey


def reach_of_plan(
    fabric: Topology, tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange]
) -> ReachCounts:
    """Return the numbers of pairs that gain and lose connectivity when a plan is carried out, among the ports that were
    read. Packets that switches drop count, now and afterwards: a port that a wrong table of its switch port cuts off
    now gains all ports that it reaches afterwards.
    """
    found = compare_reach(fabric, _planned(fabric, tables, enforcement))
    return ReachCounts(found.count("gained"), found.count("lost"), found.count("unknown"))


def _planned(fabric: Topology, tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange]) -> Topology:
    """Return *fabric* with other tables and other enforcement, as copies of its nodes and ports."""
    nodes = {node: copy.copy(node) for node in fabric.nodes}
    ports: dict[Port, Port] = {}
    named: dict[PortKey, Port] = {}
    for node, twin in nodes.items():
        twin.ports = {}
        for num, port in node.ports.items():
            made = twin.ports[num] = ports[port] = named[node.guid, num] = copy.copy(port)
            made.node = twin
    for port in ports.values():
        port.peer = None if port.peer is None else ports.get(port.peer, port.peer)
    for table in tables:
        if table.differs:
            named[table.port.key].p_key_raw = _raw(table.after, table.capacity)
    for change in enforcement:
        port = named[change.port.key]
        if port.info is not None:
            bits = zip(ENFORCEMENT_BITS, change.after.bits, strict=True)
            port.info = bytes(PortInfo(port.info).replace(**{name: int(on) for name, on in bits}).raw)
    return Topology(list(nodes.values()))


def _raw(entries: Mapping[int, PKey], capacity: int) -> bytes:
    return struct.pack(f">{capacity}H", *(entries.get(index, 0) for index in range(capacity)))
