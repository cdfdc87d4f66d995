"""How a MAD finds its way: directed routes port by port, LID routes by the switches' own forwarding tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from ibkeys.mad.const import PortState
from ibkeys.sim.nodes import NO_ROUTE, Node, Port

MAX_LID_HOPS: Final = 64
FORWARDS_NOTHING: Final = 2


def directed(start: Node, ingress: int, path: bytes, hops: int) -> tuple[Node, int, bytes] | None:
    """Walk *hops* entries of *path* (entry 0 is unused) from *start*.

    *ingress* is the port of *start* that the SMP came in by, or is sent from. Returns the node, its ingress port and
    the ReturnPath of hops + 1 entries; None if the SMP dies: a node in the middle that is not a switch, a port number
    the node does not have, a dead link. Source: IBA 14.2.2; Linux smi.c.
    """
    node = start
    if hops and not node.is_switch and path[1] != ingress:
        return None
    back = bytearray(1)
    for egress in path[1 : hops + 1]:
        in_the_middle = len(back) > 1
        if in_the_middle and (not node.is_switch or node.silent == FORWARDS_NOTHING):
            return None
        if not 0 < egress <= node.num_ports:
            return None
        peer = node.ports[egress].up_peer
        if peer is None:
            return None
        node, ingress = peer.node, peer.number
        back.append(ingress)
    return node, ingress, bytes(back)


def by_lid(port: Port, lid: int) -> tuple[Node, int] | None:
    """Follow *lid* from *port* to the end port that has it. Returns the node and its ingress port, or None.

    This is the way of an SMP, which passes every link that is at least Initialize.
    """
    node, ingress = port.node, port.number
    if not node.is_switch:
        if port.covers(lid):
            return node, ingress
        peer = port.up_peer
        if peer is None:
            return None
        node, ingress = peer.node, peer.number
    for _ in range(MAX_LID_HOPS):
        if not node.is_switch:
            return (node, ingress) if node.ports[ingress].covers(lid) else None
        if node.ports[0].covers(lid):
            return node, ingress
        egress = forwarding_table(node)[lid] if lid < len(forwarding_table(node)) else NO_ROUTE
        if not 0 < egress <= node.num_ports or node.silent == FORWARDS_NOTHING:
            return None
        peer = node.ports[egress].up_peer
        if peer is None:
            return None
        node, ingress = peer.node, peer.number
    return None


def hops(port: Port, lid: int) -> tuple[list[tuple[Port, Port]], Port | None]:
    """Follow *lid* from *port* as a packet that is not an SMP. Returns the links (egress, ingress) and the end port.

    Such a packet passes a link only when the port that sends is Active and the one that receives Armed or Active
    (IBA 7.2.7). The end port is None where the packet is lost; the links are those it got over.
    """
    passed: list[tuple[Port, Port]] = []
    if port.covers(lid):
        return passed, port
    out = port
    if port.node.is_switch:
        next_out = _egress(port.node, lid)
        if next_out is None:
            return passed, None
        out = next_out
    while len(passed) < MAX_LID_HOPS:
        peer = out.peer
        if peer is None or out.state < PortState.ACTIVE or peer.state < PortState.ARMED:
            return passed, None
        passed.append((out, peer))
        node = peer.node
        end = node.ports[0] if node.is_switch else peer
        if end.covers(lid):
            return passed, end
        next_out = _egress(node, lid) if node.is_switch else None
        if next_out is None:
            return passed, None
        out = next_out
    return passed, None


def _egress(switch: Node, lid: int) -> Port | None:
    table = forwarding_table(switch)
    egress = table[lid] if lid < len(table) else NO_ROUTE
    if not 0 < egress <= switch.num_ports or switch.silent == FORWARDS_NOTHING:
        return None
    return switch.ports[egress]


def forwarding_table(node: Node) -> bytearray:
    """Return the switch's linear forwarding table; min-hop routes over the first cabling until somebody sets it."""
    if node.routes is None:
        node.routes = _min_hop(node)
    return node.routes


def _min_hop(switch: Node) -> bytearray:
    """Spread the destinations behind each switch over all shortest ways, by LID. Equal for equal files."""
    first_hops = _first_hops(switch)
    table = bytearray(b"\xff" * first_top_lid(switch.first_lids))
    for port, base, count in switch.first_lids:
        node = port.node
        if node is switch:
            table[base : base + count] = bytes(count)
            continue
        far_end = port.first_peer
        home = node if node.is_switch else far_end.node if far_end is not None else None
        if home is switch and far_end is not None:
            table[base : base + count] = bytes([far_end.number]) * count
            continue
        ways = first_hops.get(home.index) if home is not None else None
        if ways:
            for lid in range(base, base + count):
                table[lid] = ways[lid % len(ways)]
    return table


def first_top_lid(first_lids: Sequence[tuple[Port, int, int]]) -> int:
    """Return the length that a forwarding table needs for the LIDs of the start (see `Node`)."""
    return max((base + count for _, base, count in first_lids), default=0)


def _first_hops(switch: Node) -> dict[int, list[int]]:
    """Return for every switch that can be reached the ports of *switch* that begin a shortest way to it."""
    ways: dict[int, set[int]] = {switch.index: set()}
    distance = {switch.index: 0}
    queue = deque([switch])
    while queue:
        node = queue.popleft()
        for port in node.ports[1:]:
            far_end = port.first_peer
            if far_end is None or not far_end.node.is_switch:
                continue
            there = far_end.node.index
            if there not in distance:
                distance[there] = distance[node.index] + 1
                ways[there] = set()
                queue.append(far_end.node)
            if distance[there] == distance[node.index] + 1:
                ways[there] |= {port.number} if node is switch else ways[node.index]
    return {index: sorted(ports) for index, ports in ways.items()}
