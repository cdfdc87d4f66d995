"""The records that the simulated SA has, made from the subnet as it is now (IBA 15.2.5).

Sizes are OpenSM's: padded to whole 8 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ibkeys.keys.pkey import match_in_table
from ibkeys.mad.const import P_KEYS_PER_BLOCK, PortState
from ibkeys.mad.records import LinkRecord, MCMemberRecord, NodeRecord, PKeyTableRecord, PortInfoRecord, SaRecord
from ibkeys.sim.nodes import Port

if TYPE_CHECKING:
    from ibkeys.sim.sa import SubnetAdministration

BROADCAST_MGID: Final = 0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF
"""The IPv4 broadcast group of the default partition (RFC 4391)."""


@dataclass(slots=True)
class Group:
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
    members: list[Port] = field(default_factory=list)


class Record(NamedTuple):
    """A record, and whose it is: an asker sees only ports with which it shares a P_Key (None: nobody's), and groups of
    whose partition, ``p_key``, it has a P_Key. A link is that of two ports: ``other`` is the second one."""

    raw: bytes
    port: Port | None
    p_key: int = 0
    other: Port | None = None


Maker = Callable[["SubnetAdministration", bool, int | None], Iterator[Record]]
"""Makes the records for (SA, whether the asker is trusted, the LID that the query names for the port, if any)."""


def _padded(record: SaRecord) -> bytes:
    return record.raw.ljust(-(-record.size // 8) * 8, b"\0")


def _end_ports(sa: SubnetAdministration, lid: int | None) -> Iterator[Port]:
    """Yield the end ports that have a LID, of those with *lid* only where the query names one."""
    if lid is None:
        return (port for node in sa.subnet.nodes for port in node.end_ports if port.lid)
    return iter(sa.ports_with(lid))


def _all_ports(sa: SubnetAdministration, lid: int | None) -> Iterator[Port]:
    for port in _end_ports(sa, lid):
        yield from port.node.all_ports if port.node.is_switch else (port,)


def _nodes(sa: SubnetAdministration, _trusted: bool, lid: int | None) -> Iterator[Record]:
    for port in _end_ports(sa, lid):
        node = port.node
        raw = port.lid.to_bytes(2) + bytes(2) + node.node_info(port.number)[:40] + node.description_bytes
        yield Record(_padded(NodeRecord(raw.ljust(NodeRecord.size, b"\0"))), port)


def _port_infos(sa: SubnetAdministration, _trusted: bool, lid: int | None) -> Iterator[Record]:
    for port in _all_ports(sa, lid):
        head = port.guard.lid.to_bytes(2) + bytes((port.number, 0))
        yield Record(_padded(PortInfoRecord(head + bytes(port.info))), port.guard)


def _links(sa: SubnetAdministration, _trusted: bool, lid: int | None) -> Iterator[Record]:
    """A link that is not Active is not in the table: the SM has not swept since it came up."""
    for port in _all_ports(sa, lid):
        peer = port.peer
        if peer is not None and port.number and port.state == PortState.ACTIVE and peer.guard.lid:
            record = LinkRecord.new(
                from_lid=port.guard.lid, from_port=port.number, to_port=peer.number, to_lid=peer.guard.lid
            )
            yield Record(_padded(record), port.guard, other=peer.guard)


def _p_keys(sa: SubnetAdministration, _trusted: bool, lid: int | None) -> Iterator[Record]:
    for port in _all_ports(sa, lid):
        for block in range(-(-port.p_key_capacity // P_KEYS_PER_BLOCK)):
            head = port.guard.lid.to_bytes(2) + block.to_bytes(2) + bytes((port.number, 0, 0, 0))
            yield Record(_padded(PKeyTableRecord(head + port.p_key_block(block))), port.guard)


def _groups(sa: SubnetAdministration, trusted: bool, _lid: int | None) -> Iterator[Record]:
    for group in sa.groups:
        record = MCMemberRecord.new(
            mgid=group.mgid,
            mlid=group.mlid,
            q_key=group.q_key,
            p_key=group.p_key,
            mtu=group.mtu,
            rate=group.rate,
            sl=group.sl,
            t_class=group.t_class,
            flow_label=group.flow_label,
        )
        if not trusted:
            yield Record(_padded(record), None, group.p_key)
            continue
        for port in group.members:  # without members there is no record, as with OpenSM
            gid = int.from_bytes(port.info[8:16]) << 64 | port.guid
            yield Record(_padded(record.replace(port_gid=gid, join_state=1)), port, group.p_key)


MAKERS: Final[dict[int, tuple[type[SaRecord], Maker]]] = {
    NodeRecord.attribute_id: (NodeRecord, _nodes),
    PortInfoRecord.attribute_id: (PortInfoRecord, _port_infos),
    LinkRecord.attribute_id: (LinkRecord, _links),
    PKeyTableRecord.attribute_id: (PKeyTableRecord, _p_keys),
    MCMemberRecord.attribute_id: (MCMemberRecord, _groups),
}


def has_partition(asker: Port, p_key: int) -> bool:
    """Whether *asker* has a P_Key of the partition of *p_key*, full or limited."""
    return any((key ^ p_key) & 0x7FFF == 0 for key in asker.p_keys)


def shares_p_key(asker: Port, port: Port) -> bool:
    """Whether some P_Key of the two tables match: equal bases, one of the two full (IBA 10.9.3)."""
    theirs = port.p_keys
    return any(key & 0x7FFF and match_in_table(key, theirs) is not None for key in asker.p_keys)
