"""What packets do in a simulated fabric, between every two end ports and with every P_Key."""

from __future__ import annotations

from itertools import permutations, product

from ibkeys.keys.pkey import InboundCheck, may_talk
from ibkeys.reach.why import Connectivity
from ibkeys.sim import nodes
from ibkeys.sim.notices import Packet
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests.fabricsim import tool


def read(net: Subnet) -> Topology:
    with tool(net) as fabric:
        return fabric.sweep(p_keys=True)


def ends(net: Subnet, fabric: Topology) -> list[tuple[nodes.SimPort, Port]]:
    """Every end port as it is, and as it was read."""
    return [(net.port(port.node.guid, port.num), port) for port in fabric.end_ports()]


def keys(port: nodes.SimPort) -> list[int]:
    return [key for key in dict.fromkeys(port.p_keys) if key & 0x7FFF]


def by_packets(
    net: Subnet, check: InboundCheck, pairs: list[tuple[nodes.SimPort, Port]]
) -> dict[tuple[Port, Port], Connectivity]:
    """Send a packet with every P_Key from every end port to every other, and say what came of it."""
    net.inbound_check = check
    arrived = {
        (one, other, key): net.packet(Packet(a, b, key)).endswith("received")
        for (a, one), (b, other) in permutations(pairs, 2)
        for key in keys(a)
    }
    return {
        (one, other): Connectivity(
            any(
                may_talk(key, answer) and arrived[one, other, key] and arrived[other, one, answer]
                for key, answer in product(keys(a), keys(b))
            ),
            any(arrived[one, other, key] for key in keys(a)),
            any(arrived[other, one, key] for key in keys(b)),
        )
        for (a, one), (b, other) in permutations(pairs, 2)
    }
