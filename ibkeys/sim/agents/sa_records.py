"""Making the records of the simulated SA from the current state of the subnet (IBA 15.2.5).

As in OpenSM, each record is padded to a multiple of 8 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ibkeys.grouping import gathered
from ibkeys.keys.pkey import match_in_table
from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK, PortState
from ibkeys.mad.records import LinkRecord, MCMemberRecord, NodeRecord, PKeyTableRecord, PortInfoRecord, SaRecord
from ibkeys.sim.nodes import SimNode, SimPort

BROADCAST_MGID: Final = 0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF
"""The IPv4 broadcast group of the default partition (RFC 4391)."""


@dataclass(slots=True)
class MulticastGroup:
    """A multicast group. ``members`` are end ports, all full members."""

    mgid: int = BROADCAST_MGID
    mlid: int = 0xC000
    q_key: int = 0x0000_0B1B
    p_key: int = 0xFFFF
    mtu: int = 4
    rate: int = 3
    sl: int = 0
    t_class: int = 0
    flow_label: int = 0
    members: list[SimPort] = field(default_factory=list)


class Record(NamedTuple):
    """A record, with the data that decide which requesters may see it.

    A requester sees the record only if it shares a P_Key with ``port`` and with ``other``, the second port of a link;
    None: no such port. The requester also needs a P_Key of the partition of ``p_key``, unless that is 0.
    """

    raw: bytes
    port: SimPort | None
    p_key: int = 0
    other: SimPort | None = None


class RecordSource:
    """The data from which records are made: the current nodes and the multicast groups."""

    def __init__(self, nodes: Sequence[SimNode]) -> None:
        self.nodes = nodes
        self.groups = [MulticastGroup()]
        self._by_lid: dict[int, list[SimPort]] = {}

    def end_ports(self, lid: int | None) -> Iterator[SimPort]:
        """Return the end ports that have a LID; with *lid* only those with this base LID."""
        if lid is None:
            return (port for node in self.nodes for port in node.end_ports if port.lid)
        return iter(self._with_lid(lid))

    def all_ports(self, lid: int | None) -> Iterator[SimPort]:
        """Yield the ports of `end_ports`, but for port 0 of a switch all its ports."""
        for port in self.end_ports(lid):
            yield from port.node.all_ports if port.node.is_switch else (port,)

    def _with_lid(self, lid: int) -> list[SimPort]:
        """Return the end ports with the base LID *lid*, by an index that is built again when it is outdated."""
        ports = self._by_lid.get(lid)
        if ports is None or any(port.lid != lid for port in ports):
            self._by_lid = gathered((port.lid, port) for node in self.nodes for port in node.end_ports)
        return self._by_lid.get(lid, [])


Maker = Callable[[RecordSource, bool, int | None], Iterator[Record]]
"""A function that yields records. Arguments: the source, whether the requester is trusted, and the LID of the port in
the query, None if it names none."""


def _padded(record: SaRecord) -> bytes:
    return record.raw.ljust(-(-record.size // 8) * 8, b"\0")


_NODE_INFO: Final = slice(0, NodeInfo.vendor_id.stop)
"""The part of NodeInfo that is in a NodeRecord: the whole attribute without its padding to 64 bytes."""


def _nodes(source: RecordSource, _trusted: bool, lid: int | None) -> Iterator[Record]:
    for port in source.end_ports(lid):
        node = port.node
        raw = port.lid.to_bytes(2) + bytes(2) + node.node_info(port.number)[_NODE_INFO] + node.description_bytes
        yield Record(_padded(NodeRecord(raw.ljust(NodeRecord.size, b"\0"))), port)


def _port_infos(source: RecordSource, _trusted: bool, lid: int | None) -> Iterator[Record]:
    for port in source.all_ports(lid):
        head = port.guard.lid.to_bytes(2) + bytes((port.number, 0))
        yield Record(_padded(PortInfoRecord(head + bytes(port.info))), port.guard)


def _links(source: RecordSource, _trusted: bool, lid: int | None) -> Iterator[Record]:
    """Yield the LinkRecords. A link that is not Active has none: no SM sweep has found it since it came up."""
    for port in source.all_ports(lid):
        peer = port.peer
        if peer is not None and port.number and port.state == PortState.ACTIVE and peer.guard.lid:
            record = LinkRecord.new(
                from_lid=port.guard.lid, from_port=port.number, to_port=peer.number, to_lid=peer.guard.lid
            )
            yield Record(_padded(record), port.guard, other=peer.guard)


def _p_keys(source: RecordSource, _trusted: bool, lid: int | None) -> Iterator[Record]:
    for port in source.all_ports(lid):
        for block in range(-(-port.p_key_capacity // P_KEYS_PER_BLOCK)):
            head = port.guard.lid.to_bytes(2) + block.to_bytes(2) + bytes((port.number, 0, 0, 0))
            yield Record(_padded(PKeyTableRecord(head + port.p_key_block(block))), port.guard)


_GROUP_FIELDS: Final = tuple(name for name in MulticastGroup.__slots__ if name != "members")


def _groups(source: RecordSource, trusted: bool, _lid: int | None) -> Iterator[Record]:
    for group in source.groups:
        record = MCMemberRecord.new(**{name: getattr(group, name) for name in _GROUP_FIELDS})
        if not trusted:
            yield Record(_padded(record), None, group.p_key)
            continue
        for port in group.members:  # as with OpenSM, a trusted request gets no record of a group without members
            yield Record(_padded(record.replace(port_gid=port.gid, join_state=1)), port, group.p_key)


MAKERS: Final[dict[int, tuple[type[SaRecord], Maker]]] = {
    NodeRecord.attribute_id: (NodeRecord, _nodes),
    PortInfoRecord.attribute_id: (PortInfoRecord, _port_infos),
    LinkRecord.attribute_id: (LinkRecord, _links),
    PKeyTableRecord.attribute_id: (PKeyTableRecord, _p_keys),
    MCMemberRecord.attribute_id: (MCMemberRecord, _groups),
}


def has_partition(requester: SimPort, p_key: int) -> bool:
    """Return whether *requester* has a P_Key of the partition of *p_key*, full or limited."""
    return any((key ^ p_key) & 0x7FFF == 0 for key in requester.p_keys)


def shares_p_key(requester: SimPort, port: SimPort) -> bool:
    """Return whether a P_Key of *requester* matches one of *port*: the same partition, and at least one of the two is
    full (IBA 10.9.3)."""
    theirs = port.p_keys
    return any(key & 0x7FFF and match_in_table(key, theirs) is not None for key in requester.p_keys)
