"""Simulating a data packet: partition enforcement by the switches on its route, then the receiver's P_Key and Q_Key
checks.

IBA 10.9 and 14.2.5: an external port of a switch with PartitionEnforcementInbound checks packets from its cable, a port
with PartitionEnforcementOutbound packets that it sends, each against its own P_Key table, if the switch supports this
by SwitchInfo. The standard can be read in two ways about memberships in the inbound check (see
`ibkeys.keys.pkey.InboundCheck`). The receiver checks the P_Key against the table of its end port, then the Q_Key. The
port that drops a packet counts the drop and sends a trap; for an external port of a switch, port 0 sends it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from ibkeys.keys.pkey import InboundCheck, match_in_table, match_inbound
from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.mad.const import CapabilityMask
from ibkeys.mad.fields import NumberRow
from ibkeys.sim import notices, routing
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.notices import Packet
from ibkeys.sim.traps import Traps

PACKET_WORDS: Final = 72
"""The size of every packet in the units of PortXmitData, words of four octets: the size of a packet with a MAD."""
Direction = tuple[NumberRow, NumberRow]
"""The PortInfo bit by which a port checks packets in one direction, and the SwitchInfo bit of that capability."""
INBOUND: Final = PortInfo.partition_enforcement_inbound, SwitchInfo.inbound_enforcement_cap
OUTBOUND: Final = PortInfo.partition_enforcement_outbound, SwitchInfo.outbound_enforcement_cap


class PacketOutcome(NamedTuple):
    """The outcome for a packet. ``text``: the outcome in words. ``entry``: the index in the receiver's P_Key table of
    the entry that matched, None if the packet was dropped or lost."""

    text: str
    entry: int | None = None


def carry(
    packet: Packet,
    inbound_check: InboundCheck,
    traps: Traps,
    expected_q_key: int | None = None,
    *,
    is_counted: bool = True,
) -> PacketOutcome:
    """Send *packet* along its route, update counters, send traps, and return the outcome.

    *expected_q_key*: the Q_Key of the receiving QP; None: every Q_Key is accepted. *is_counted*: whether the ports on
    the route count the packet; a drop is always counted.
    """
    source, destination = packet.source, packet.destination
    links, end = routing.hops(source, packet.dlid)
    what = f"packet from {source} to {destination} with P_Key 0x{packet.p_key:04x}"
    last = source
    for egress, ingress in links:
        if enforces(egress, OUTBOUND) and not allows(egress, packet.p_key):
            _count_constraint_error(egress, packet, "port_xmit_constraint_errors", traps)
            return PacketOutcome(f"{what}: dropped by outbound enforcement at {egress}")
        if ingress is None:
            break
        last = ingress
        if is_counted:
            _count_packet(egress, "xmit")
            _count_packet(ingress, "rcv")
        if enforces(ingress, INBOUND) and match_inbound(packet.p_key, ingress.p_keys, inbound_check) is None:
            _count_constraint_error(ingress, packet, "port_rcv_constraint_errors", traps)
            return PacketOutcome(f"{what}: dropped by inbound enforcement at {ingress}")
    if end is not destination:
        last.record("packet-lost")
        return PacketOutcome(f"{what}: lost after {last}: no route to LID {packet.dlid} or a link that is not Active")
    index = match_in_table(packet.p_key, end.p_keys)
    if index is None:
        end.p_key_violations = min(end.p_key_violations + 1, 0xFFFF)
        end.record("p-key-violation", p_key=packet.p_key, source=str(source))
        traps.send_security(end, notices.bad_p_key(end, packet))
        return PacketOutcome(f"{what}: dropped at {end}: no entry of its P_Key table matches")
    if expected_q_key is not None and packet.q_key != expected_q_key:
        end.q_key_violations = min(end.q_key_violations + 1, 0xFFFF)
        end.record("q-key-violation", q_key=packet.q_key, source=str(source))
        traps.send_security(end, notices.bad_q_key(end, packet))
        return PacketOutcome(
            f"{what}: dropped at {end}: Q_Key 0x{packet.q_key or 0:08x}, its QP has 0x{expected_q_key:08x}"
        )
    return PacketOutcome(f"{what}: received", index)


def allows(port: SimPort, p_key: int) -> bool:
    """Return whether an entry of the port's P_Key table matches *p_key*: the same partition, and at least one of the
    two is full (IBA 10.9.3)."""
    return match_in_table(p_key, port.p_keys) is not None


def enforces(port: SimPort, direction: Direction) -> bool:
    """Return whether *port*, an external port of a switch, checks packets in *direction*: its bit is set, and the
    switch has the capability and P_Key tables for external ports."""
    node, (bit, capability) = port.node, direction
    if node.switch_info is None or not bit.decode(port.info):
        return False
    return node.enforcement_capacity > 0 and bool(capability.decode(node.switch_info))


def _count_constraint_error(port: SimPort, packet: Packet, counter: str, traps: Traps) -> None:
    port.count(counter)
    port.record("constraint-error", counter=counter, p_key=packet.p_key, source=str(packet.source))
    if port.guard.capability_mask & CapabilityMask.IS_P_KEY_SWITCH_EXTERNAL_PORT_TRAP_SUPPORTED:
        traps.send_security(port.guard, notices.bad_p_key_at_switch(port, packet))


def _count_packet(port: SimPort, direction: Literal["xmit", "rcv"]) -> None:
    port.count(f"port_{direction}_pkts")
    port.count(f"port_unicast_{direction}_pkts")
    port.count(f"port_{direction}_data", PACKET_WORDS)
