"""One packet on its route by the forwarding tables: the ports that check its P_Key, and where it ends.

The rules are those of `ibkeys.reach.reach`, applied hop by hop: a switch port that enforces checks packets against its
own table, inbound those from its link, outbound those to it; then the end port checks them against its table (IBA
10.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.keys.pkey import InboundCheck, PKey, match_in_table, match_inbound
from ibkeys.topology.enforcement import INBOUND, OUTBOUND, Direction, enforced, is_unread
from ibkeys.topology.forwarding import ForwardingRoute, RouteEnd, follow, lids_of
from ibkeys.topology.nodes import Port

PacketOutcome = Literal["delivered", "stopped", "lost", "unknown"]
CheckedDirection = Literal["inbound", "outbound", "received"]
"""``received``: the check of the end port that the packet is for."""
ViolationCounter = Literal["PortRcvConstraintErrors", "PortXmitConstraintErrors", "P_KeyViolations"]
_COUNTERS: Final[dict[CheckedDirection, ViolationCounter]] = {
    "inbound": "PortRcvConstraintErrors",
    "outbound": "PortXmitConstraintErrors",
    "received": "P_KeyViolations",
}
_BITS: Final[dict[CheckedDirection, int]] = {"inbound": INBOUND, "outbound": OUTBOUND}


@dataclass(frozen=True, slots=True)
class HopCheck:
    """A check of the packet's P_Key at the hop with number ``hop``. ``index``: the entry that lets it pass; None: no
    entry does."""

    hop: int
    port: Port
    direction: CheckedDirection
    index: int | None

    @property
    def entry(self) -> PKey | None:
        """The P_Key of the entry."""
        return None if self.index is None or self.port.p_keys is None else self.port.p_keys[self.index]

    @property
    def counter(self) -> ViolationCounter:
        """The counter of the port that counts a packet which fails this check."""
        return _COUNTERS[self.direction]


@dataclass(frozen=True, slots=True)
class PacketPath:
    """A packet with ``p_key`` on its route. ``checks``: in the order in which the packet meets them, up to one that
    fails. ``last_hop``: the number of the hop at which the packet ends, or the last that is known. ``unread``: the port
    of that hop whose check could not be read, so that the outcome is unknown.

    A switch may drop a packet that fails a check, or corrupt it and pass it on. Either way its port counts it.
    """

    route: ForwardingRoute
    p_key: PKey
    checks: tuple[HopCheck, ...]
    last_hop: int
    unread: Port | None = None

    @property
    def stopped_by(self) -> HopCheck | None:
        """The check that the packet fails."""
        return self.checks[-1] if self.checks and self.checks[-1].index is None else None

    @property
    def outcome(self) -> PacketOutcome:
        """The outcome: whether the packet arrives, is dropped or is lost, as far as it is known."""
        if self.stopped_by is not None:
            return "stopped"
        if self.unread is not None or self.route.arrives is None:
            return "unknown"
        return "delivered" if self.route.arrives else "lost"

    @property
    def lost_by(self) -> RouteEnd | None:
        """Why the packet is lost, or why its way cannot be followed further; None if a check decides."""
        is_by_route = self.stopped_by is None and self.unread is None and self.route.end != "arrives"
        return self.route.end if is_by_route else None


def follow_packet(route: ForwardingRoute, p_key: PKey, inbound_check: InboundCheck) -> PacketPath:
    """Return the path of a packet with *p_key* on *route*, up to the hop at which it ends. *inbound_check*: the
    assumption about switches."""
    checks: list[HopCheck] = []
    for number, port, direction in checking_ports(route):
        if not is_check_read(port, direction):
            return PacketPath(route, p_key, tuple(checks), number, port)
        index = matching_entry(p_key, port.p_keys or (), direction, inbound_check)
        if index is None and direction == "received" and port.hides_p_keys:
            return PacketPath(route, p_key, tuple(checks), number, port)
        checks.append(HopCheck(number, port, direction, index))
        if index is None:
            return PacketPath(route, p_key, tuple(checks), number)
    return PacketPath(route, p_key, tuple(checks), len(route.hops) - 1)


def checking_ports(route: ForwardingRoute) -> Iterator[tuple[int, Port, CheckedDirection]]:
    """Yield the number of the hop, the port and the direction of each check on *route*, in the order in which a packet
    meets them; also those of which it was not read whether they are made (`is_check_read`)."""
    for number, (node, in_port, out_port) in enumerate(route.hops):
        at_hop: tuple[tuple[Port | None, Direction], ...] = ((in_port, "inbound"), (out_port, "outbound"))
        for port, direction in at_hop if node.is_switch else ():
            if port is not None and (is_unread(port, _BITS[direction]) or enforced(port) & _BITS[direction]):
                yield number, port, direction
    if route.end == "arrives":
        last = route.hops[-1]
        receiver = last.node.port(0) if last.node.is_switch else last.in_port or route.source
        yield len(route.hops) - 1, receiver, "received"


def is_check_read(port: Port, direction: CheckedDirection) -> bool:
    """Return whether the values that decide the check of a port in a direction were read."""
    return port.p_keys is not None if direction == "received" else not is_unread(port, _BITS[direction])


def matching_entry(
    p_key: PKey, table: Iterable[int], direction: CheckedDirection, inbound_check: InboundCheck
) -> int | None:
    """Return the index of the entry of a port's *table* that lets a packet pass its check; None if no entry does."""
    return match_inbound(p_key, table, inbound_check) if direction == "inbound" else match_in_table(p_key, table)


def packets_to(
    source: Port, destination: Port, p_keys: Iterable[PKey], inbound_check: InboundCheck
) -> list[PacketPath]:
    """Return the path of a packet with each P_Key from one end port to each LID of another, the base LID first."""
    routes = [follow(source, lid, destination) for lid in lids_of(destination)]
    return [follow_packet(route, p_key, inbound_check) for route in routes for p_key in p_keys]
