"""The routes that a simulated subnet starts with, against their definition."""

from __future__ import annotations

import pytest

from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.routing import forwarding_table
from ibkeys.sim.subnet import Subnet
from tests.corpus import files, label
from tests.fattree import fat_tree

NO_ROUTE = 255
SMALL = 130_000
"""Bytes of a net file: the definition takes long on a large fabric."""


def distances(home: SimNode) -> dict[SimNode, int]:
    """Return for each switch that reaches *home* over switches how many cables that takes."""
    found, last = {home: 0}, [home]
    while last:
        last = [
            peer.node
            for node in last
            for port in node.ports[1:]
            if (peer := port.first_peer) is not None and peer.node.is_switch and peer.node not in found
        ]
        found |= {node: max(found.values()) + 1 for node in last}
    return found


def home_of(port: SimPort) -> SimPort | None:
    """Return the switch port at which the way to an end port ends."""
    if port.node.is_switch:
        return port
    return port.first_peer if port.first_peer is not None and port.first_peer.node.is_switch else None


@pytest.mark.parametrize(
    "net",
    [pytest.param(file.read_text(), id=label(file)) for file in files("fabrics/*.net") if file.stat().st_size < SMALL]
    + [pytest.param(fat_tree(3, 2, 2, pods=2, cores=2), id="three levels")],
)
def test_each_lid_takes_a_shortest_way_and_the_ways_take_turns(net: str) -> None:
    subnet = Subnet.from_text(net)
    switches = [node for node in subnet.nodes if node.is_switch]
    from_home: dict[SimNode, dict[SimNode, int]] = {}
    for port, base, count in subnet.first_routes.lids:
        home = home_of(port)
        if home is not None and home.node not in from_home:
            from_home[home.node] = distances(home.node)
        for switch in switches:
            table = forwarding_table(switch)
            far = from_home[home.node].get(switch) if home is not None else None
            for lid in range(base, base + count):
                if home is None or far is None:
                    assert table[lid] == NO_ROUTE
                elif far == 0:
                    assert table[lid] == home.number
                else:
                    ways = [
                        each.number
                        for each in switch.ports[1:]
                        if (peer := each.first_peer) is not None and from_home[home.node].get(peer.node) == far - 1
                    ]
                    assert table[lid] == ways[lid % len(ways)]
