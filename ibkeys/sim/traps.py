"""Traps that a simulated SMA sends: LID-routed to MasterSMLID, M_Key 0 (IBA 13.4.9, 14.2.5.1)."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.const import AttributeID, Method, MgmtClass, NodeType, NoticeType, PortState, TrapNumber
from ibkeys.mad.notice import BadMKeyDetails, CapabilityChangeDetails, LinkStateDetails, Notice
from ibkeys.mad.smp import DirectedRouteSmp, build_smp
from ibkeys.sim.nodes import STATE_BYTE, Port

MAX_NOTICE_PATH: Final = 30


def bad_m_key(port: Port, mad: bytes) -> Notice:
    """Return trap 256 for the SMP *mad* that *port* refused."""
    directed = mad[1] == MgmtClass.SUBN_DIRECTED_ROUTE
    details = BadMKeyDetails.new(
        lid_addr=port.lid,
        method=mad[3],
        attribute_id=mad[16] << 8 | mad[17],
        attribute_modifier=int.from_bytes(mad[20:24]),
        m_key=int.from_bytes(mad[24:32]),
    )
    if directed:
        smp = DirectedRouteSmp(mad)
        hops = min(smp.hop_count, MAX_NOTICE_PATH)
        # The path from the first hop on; the Linux SMAs start at the unused entry 0 and so lose the last hop.
        path = smp.return_path[1 : hops + 1]
        details = details.replace(
            dr_slid=smp.dr_slid,
            dr_notice=1,
            dr_path_truncated=smp.hop_count > MAX_NOTICE_PATH,
            dr_hop_count=hops,
            dr_notice_return_path=(*path, *[0] * (MAX_NOTICE_PATH - len(path))),
        )
    return _notice(port, NoticeType.SECURITY, TrapNumber.BAD_M_KEY).with_details(details)


def link_state_change(port: Port) -> Notice:
    """Return trap 128: the state of some port of the switch whose port 0 is *port* changed."""
    notice = _notice(port, NoticeType.URGENT, TrapNumber.LINK_STATE_CHANGE)
    return notice.with_details(LinkStateDetails.new(lid_addr=port.lid))


def capability_change(port: Port) -> Notice:
    """Return trap 144: the CapabilityMask of *port* changed."""
    details = CapabilityChangeDetails(bytes(64)).replace(lid_addr=port.lid, capability_mask=port.capability_mask)
    return _notice(port, NoticeType.INFORMATIONAL, TrapNumber.CAPABILITY_CHANGE).with_details(details)


def _notice(port: Port, kind: NoticeType, number: TrapNumber) -> Notice:
    producer = NodeType(port.node.node_type)
    return Notice.new(is_generic=1, type=kind, producer_type=producer, trap_number=number, issuer_lid=port.lid)


def as_mad(notice: Notice, transaction_id: int) -> bytes:
    """Return the SMP that carries *notice*."""
    return build_smp(Method.TRAP, AttributeID.NOTICE, data=notice.raw, transaction_id=transaction_id)


def may_send(port: Port, number: int, now: float) -> bool:
    """Whether *port* may send trap *number* now: link Active, and not sooner than SubnetTimeOut after the last one.

    The spacing holds for security traps only: those a stranger can provoke without end.
    """
    if port.info[STATE_BYTE] & 0x0F != PortState.ACTIVE:
        return False
    if number == TrapNumber.BAD_M_KEY and port.last_trap is not None:
        return now - port.last_trap >= 4.096e-6 * (1 << port.subnet_timeout)
    return True
