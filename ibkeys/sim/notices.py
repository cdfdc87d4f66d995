"""The Notice of each trap that a simulated SMA sends (IBA 13.4.8, 14.2.5.1)."""

from __future__ import annotations

from typing import Final, NamedTuple

from ibkeys.mad.const import AttributeID, Method, MgmtClass, NodeType, NoticeType, TrapNumber
from ibkeys.mad.notice import (
    BadMKeyDetails,
    BadPKeyDetails,
    BadPKeySwitchPortDetails,
    BadQKeyDetails,
    CapabilityChangeDetails,
    LinkStateDetails,
    Notice,
)
from ibkeys.mad.smp import DirectedRouteSmp, build_smp
from ibkeys.sim.nodes import SimPort

MAX_NOTICE_PATH: Final = 30


def bad_m_key(port: SimPort, mad: bytes) -> Notice:
    """Return trap 256 for the SMP *mad* that *port* refused."""
    smp = DirectedRouteSmp(mad)
    details = BadMKeyDetails.new(
        lid_addr=port.lid,
        method=smp.method,
        attribute_id=smp.attribute_id,
        attribute_modifier=smp.attribute_modifier,
        m_key=smp.m_key,
    )
    if smp.mgmt_class == MgmtClass.SUBN_DIRECTED_ROUTE:
        hops = min(smp.hop_count, MAX_NOTICE_PATH)
        # The path begins at the first hop. The Linux SMAs begin at the unused entry 0, and so lose the last hop.
        path = smp.return_path[1 : hops + 1]
        details = details.replace(
            dr_slid=smp.dr_slid,
            dr_notice=1,
            dr_path_truncated=smp.hop_count > MAX_NOTICE_PATH,
            dr_hop_count=hops,
            dr_notice_return_path=(*path, *[0] * (MAX_NOTICE_PATH - len(path))),
        )
    return _notice(port, NoticeType.SECURITY, TrapNumber.BAD_M_KEY).with_details(details)


def link_state_change(port: SimPort) -> Notice:
    """Return trap 128: the link state of an external port changed, on the switch whose port 0 is *port*."""
    notice = _notice(port, NoticeType.URGENT, TrapNumber.LINK_STATE_CHANGE)
    return notice.with_details(LinkStateDetails.new(lid_addr=port.lid))


def local_change(port: SimPort, **flags: int) -> Notice:
    """Return trap 144 for a change of *port*. *flags*: fields of `CapabilityChangeDetails` that show the change; none
    for a change of the CapabilityMask."""
    details = CapabilityChangeDetails.new(lid_addr=port.lid, capability_mask=port.capability_mask, **flags)
    return _notice(port, NoticeType.INFORMATIONAL, TrapNumber.CAPABILITY_CHANGE).with_details(details)


class Packet(NamedTuple):
    """A data packet: its end ports, keys, SL and QPs, and the LID of the destination that it is sent to.

    ``q_key``: None if the packet's Q_Key does not matter. ``destination_lid``: None for the base LID.
    """

    source: SimPort
    destination: SimPort
    p_key: int
    q_key: int | None = None
    sl: int = 0
    source_qp: int = 1
    destination_qp: int = 1
    destination_lid: int | None = None

    @property
    def dlid(self) -> int:
        """DLID, the LID that the packet is sent to."""
        return self.destination.lid if self.destination_lid is None else self.destination_lid


def bad_p_key(port: SimPort, packet: Packet) -> Notice:
    """Return trap 257: the end port *port* received a packet whose P_Key matches no entry of its table."""
    details = BadPKeyDetails.new(key=packet.p_key, **_ends(packet))
    return _notice(port, NoticeType.SECURITY, TrapNumber.BAD_P_KEY).with_details(details)


def bad_q_key(port: SimPort, packet: Packet) -> Notice:
    """Return trap 258: the end port *port* received a packet with a wrong Q_Key."""
    details = BadQKeyDetails.new(key=packet.q_key or 0, **_ends(packet))
    return _notice(port, NoticeType.SECURITY, TrapNumber.BAD_Q_KEY).with_details(details)


def bad_p_key_at_switch(port: SimPort, packet: Packet) -> Notice:
    """Return trap 259: *port*, an external port of a switch, dropped *packet* because of its P_Key. DataValid is 0."""
    details = BadPKeySwitchPortDetails.new(
        p_key=packet.p_key, sw_lid_addr=port.guard.lid, port_no=port.number, **_ends(packet)
    )
    return _notice(port.guard, NoticeType.SECURITY, TrapNumber.BAD_P_KEY_SWITCH_PORT).with_details(details)


def _ends(packet: Packet) -> dict[str, int]:
    source, destination = packet.source, packet.destination
    return {
        "lid_addr1": source.lid,
        "lid_addr2": packet.dlid,
        "sl": packet.sl,
        "qp1": packet.source_qp,
        "qp2": packet.destination_qp,
        "gid_addr1": source.gid,
        "gid_addr2": destination.gid,
    }


def _notice(port: SimPort, kind: NoticeType, number: TrapNumber) -> Notice:
    producer = NodeType(port.node.node_type)
    return Notice.new(is_generic=1, type=kind, producer_type=producer, trap_number=number, issuer_lid=port.lid)


def as_mad(notice: Notice, transaction_id: int) -> bytes:
    """Return the SMP Trap(Notice) with *notice*."""
    return build_smp(Method.TRAP, AttributeID.NOTICE, data=notice.raw, transaction_id=transaction_id)
