"""A small fabric to apply plans on: six hosts on two leaf switches, its tables set and looked at without SMPs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ibkeys.apply.apply import Permissions
from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.keys.pkey import PKey, may_talk
from ibkeys.plan.breaks import find_breaks
from ibkeys.plan.model import FabricState, PartitionPlan, PolicySource
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store import sqlite
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId, PortKey
from tests.fabricsim import subnet
from tests.plan.plans import Table, packed

HOSTS = tuple(f"node0{number} mlx4_0" for number in range(1, 7))
ALL = Permissions(removals=True, breaks=True)


def port_id(port: SimPort) -> PortId:
    node = port.node
    end = node.ports[0] if node.is_switch else port
    return PortId(node.guid, end.guid, node.description, "switch" if node.is_switch else "ca", port.number, end.lid)


def key_of(port: SimPort) -> PortKey:
    return port.node.guid, port.number


def valid(port: SimPort) -> dict[int, PKey]:
    return {index: PKey(key) for index, key in enumerate(port.p_keys) if key & 0x7FFF}


@dataclass
class Lab:
    """The fabric two-switch.net. ``states`` is filled by a spy: the raw tables after each Set."""

    net: Subnet = field(default_factory=lambda: subnet("two-switch"))

    def host(self, number: int) -> SimPort:
        return self.net.port(HOSTS[number - 1], 1)

    def leaf(self, number: int) -> SimPort:
        peer = self.host(number).peer
        assert peer is not None
        return peer

    @property
    def ports(self) -> list[SimPort]:
        return [port for number in range(1, 7) for port in (self.host(number), self.leaf(number))]

    def put(self, tables: Mapping[int, Table], enforce: str = "") -> None:
        """Set hosts and, packed, their leaf ports, without SMPs; *enforce*: ``io``, ``i``, ``o`` on the leaf ports."""
        for number, table in tables.items():
            for port, entries in ((self.host(number), table), (self.leaf(number), packed(table))):
                port.p_keys = [entries.get(index, 0) for index in range(max(entries, default=-1) + 1)]
            self.leaf(number).inbound_enforcement = int("i" in enforce)
            self.leaf(number).outbound_enforcement = int("o" in enforce)

    def plan(
        self, tables: Mapping[int, Table], enforce: Mapping[int, str] | None = None, leaves: bool = True
    ) -> PartitionPlan:
        """Return the plan that leads from what is there to *tables*."""
        changes, enforcement = [], []
        for number, table in tables.items():
            ends = [(self.host(number), dict(table))] + ([(self.leaf(number), packed(table))] if leaves else [])
            for port, after in ends:
                peer = port.peer
                assert peer is not None
                changes.append(TableChange(port_id(port), valid(port), after, port.p_key_capacity, key_of(peer)))
        for number, wanted in (enforce or {}).items():
            leaf = self.leaf(number)
            before = Enforcement(bool(leaf.inbound_enforcement), bool(leaf.outbound_enforcement))
            after_bits = Enforcement("i" in wanted, "o" in wanted)
            enforcement.append(EnforcementChange(port_id(leaf), before, after_bits, key_of(self.host(number))))
        found = tuple(change for change in changes if change.differs)
        return PartitionPlan(
            FabricState("digest"), PolicySource("p.conf", "digest"), found, tuple(enforcement),
            breaks=find_breaks([*self.staying(tables), *changes], enforcement),
        )  # fmt: skip

    def staying(self, besides: Iterable[int]) -> list[TableChange]:
        """Return the tables of the hosts other than *besides*, and of their leaf ports, as a full plan has them."""
        ports = [port for number in {*range(1, 7)} - {*besides} for port in (self.host(number), self.leaf(number))]
        return [
            TableChange(port_id(port), valid(port), valid(port), port.p_key_capacity, key_of(port.peer))
            for port in ports
            if port.peer is not None
        ]

    def image(self) -> dict[str, tuple[bytes, int]]:
        """All that a plan may change, byte for byte."""
        return {
            f"{port}": (
                b"".join(port.p_key_block(block) for block in range(-(-port.p_key_capacity // 32))),
                port.info[43] & 0x0C,
            )
            for node in self.net.nodes
            for port in node.all_ports
        }

    # --- who may talk --------------------------------------------------------------------------------------------

    def delivers(self, one: int, other: int, partition: int) -> bool:
        """Whether a packet of *one* in *partition* reaches *other*: the rule of IBA 10.9.3 at every enforcing port."""
        source, destination = self.host(one), self.host(other)
        filters: list[SimPort] = [destination]
        if self.leaf(one).inbound_enforcement:
            filters.append(self.leaf(one))
        if self.leaf(other).outbound_enforcement:
            filters.append(self.leaf(other))
        return any(
            all(any(may_talk(key, entry) for entry in port.p_keys) for port in filters)
            for key in source.p_keys
            if key & 0x7FFF == partition
        )

    def reach(self, numbers: Iterable[int], partitions: Iterable[int]) -> set[tuple[int, int, int]]:
        numbers = list(numbers)
        return {
            (one, other, partition)
            for one in numbers
            for other in numbers
            if one != other
            for partition in partitions
            if self.delivers(one, other, partition)
        }


connect = sqlite.connect


def unsynced(path: Path | None, *rest: bool) -> sqlite3.Connection:
    """Open a database without the syncs that only a power cut needs: a process that dies leaves to the kernel what it
    wrote."""
    connection = connect(path, *rest)
    connection.execute("PRAGMA synchronous = OFF")
    return connection
