"""Enforcement at any switch port, between switches too, against packets on routes of every kind."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from ibkeys.keys.pkey import INBOUND_CHECKS
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.reach.reach import Reach
from ibkeys.reach.routes import numbers_in
from ibkeys.reach.why import Connectivity
from ibkeys.sim import nodes
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests.fabricsim import subnet
from tests.plan.planning import perform, sm_at
from tests.reach.packets import by_packets, ends, read
from tests.reach.routed import SHAPES, RoutedNet, routed_net
from tests.sample import sampled

VERDICTS = 2_500
ROWS = [f"{shape} {number}" for number in range(8) for shape in SHAPES]
"""Each of so many verdicts: 100,000."""


def is_right(said: bool | None, seen: bool) -> bool:
    return said is None or said == seen


@pytest.mark.parametrize("row", sampled(ROWS, ["ring 0", "fat tree 0", "rings on a tree 0"]))
def test_what_is_said_of_a_pair_is_what_packets_do_on_every_route(row: str) -> None:
    random = Random(row)
    looked_at = 0
    while looked_at < VERDICTS:
        net = routed_net(random, row.rpartition(" ")[0])
        fabric = read(net.subnet)
        looked_at += compare_with_packets(net, fabric, ends(net.subnet, fabric))


def compare_with_packets(net: RoutedNet, fabric: Topology, pairs: list[tuple[nodes.SimPort, Port]]) -> int:
    """Look at every ordered pair on a few routings, and return how many verdicts that were."""
    check = net.subnet.inbound_check
    (other,) = (each for each in INBOUND_CHECKS if each != check)
    reach = Reach(fabric, inbound_check=check)
    said = {(a, b): reach.why(a, b) for a, b in permutations((port for _, port in pairs), 2)}
    for _ in range(3):
        net.route()
        for reading in (check, other):
            seen = by_packets(net.subnet, reading, pairs)
            for pair, ways in seen.items():
                found = said[pair].ways if reading == check else said[pair].otherwise
                assert all(map(is_right, found, map(bool, ways))), (pair, found, ways)
    net.subnet.inbound_check = check
    depending = set(reach.depending_on_inbound_check())
    assert all(depending & set(pair) for pair, verdict in said.items() if verdict.depends_on_inbound_check)
    assert_sets_are_as_pairs(reach, {pair: verdict.ways for pair, verdict in said.items()})
    return 3 * len(said)


def assert_sets_are_as_pairs(reach: Reach, said: dict[tuple[Port, Port], Connectivity]) -> None:
    """Compare the matrix with what is said of each pair."""
    one_way = unknown = talking = 0
    for at, port in enumerate(reach.ports):
        profile = reach.standings_of(port)
        assert profile is not None
        found = {way: set(numbers_in(ports)) - {at} for way, ports in reach.reached(profile)._asdict().items()}
        wanted: dict[str, set[int]] = {way: set() for way in found}
        for number, other in enumerate(reach.ports):
            if other is port:
                continue
            match said[port, other]:
                case True, _, _:
                    wanted["both"].add(number)
                case ways if None in ways:
                    wanted["unknown"].add(number)
                case _, there, back:
                    wanted["to"] |= {number} if there else set()
                    wanted["by"] |= {number} if back else set()
        assert found == wanted
        one_way, unknown, talking = (
            one_way + len(found["to"]),
            unknown + len(found["unknown"]),
            talking + len(found["both"]),
        )
    assert reach.count() == (talking // 2, one_way, unknown // 2)
    assert sum(1 for _ in reach.unknown_pairs()) == unknown // 2


def test_a_port_between_switches_makes_the_inbound_check_matter() -> None:
    """Switch ports with the limited P_Key stop a limited one by one reading only. Its sender is behind them."""
    net = subnet("two-switch")
    leaf = net.port("node05 mlx4_0", 1).peer
    assert leaf is not None
    for port in leaf.node.ports[1:]:
        if port.peer is not None and port.peer.node.is_switch:
            port.peer.inbound_enforcement = 1
            port.peer.p_keys = [0x7FFF]
    for port in (port for node in net.nodes for port in node.end_ports):
        port.p_keys = [0x7FFF if port.node.description == "node05 mlx4_0" else 0xFFFF]
    reach = Reach(read(net), inbound_check="partition")
    assert [port.node.description for port in reach.depending_on_inbound_check()] == ["node05 mlx4_0"]


@pytest.mark.parametrize("seed", range(20))
def test_on_a_tree_nothing_is_left_open(seed: int) -> None:
    """There is one route, so what packets do is known."""
    net = routed_net(Random(seed), "tree")
    fabric = read(net.subnet)
    pairs = ends(net.subnet, fabric)
    reach = Reach(fabric, inbound_check=net.subnet.inbound_check)
    for (a, b), ways in by_packets(net.subnet, net.subnet.inbound_check, pairs).items():
        assert reach.why(a, b).ways == ways


@pytest.mark.parametrize("seed", range(12))
def test_what_a_plan_connects_is_what_packets_do_before_and_after(seed: int) -> None:
    random = Random(seed)
    net = routed_net(random)
    net.subnet.inbound_check = "partition"
    members = ", ".join(f"0x{port.guid:x}={random.choice(('full', 'limited'))}" for port in net.end_ports)
    policy = parse_policy(f"Default=0x7fff : ALL=limited, SELF=full ;\nOne=0x1 : {members} ;\n", "p.conf")
    fabric = read(net.subnet)
    plan = make_plan(
        policy, fabric, PlanOptions(random.choice(("both", "in", "out", "off"))), sm_at(net.end_ports[0].guid)
    )
    was = talking(net, fabric)
    perform(net.subnet, plan)
    will = talking(net, read(net.subnet))
    for said, seen in ((plan.reach.gained, will - was), (plan.reach.lost, was - will)):
        assert said <= len(seen) <= said + plan.reach.unknown


def talking(net: RoutedNet, fabric: Topology) -> set[tuple[str, str]]:
    """Return the pairs that can talk, by the packets of the routes of now."""
    found = by_packets(net.subnet, net.subnet.inbound_check, ends(net.subnet, fabric))
    return {(str(a), str(b)) for (a, b), ways in found.items() if ways.can_talk and str(a) < str(b)}
