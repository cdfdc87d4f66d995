"""Counting the pairs of ports that gain and lose connectivity by a plan."""

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
    """Return the numbers of pairs that gain and lose connectivity, or whose change is not known, when a plan is carried
    out.

    Enforcement by switches counts, before and after: a port that is cut off now by a wrong table of its switch port
    gains all ports that it reaches afterwards. *tables* and *enforcement*: the changes of the plan.
    """
    difference = compare_reach(fabric, _planned_fabric(fabric, tables, enforcement))
    return ReachCounts(difference.count("gained"), difference.count("lost"), difference.count("unknown"))


def _planned_fabric(
    fabric: Topology, tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange]
) -> Topology:
    """Return a copy of *fabric* that has the planned tables and enforcement."""
    nodes = {node: copy.copy(node) for node in fabric.nodes}
    ports: dict[Port, Port] = {}
    by_key: dict[PortKey, Port] = {}
    for node, twin in nodes.items():
        twin.ports = {}
        for num, port in node.ports.items():
            copied = twin.ports[num] = ports[port] = by_key[node.guid, num] = copy.copy(port)
            copied.node = twin
    for port in ports.values():
        port.peer = None if port.peer is None else ports.get(port.peer, port.peer)
    for table in tables:
        if table.differs:
            by_key[table.port.key].p_key_raw = _raw(table.after, table.capacity)
    for change in enforcement:
        port = by_key[change.port.key]
        if port.info is not None:
            bits = zip(ENFORCEMENT_BITS, change.after.bits, strict=True)
            port.info = bytes(PortInfo(port.info).replace(**{name: int(on) for name, on in bits}).raw)
    return Topology(list(nodes.values()))


def _raw(entries: Mapping[int, PKey], capacity: int) -> bytes:
    return struct.pack(f">{capacity}H", *(entries.get(index, 0) for index in range(capacity)))
