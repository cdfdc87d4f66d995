"""Simulating a data packet: partition enforcement by the switches on its route, then the receiver's P_Key and Q_Key
checks.

IBA 10.9 and 14.2.5: an external port of a switch with PartitionEnforcementInbound checks packets from its cable, a port
with PartitionEnforcementOutbound packets that it sends, each against its own P_Key table, if the switch supports this
by SwitchInfo. There are two readings of the inbound check for memberships (see `ibkeys.keys.pkey.InboundCheck`). The
receiver checks against the table of its end port, then the Q_Key. A drop is counted where it happens, and that port (or
its switch) sends a trap.
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

WORDS: Final = 72
"""The size of a packet as PortXmitData counts it (words of four octets): that of a packet with a MAD."""
Direction = tuple[NumberRow, NumberRow]
"""The bit of PortInfo that makes a port check packets, and the bit of SwitchInfo for the capability of the switch."""
INBOUND: Final = PortInfo.partition_enforcement_inbound, SwitchInfo.inbound_enforcement_cap
OUTBOUND: Final = PortInfo.partition_enforcement_outbound, SwitchInfo.outbound_enforcement_cap


class Passage(NamedTuple):
    """The outcome for a packet in words, and the entry of its P_Key table by which the receiver accepted it.

    None if it was dropped.
    """

    text: str
    entry: int | None = None


def carry(
    packet: Packet,
    inbound_check: InboundCheck,
    traps: Traps,
    expected_q_key: int | None = None,
    *,
    is_counted: bool = True,
) -> Passage:
    """Send *packet* along its route, update counters, send traps, and return the outcome.

    Without *expected_q_key*, the Q_Key of the receiving QP, the packet's own is taken as correct.
    *is_counted*: the ports on its route count it; a drop is always counted.
    """
    source, destination = packet.source, packet.destination
    passed, end = routing.hops(source, destination.lid)
    what = f"packet from {source} to {destination} with P_Key 0x{packet.p_key:04x}"
    for egress, ingress in passed:
        if enforces(egress, OUTBOUND) and not allows(egress, packet.p_key):
            _constraint(egress, packet, "port_xmit_constraint_errors", traps)
            return Passage(f"{what}: dropped by outbound enforcement at {egress}")
        if is_counted:
            _count(egress, "xmit")
            _count(ingress, "rcv")
        if enforces(ingress, INBOUND) and match_inbound(packet.p_key, ingress.p_keys, inbound_check) is None:
            _constraint(ingress, packet, "port_rcv_constraint_errors", traps)
            return Passage(f"{what}: dropped by inbound enforcement at {ingress}")
    if end is not destination:
        last = passed[-1][1] if passed else source
        last.record("packet-lost")
        return Passage(f"{what}: lost after {last}: no route to LID {destination.lid} or a link that is not Active")
    index = match_in_table(packet.p_key, end.p_keys)
    if index is None:
        end.p_key_violations = min(end.p_key_violations + 1, 0xFFFF)
        end.record("p-key-violation", p_key=packet.p_key, source=str(source))
        traps.send_security(end, notices.bad_p_key(end, packet))
        return Passage(f"{what}: dropped at {end}: no entry of its P_Key table matches")
    if expected_q_key is not None and packet.q_key != expected_q_key:
        end.q_key_violations = min(end.q_key_violations + 1, 0xFFFF)
        end.record("q-key-violation", q_key=packet.q_key, source=str(source))
        traps.send_security(end, notices.bad_q_key(end, packet))
        return Passage(f"{what}: dropped at {end}: Q_Key 0x{packet.q_key or 0:08x}, its QP has 0x{expected_q_key:08x}")
    return Passage(f"{what}: received", index)


def allows(port: SimPort, p_key: int) -> bool:
    """Return whether an entry of the port's P_Key table matches: equal bases, not 0, one of the two full (IBA
    10.9.3)."""
    return match_in_table(p_key, port.p_keys) is not None


def enforces(port: SimPort, direction: Direction) -> bool:
    """Return whether an external port of a switch checks packets in *direction*: the bit is set, and its switch has
    tables for its ports and the capability."""
    node, (told, can) = port.node, direction
    if node.switch_info is None or not told.decode(port.info):
        return False
    return node.enforcement_capacity > 0 and bool(can.decode(node.switch_info))


def _constraint(port: SimPort, packet: Packet, counter: str, traps: Traps) -> None:
    port.count(counter)
    port.record("constraint-error", counter=counter, p_key=packet.p_key, source=str(packet.source))
    if port.guard.capability_mask & CapabilityMask.IS_P_KEY_SWITCH_EXTERNAL_PORT_TRAP_SUPPORTED:
        traps.send_security(port.guard, notices.bad_p_key_at_switch(port, packet))


def _count(port: SimPort, way: Literal["xmit", "rcv"]) -> None:
    port.count(f"port_{way}_pkts")
    port.count(f"port_unicast_{way}_pkts")
    port.count(f"port_{way}_data", WORDS)
