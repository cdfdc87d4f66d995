"""The switch port that faces an end port, whether the link passes packets, and the checks of that port (PortInfo,
SwitchInfo)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Self

from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import NodeType
from ibkeys.topology.nodes import Node, Port

Direction = Literal["inbound", "outbound"]
"""Inbound: from the link into the switch. Outbound: from the switch to the link."""
INBOUND: Final = 0x08
OUTBOUND: Final = 0x04
ENFORCEMENT_BITS: Final = ("partition_enforcement_inbound", "partition_enforcement_outbound")
"""The JSON names of the two bits of PortInfo."""
_YES_OR_NO: Final = frozenset((*ENFORCEMENT_BITS, "inbound_enforcement_cap", "outbound_enforcement_cap"))
ENFORCEMENT_BYTE: Final = 43
"""The offset in PortInfo of the byte with PartitionEnforcementInbound and PartitionEnforcementOutbound."""


def as_shown(name: str, number: int) -> int | bool:
    """Return *number*, the value of the field with the JSON name *name*, as documents show it: true or false for a
    field that is on or off.

    Only `ibkeys decode` has all fields as numbers, as in the MAD.
    """
    return bool(number) if name in _YES_OR_NO else number


def is_enforcing(info: PortInfo) -> bool:
    """Return whether a PortInfo has enforcement on in either direction, whatever the switch supports."""
    return any(getattr(info, name) for name in ENFORCEMENT_BITS)


def may_enforce(port: Port) -> bool:
    """Return whether a port has enforcement to show: an external port of a switch, or a router port that enforces.

    No field tells whether a router can enforce, so a router port that does not enforce has none to show.
    """
    if port.is_external:
        return True
    info = port.port_info if port.node.type == NodeType.ROUTER else None
    return info is not None and is_enforcing(info)


@dataclass(frozen=True, slots=True)
class Enforcement:
    """PartitionEnforcementInbound and -Outbound of an external port of a switch."""

    inbound: bool
    outbound: bool

    @classmethod
    def of(cls, info: PortInfo) -> Self:
        """Return the enforcement of a port with this PortInfo."""
        return cls(bool(info.partition_enforcement_inbound), bool(info.partition_enforcement_outbound))

    @property
    def bits(self) -> tuple[bool, bool]:
        """Both bits, in the order of `ENFORCEMENT_BITS`."""
        return self.inbound, self.outbound

    def __str__(self) -> str:
        words = [word for word, on in (("in", self.inbound), ("out", self.outbound)) if on]
        return "+".join(words) or "off"


def leaf_of(port: Port) -> Port | None:
    """Return the switch port that faces an end port; None if there is none, as with port 0 of a switch, or two CAs
    linked without a switch."""
    peer = port.peer
    return peer if port.num and not port.node.is_switch and peer is not None and peer.is_external else None


def inactive_end(port: Port) -> Port | None:
    """Return the end of an end port's link that is not Active, so that no data packets pass (IBA 7.2): the port itself
    or the port that faces it.

    None if both ends are Active, as far as they were read.
    """
    return next((end for end in (port, port.peer) if end is not None and end.is_known_inactive), None)


def enforced(port: Port) -> int:
    """Return the enforcement bits of a switch port that its switch supports; all set bits if SwitchInfo was not read, 0
    if PortInfo was not read.

    OpenSM sets the bits without a look at InboundEnforcementCap and OutboundEnforcementCap: on a switch that cannot
    check, or has no tables, the bits stop nothing, so they must not count as enforcement.
    """
    if port.info is None:
        return 0
    bits = port.info[ENFORCEMENT_BYTE] & (INBOUND | OUTBOUND)
    switch = port.node.switch_info if bits else None
    if switch is None:
        return bits
    if not switch.partition_enforcement_cap:
        return 0
    return bits & (INBOUND * switch.inbound_enforcement_cap | OUTBOUND * switch.outbound_enforcement_cap)


def is_unread(port: Port, bit: int = INBOUND | OUTBOUND) -> bool:
    """Return whether it is not known which packets a switch port stops in the directions of *bit*: PortInfo was not
    read, or the port enforces there with a table that was not read."""
    return port.info is None or (bool(enforced(port) & bit) and port.p_keys is None)


def checks_between_switches(nodes: Iterable[Node]) -> bool:
    """Return whether a port on a link between switches checks P_Keys, or may: its check was not read."""
    ports = (port for node in nodes if node.is_switch for port in node.ports.values())
    return any(enforced(port) or is_unread(port) for port in ports if port.is_between_switches)


def unread_for(port: Port) -> tuple[Port, ...]:
    """Return those ports that decide which packets an end port exchanges and that were not read. They are the end port
    itself, and the switch port that faces it.

    The end port itself is also returned if it was imported from files that lack its neighbour.
    """
    found = [port] if port.p_key_raw is None or not port.says_peer else []
    leaf = leaf_of(port)
    if leaf is not None and is_unread(leaf):
        found.append(leaf)
    return tuple(found)
