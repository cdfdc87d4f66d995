"""Random fabrics for comparisons: any shape, LMC 0 to 3, each LID with routes of its own, tables and enforcement at any
port; some with mistakes in what an SM writes. And random packets through them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.const import NodeType, PortState
from ibkeys.sim.nodes import SimNode
from ibkeys.sim.subnet import Subnet
from tests.fabricsim import set_enforcement_caps, set_p_key_capacity
from tests.reach.routed import KEYS, RoutedNet, lids_of, routed_net
from tests.routes.physical import place_of
from tests.routes.plain import Packet

OTHERS = range(0x4000, 0x4028)
"""P_Keys that no packet has: they move the entry that decides, also into the second block of a table."""


Drawn = tuple[Random, Subnet]
"""A fabric, and what draws its packets."""


def drawn_nets(lmc: int, most: int = 1000) -> Iterator[Drawn]:
    """Yield up to *most* random fabrics. *lmc*: of their CA and router ports; each switch has it, or 0."""
    for seed in range(most):
        random = Random(f"{lmc} {seed}")
        yield random, _drawn_net(random, lmc)


def with_tables(net: Subnet, most: int = 1000) -> Iterator[Drawn]:
    """Yield *net* up to *most* times, each time with other P_Key tables and other enforcement; routes stay."""
    for seed in range(most):
        random = Random(seed)
        _give_tables(random, net)
        yield random, net


def _drawn_net(random: Random, lmc: int) -> Subnet:
    net = routed_net(random)
    _give_lids(net, lmc)
    for node in net.subnet.nodes:
        if not node.is_switch and node.num_ports == 1 and random.random() < 0.1:
            node.node_type = NodeType.ROUTER
    net.route()
    _give_tables(random, net.subnet)
    if random.random() < 0.3:
        _make_mistakes(net)
    return net.subnet


def drawn_packets(random: Random, net: Subnet, count: int) -> Iterator[Packet]:
    """Yield *count* packets from any end port to any LID, some to LIDs that nobody has."""
    ends = [port for node in net.nodes for port in node.end_ports if port.lid]
    lids = [lid for port in ends for lid in lids_of(port)]
    for _ in range(count):
        source = random.choice(ends)
        lid = random.choice(lids) if random.random() < 0.98 else random.randint(1, max(lids) + 2)
        held = [key for key in source.p_keys if key in KEYS]
        p_key = random.choice(held) if held and random.random() < 0.6 else random.choice((*KEYS, 0x0002))
        if random.random() < 0.03:
            p_key = random.choice((0, 0x8000))
        yield Packet(place_of(source), lid, p_key, source_lid=random.choice(lids_of(source)))


def _give_lids(net: RoutedNet, lmc: int) -> None:
    """Give the end ports LIDs in any order, with gaps; a base LID is a multiple of 2^LMC (IBA 4.1.3)."""
    ports = net.end_ports
    net.random.shuffle(ports)
    free = 1
    for port in ports:
        port.lmc = net.random.choice((0, lmc)) if port.node.is_switch else lmc
        size = 1 << port.lmc
        port.lid = -(-(free + net.random.choice((0, 0, 1))) // size) * size
        free = port.lid + size
    for switch in net.switches:
        _set_top(switch, free - 1)


def _set_top(switch: SimNode, lid: int) -> None:
    assert switch.switch_info is not None
    SwitchInfo.linear_fdb_top.patch(switch.switch_info, lid)
    switch.touch()


def _give_tables(random: Random, net: Subnet) -> None:
    """Give every port a table, and switch ports enforcement. How much is enforced, and how many ports let a packet
    pass, is drawn for leaf ports, for ports between switches, and for end ports."""
    at_leaf, between, limited = random.choice((0, 0.3, 0.8)), random.choice((0, 0.1, 0.3)), random.random()
    wide = {kind: random.choice((0.3, 0.7, 0.95)) for kind in ("end", "leaf", "between")}

    def table(kind: str, capacity: int) -> list[int]:
        keys = random.sample((0xFFFF, 0x8001, 0x8002), random.choice((1, 2)))
        if random.random() < wide[kind]:
            keys = [0xFFFF, 0x8001, 0x8002]
        keys = [key & 0x7FFF if random.random() < limited else key for key in keys]
        keys += random.choices((*KEYS, 0, 0x8000), k=random.choice((0, 0, 1)))
        before = random.choice((0, 0, 1, 31, 32, 33)) if capacity > 36 else 0
        return [*random.sample(OTHERS, before), *random.sample(keys, len(keys))][:capacity]

    for node in net.nodes:
        caps = random.choice((1, 3, 4, 8, 40, 64)), random.choice((0, 1, 3, 8, 32, 40, 64, 64))
        set_p_key_capacity(node, caps[0], caps[1] if node.is_switch else None)
        if node.is_switch:
            set_enforcement_caps(node, *random.choice([(True, True)] * 5 + [(True, False), (False, True)]))
        for port in node.all_ports:
            if port.is_end_port:
                port.p_keys = table("end", port.p_key_capacity)
                continue
            is_between = port.peer is not None and port.peer.node.is_switch
            port.p_keys = table("between" if is_between else "leaf", port.p_key_capacity)
            share = between if is_between else at_leaf
            port.inbound_enforcement, port.outbound_enforcement = (int(random.random() < share) for _ in range(2))


def _make_mistakes(net: RoutedNet) -> None:
    """Let some entries of forwarding tables lead nowhere, elsewhere or to the switch, some tables end early, and some
    ports be in another state than Active."""
    random = net.random
    for switch in net.switches:
        assert switch.routes is not None
        for lid in range(1, len(switch.routes)):
            if random.random() < 0.05:
                switch.routes[lid] = random.choice((0, 255, switch.num_ports + 1, *range(1, switch.num_ports + 1)))
        if random.random() < 0.2:
            _set_top(switch, random.randrange(len(switch.routes)))
    states = (PortState.DOWN, PortState.INITIALIZE, PortState.ARMED)
    for node in net.subnet.nodes:
        for port in node.all_ports:
            if random.random() < 0.05:
                port.state = random.choice(states)
