"""What `ibkeys why` makes of a packet, from a sweep with the forwarding tables of all switches."""

from __future__ import annotations

from typing import Final

from ibkeys.keys.pkey import PKey
from ibkeys.reach.packet import follow_packet
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.forwarding import follow
from ibkeys.topology.nodes import Port
from tests.fabricsim import tool
from tests.routes.answers import Answer, NotReached
from tests.routes.physical import place_of
from tests.routes.plain import Packet, Place, Reading
from tests.routes.walker import Direction

_DIRECTIONS: Final[dict[str, Direction]] = {"inbound": "in", "outbound": "out", "received": "end"}


class Followed:
    """Follows packets in a sweep of one subnet."""

    def __init__(self, net: Subnet) -> None:
        self._net = net
        with tool(net) as fabric:
            fabric.routes = "all"
            found = fabric.sweep(p_keys=True)
        self._ports = {self._place_of(port): port for node in found.nodes for port in node.ports.values()}

    def __call__(self, packet: Packet, reading: Reading) -> Answer | None:
        """Return what becomes of a packet; None: unknown. Raises NotReached."""
        source = self._ports.get(packet.source)
        if source is None or (source.path is None and not source.node.is_switch):
            raise NotReached
        route = follow(source, packet.destination_lid)
        path = follow_packet(route, PKey(packet.p_key), reading)
        last = path.route.hops[-1].out_port
        if (
            path.lost_by == "link not read"
            and last is not None
            and self._net.port(last.node.guid, last.num).up_peer() is None
        ):
            raise NotReached
        passed = path.route.hops[: path.last_hop]
        senders = frozenset(self._place_of(hop.out_port) for hop in passed if hop.out_port is not None)
        if path.outcome == "unknown":
            return None
        if path.outcome == "lost":
            return Answer("lost", None, None, None, senders)
        check = path.checks[-1]
        return Answer(path.outcome, self._place_of(check.port), _DIRECTIONS[check.direction], check.index, senders)

    def _place_of(self, port: Port) -> Place:
        return place_of(self._net.port(port.node.guid, port.num))
