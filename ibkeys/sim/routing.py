"""The routes of MADs: directed routes port by port, LID routes by the forwarding tables of the switches."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.const import PortState
from ibkeys.sim.history import SimHistory
from ibkeys.sim.nodes import NO_ROUTE, SimNode, SimPort

FORWARDS_NOTHING: Final = 2
"""The value of `SimNode.silent` for a node that also forwards nothing."""
MAX_WALKED: Final = 4096
"""The most directed routes in the cache: about 1 MiB."""


def directed(start: SimNode, ingress: int, path: bytes) -> tuple[SimNode, int, bytes] | None:
    """Walk from *start* through the egress ports of *path*, one for each hop.

    *ingress*: the port of *start* by which the SMP arrived, or from which it is sent. Returns the last node, its
    ingress port, and the ReturnPath, which has one entry more than there are hops. Returns None if the SMP is dropped:
    a node in the middle is not a switch or forwards nothing, a node does not have the port, or a link is down. Source:
    IBA 14.2.2; Linux smi.c.
    """
    node = start
    if path and not node.is_switch and path[0] != ingress:
        return None
    peer: SimPort | None = None
    return_path = [0]
    for egress in path:
        if peer is not None and (
            not node.is_switch or node.silent == FORWARDS_NOTHING
        ):  # This node is in the middle of the route.
            return None
        if not 0 < egress <= node.num_ports:
            return None
        peer = node.ports[egress].up_peer()
        if peer is None:
            return None
        node, ingress = peer.node, peer.number
        return_path.append(ingress)
    return node, ingress, bytes(return_path)


class DirectedRoutes:
    """A cache of the ends of directed routes. It is emptied after each write that may change one of them.

    It saves time because programs send many SMPs to one node: computing the route takes a tenth of the time for an SMP.
    """

    def __init__(self, history: SimHistory) -> None:
        self._history = history
        self._reroutes = 0
        self._walked: dict[tuple[SimNode, int, bytes], tuple[SimNode, int, bytes]] = {}

    def walk(self, start: SimNode, ingress: int, path: bytes) -> tuple[SimNode, int, bytes] | None:
        """Return the result of `directed`, from the cache if possible."""
        walked = self._walked
        if self._reroutes != self._history.reroutes:
            walked.clear()
            self._reroutes = self._history.reroutes
        end = walked.get((start, ingress, path))
        if end is None:
            end = directed(start, ingress, path)
            if len(walked) >= MAX_WALKED:
                walked.clear()
            if end is not None:
                walked[start, ingress, path] = end
        return end


def by_lid(port: SimPort, lid: int) -> tuple[SimNode, int] | None:
    """Follow the route of an SMP from *port* to the end port that has *lid*. Returns the node and its ingress port;
    None if there is no route.

    An SMP passes every link that is at least Initialize. There is no route where it comes to a switch for the second
    time, for then it circulates for ever.
    """
    node, ingress = port.node, port.number
    if not node.is_switch:
        if port.covers(lid):
            return node, ingress
        peer = port.up_peer()
        if peer is None:
            return None
        node, ingress = peer.node, peer.number
    passed: set[SimNode] = set()
    while node not in passed:
        passed.add(node)
        if not node.is_switch:
            return (node, ingress) if node.ports[ingress].covers(lid) else None
        if node.ports[0].covers(lid):
            return node, ingress
        egress = _egress(node, lid)
        peer = egress.up_peer() if egress is not None else None
        if peer is None:
            return None
        node, ingress = peer.node, peer.number
    return None


def hops(port: SimPort, lid: int) -> tuple[list[tuple[SimPort, SimPort | None]], SimPort | None]:
    """Follow the route of a packet that is not an SMP from *port* to *lid*.

    Returns its links, as (egress port, ingress port), and the end port; None for the end port if the packet is lost.
    Such a packet passes a link only if the sending port is Active and the receiving port Armed or Active (IBA 7.2.7):
    of the link at which it is lost the ingress port is None. A packet that comes to a switch for the second time
    circulates for ever, and counts as lost there.
    """
    links: list[tuple[SimPort, SimPort | None]] = []
    if port.covers(lid):
        return links, port
    passed = {port.node}
    egress = _egress(port.node, lid) if port.node.is_switch else port
    while egress is not None:
        peer = egress.peer
        if peer is None or egress.state < PortState.ACTIVE or peer.state < PortState.ARMED:
            links.append((egress, None))
            break
        links.append((egress, peer))
        node = peer.node
        end = node.arrival_port(peer.number)
        if end.covers(lid):
            return links, end
        if node in passed:
            break
        passed.add(node)
        egress = _egress(node, lid) if node.is_switch else None
    return links, None


def _egress(switch: SimNode, lid: int) -> SimPort | None:
    """Return the port by which *switch* forwards packets to *lid*; None if it drops them, as it does above LinearFDBTop
    (IBA 14.2.5.4)."""
    table = forwarding_table(switch)
    egress = table[lid] if lid < len(table) and lid <= _linear_fdb_top(switch) else NO_ROUTE
    if not 0 < egress <= switch.num_ports or switch.silent == FORWARDS_NOTHING:
        return None
    return switch.ports[egress]


def _linear_fdb_top(switch: SimNode) -> int:
    return 0 if switch.switch_info is None else SwitchInfo.linear_fdb_top.decode(switch.switch_info)


def forwarding_table(node: SimNode) -> bytearray:
    """Return the linear forwarding table of the switch *node*: the table that was set, else the table of the start."""
    if node.routes is None:
        node.routes = node.first_routes(node)
    return node.routes
