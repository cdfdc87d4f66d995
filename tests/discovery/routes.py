"""Routes and sides of links."""

from __future__ import annotations

from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.lies import Lie

#               as liar, as victim: NodeGUID, port
PLACES = {
    "host": ((0x506B4B0300500060, 1), (0x506B4B0300500100, 1)),
    "switch": ((0x506B4B0300600040, 0), (0x506B4B03006000C0, 0)),
}


def sides(net: Subnet, lie: Lie) -> tuple[SimPort, SimPort]:
    return net.port(*PLACES[lie.liar][0]), net.port(*PLACES[lie.victim][1])


def route_to(net: Subnet, port: SimPort) -> tuple[int, ...]:
    """The shortest directed route from the own node."""
    home = net.attach_port(net.nodes[0])
    ways: list[tuple[tuple[int, ...], SimPort]] = [((), home)]
    seen = {home.node}
    for way, at in ways:
        if at.node is port.node:
            return way
        for out in at.node.all_ports if at.node.is_switch else (at,):
            if out.peer is not None and out.peer.node not in seen and (at.node.is_switch or at is home):
                seen.add(out.peer.node)
                ways.append(((*way, out.number), out.peer))
    raise AssertionError(f"no route to {port}")
