"""Who can talk to whom, against packets that the simulated subnet carries, and against a count of every pair."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.keys.pkey import PKey
from ibkeys.reach.difference import compare_reach
from ibkeys.reach.reach import Reach
from ibkeys.sim.notices import Packet
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests.fabricsim import set_enforcement_caps, set_p_key_capacity, subnet, tool

FEW = [0x0000, 0x8000, 0xFFFF, 0x7FFF, 0x8001, 0x0001, 0x8002, 0x0002]
TABLES = st.lists(st.sampled_from(FEW), min_size=1, max_size=5)


def read(net: Subnet) -> Topology:
    with tool(net) as fabric:
        return fabric.sweep(p_keys=True)


def named(fabric: Topology, name: str) -> Port:
    [port] = [port for port in fabric.end_ports() if port.node.description == name and port.num]
    return port


def hosts(net: Subnet) -> list[str]:
    return [node.description for node in net.nodes if not node.is_switch]


def test_full_and_limited_members(net: Subnet) -> None:
    net.port("node01 mlx4_0", 1).p_keys = [0xFFFF, 0x8001]
    net.port("node02 mlx4_0", 1).p_keys = [0x7FFF, 0x0001]
    net.port("node03 mlx4_0", 1).p_keys = [0x7FFF, 0, 0x0001]
    fabric = read(net)
    reach = Reach(fabric)
    one, two, three = (named(fabric, f"node0{number} mlx4_0") for number in (1, 2, 3))
    assert reach.why(one, two).can_talk
    assert [(str(match.a_pkey), str(match.b_pkey)) for match in reach.why(one, three).matches] == [
        ("0xffff", "0x7fff"),
        ("0x8001", "0x0001"),
    ]
    assert reach.why(two, three).can_talk is False  # limited with limited
    [first, default] = reach.memberships()
    assert (first.partition, first.full, first.limited) == (1, (one,), (two, three))
    assert two in default.limited


def test_a_port_with_both_p_keys_acts_as_full(net: Subnet) -> None:
    net.port("node01 mlx4_0", 1).p_keys = [0x0001, 0x8001]
    net.port("node02 mlx4_0", 1).p_keys = [0x0001]
    fabric = read(net)
    one, two = named(fabric, "node01 mlx4_0"), named(fabric, "node02 mlx4_0")
    verdict = Reach(fabric).why(one, two)
    assert verdict.can_talk
    assert [str(match.a_pkey) for match in verdict.matches] == ["0x8001"]
    [membership] = [each for each in Reach(fabric).memberships() if each.partition == 1]
    assert membership.members.count(one) == 1
    assert one in membership.full
    assert one in membership.limited


@pytest.mark.parametrize(
    ("inbound", "outbound", "leaf", "stops"),
    [
        (False, False, [0xFFFF], []),
        (True, False, [0xFFFF], ["inbound"]),
        (False, True, [0xFFFF], ["outbound"]),
        (True, True, [0xFFFF], ["inbound", "outbound"]),
        (True, True, [0xFFFF, 0x8001], []),
        (True, True, [0x0001], []),  # the member is full, and so is the other
    ],
)
def test_what_a_leaf_port_stops_is_named_with_its_direction(
    net: Subnet, inbound: bool, outbound: bool, leaf: list[int], stops: list[str]
) -> None:
    one, two = net.port("node01 mlx4_0", 1), net.port("node02 mlx4_0", 1)
    one.p_keys = two.p_keys = [0x8001]
    switch_port = one.peer
    assert switch_port is not None
    switch_port.p_keys = leaf
    switch_port.inbound_enforcement, switch_port.outbound_enforcement = int(inbound), int(outbound)
    fabric = read(net)
    verdict = Reach(fabric).why(named(fabric, "node01 mlx4_0"), named(fabric, "node02 mlx4_0"))
    assert verdict.can_talk is (not stops)
    [match] = verdict.matches
    assert [stop.direction for stop in match.stops] == stops
    assert all((stop.port.num, stop.p_key) == (switch_port.number, 0x8001) for stop in match.stops)


@pytest.mark.parametrize(
    ("capacity", "inbound", "outbound", "stops"),
    [(0, True, True, []), (64, False, False, []), (64, True, False, ["inbound"]), (64, False, True, ["outbound"])],
)
def test_a_switch_that_cannot_enforce_stops_nothing_whatever_its_ports_say(
    net: Subnet, capacity: int, inbound: bool, outbound: bool, stops: list[str]
) -> None:
    one, two = net.port("node01 mlx4_0", 1), net.port("node02 mlx4_0", 1)
    one.p_keys = two.p_keys = [0x8001]
    assert one.peer is not None
    one.peer.inbound_enforcement = one.peer.outbound_enforcement = 1
    set_p_key_capacity(one.peer.node, enforcement_cap=capacity)
    set_enforcement_caps(one.peer.node, inbound, outbound)
    fabric = read(net)
    reach = Reach(fabric)
    ends = named(fabric, "node01 mlx4_0"), named(fabric, "node02 mlx4_0")
    assert [stop.direction for match in reach.why(*ends).matches for stop in match.stops] == stops
    assert reach.why(*ends).can_talk is (not stops)
    assert (ends in list(reach.talking_pairs())) is (not stops)


def test_a_limited_member_behind_a_copy_of_its_table_reaches_full_members(net: Subnet) -> None:
    """As OpenSM leaves a fabric with `ALL=limited, SELF=full` and part_enforce both."""
    for number in range(1, 7):
        port = net.port(f"node0{number} mlx4_0", 1)
        assert port.peer is not None
        port.p_keys = port.peer.p_keys = [0xFFFF if number == 1 else 0x7FFF]
        port.peer.inbound_enforcement = port.peer.outbound_enforcement = 1
    fabric = read(net)
    reach = Reach(fabric)
    manager, *others = (named(fabric, f"node0{number} mlx4_0") for number in range(1, 7))
    assert all(reach.why(manager, other).can_talk for other in others)
    assert not any(reach.why(*pair).can_talk for pair in combinations(others, 2))
    assert not list(reach.stops_in(reach.memberships()[0]))


def test_a_table_that_was_not_read_makes_the_answer_unknown(net: Subnet) -> None:
    net.faults.lose_next("reply", node=net.node("node02 mlx4_0"), attribute=0x16, count=100)
    fabric = read(net)
    reach = Reach(fabric)
    one, two = named(fabric, "node01 mlx4_0"), named(fabric, "node02 mlx4_0")
    assert reach.why(one, two).can_talk is None
    assert reach.why(one, two).unread == (two,)
    assert reach.unread == [two]


def test_a_leaf_port_that_enforces_with_a_table_not_read_makes_the_answer_unknown(net: Subnet) -> None:
    one = net.port("node01 mlx4_0", 1)
    assert one.peer is not None
    one.peer.inbound_enforcement = 1
    fabric = read(net)
    port = named(fabric, "node01 mlx4_0")
    assert port.peer is not None
    port.peer.p_key_raw = None
    assert Reach(fabric).unread == [port]
    assert Reach(fabric).why(port, named(fabric, "node02 mlx4_0")).can_talk is None


def test_tables_that_do_not_match_decide_whatever_is_enforced(net: Subnet) -> None:
    net.port("node01 mlx4_0", 1).p_keys = [0x8001]
    net.port("node02 mlx4_0", 1).p_keys = [0x8002]
    fabric = read(net)
    port = named(fabric, "node01 mlx4_0")
    assert port.peer is not None
    port.peer.info = None
    assert Reach(fabric).why(port, named(fabric, "node02 mlx4_0")).can_talk is False


@pytest.fixture
def net() -> Subnet:
    return subnet("two-switch")


@settings(deadline=None)
@given(data=st.data())
def test_packets_get_through_as_it_is_said(data: st.DataObject) -> None:
    """For random tables and enforcement: what the simulated subnet does with packets is what `why` says."""
    net = _WIRED
    for name in hosts(net):
        port = net.port(name, 1)
        assert port.peer is not None
        port.p_keys, port.peer.p_keys = data.draw(TABLES), data.draw(TABLES)
        bits = data.draw(st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 1), (1, 1)]))
        port.peer.inbound_enforcement, port.peer.outbound_enforcement = bits
    fabric = read(net)
    reach = Reach(fabric)
    talking = 0
    for a, b in combinations(hosts(net), 2):
        one, other = named(fabric, a), named(fabric, b)
        verdict = reach.why(one, other)
        through = [
            match for match in verdict.matches if arrives(net, a, b, match.a_pkey) and arrives(net, b, a, match.b_pkey)
        ]
        assert through == [match for match in verdict.matches if not match.stops]
        assert verdict.can_talk is bool(through)
        talking += bool(verdict.can_talk)
    ends = [port for port in fabric.end_ports() if port.node.is_switch]
    talking += sum(bool(reach.why(a, b).can_talk) for a in ends for b in fabric.end_ports() if a is not b and b.num)
    talking += sum(bool(reach.why(a, b).can_talk) for a, b in combinations(ends, 2))
    assert reach.count()[0] == talking == sum(1 for _ in reach.talking_pairs())
    assert all(reach.why(a, b).can_talk for a, b in reach.talking_pairs())
    for each in reach.memberships():
        within = {each.partition}
        assert reach.count(within)[0] == sum(1 for _ in reach.talking_pairs(within))
        assert reach.count(within)[1] == sum(1 for _ in reach.one_way_pairs(within))


def arrives(net: Subnet, source: str, destination: str, p_key: PKey) -> bool:
    packet = Packet(net.port(source, 1), net.port(destination, 1), int(p_key))
    return net.packet(packet).endswith("received")


_WIRED = subnet("two-switch")


@given(data=st.data())
def test_gained_and_lost_pairs_are_those_of_every_pair_looked_at(data: st.DataObject) -> None:
    net = _WIRED
    fabrics = []
    for _ in range(2):
        for name in hosts(net):
            net.port(name, 1).p_keys = data.draw(TABLES)
        fabrics.append(read(net))
    before, after = fabrics
    found = compare_reach(before, after)
    gained = lost = 0
    for (a, c), (b, d) in combinations(zip(before.end_ports(), after.end_ports(), strict=True), 2):
        could, can = Reach(before).why(a, b).can_talk, Reach(after).why(c, d).can_talk
        gained += bool(can and not could)
        lost += bool(could and not can)
    assert (found.count("gained"), found.count("lost")) == (gained, lost)


def test_ports_that_no_partition_tells_apart_are_one_group() -> None:
    fabric = read(subnet("ft648"))
    reach = Reach(fabric)
    assert len(reach.groups) == 1
    count = sum(1 for _ in fabric.end_ports())
    assert reach.count()[0] == count * (count - 1) // 2
