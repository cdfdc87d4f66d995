"""`why` by the forwarding tables: against what packets do, and as a command on two switches with two cables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
from random import Random

import pytest

from ibkeys.keys.pkey import INBOUND_CHECKS, PKey
from ibkeys.mad.attributes import LinearForwardingTable
from ibkeys.reach.packet import packets_to
from ibkeys.reach.reach import Reach
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.notices import Packet
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.forwarding import follow
from ibkeys.topology.model import Topology
from tests.cli.conftest import TWO_SWITCH, Result, run
from tests.fabricsim import change_each_subnet, subnet, tool
from tests.reach.packets import by_packets, ends
from tests.reach.routed import KEYS, SHAPES, routed_net
from tests.sample import sampled

ROWS = [f"{shape} {number}" for number in range(12) for shape in SHAPES]
NETS = 12
"""In each row."""
HERE, THERE = "node01 mlx4_0", "node04 mlx4_0"


def read_with_routes(net: Subnet) -> Topology:
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
        fabric.read_routes(found, combinations(list(found.end_ports()), 2))
        return found


@pytest.mark.parametrize("row", sampled(ROWS, ["ring 1", "fat tree 2"]))
def test_why_says_exactly_what_packets_do(row: str) -> None:
    random = Random(row)
    for _ in range(NETS):
        net = routed_net(random, row.rpartition(" ")[0])
        fabric = read_with_routes(net.subnet)
        assert not fabric.troubles
        pairs = ends(net.subnet, fabric)
        for check in INBOUND_CHECKS:
            reach, seen = Reach(fabric, inbound_check=check), by_packets(net.subnet, check, pairs)
            for (_, one), (_, other) in permutations(pairs, 2):
                assert reach.why(one, other).ways == seen[one, other], (str(one), str(other), check)


@pytest.mark.parametrize("row", sampled(ROWS, ["torus 1"]))
def test_a_packet_with_any_p_key_ends_where_it_ends_in_the_fabric(row: str) -> None:
    random = Random(row)
    for _ in range(NETS):
        net = routed_net(random, row.rpartition(" ")[0])
        fabric = read_with_routes(net.subnet)
        for (a, one), (b, other) in permutations(ends(net.subnet, fabric), 2):
            for key in KEYS:
                [path] = packets_to(one, other, [PKey(key)], net.subnet.inbound_check)
                text = net.subnet.packet(Packet(a, b, key))
                assert (path.outcome == "delivered") == text.endswith("received")
                if path.stopped_by is not None:
                    port = path.stopped_by.port
                    end = str(net.subnet.port(port.node.guid, port.num))
                    assert f"dropped by {path.stopped_by.direction} enforcement at {end}" in text or (
                        path.stopped_by.direction == "received" and f"dropped at {end}" in text
                    )


def test_it_reads_at_most_two_blocks_at_each_switch_on_the_way() -> None:
    net = subnet("torus444")
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
        ports = [port for port in found.end_ports() if not port.node.is_switch]
        one, other = ports[0], ports[-1]
        fabric.read_routes(found, [(one, other)])
        routes = [follow(one, other.lid or 0), follow(other, one.lid or 0)]
        assert all(route.arrives for route in routes)
        switches = {hop.node for route in routes for hop in route.hops if hop.node.is_switch}
        sent = fabric.client.statistics.by_attribute[LinearForwardingTable.attribute_id]
        assert 2 < len(switches) <= sent <= 2 * len(switches)


def test_a_table_that_was_not_read_leaves_the_answer_open() -> None:
    net = blocked(subnet("two-switch"))
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
        one, other = (found.port_of(name) for name in (HERE, THERE))
        assert Reach(found).why(one, other).ways == (None, None, None)
        first = next(node for node in net.nodes if node.is_switch)
        first.silent = 1
        fabric.read_routes(found, [(one, other)])
    assert [trouble.attribute for trouble in found.troubles] == ["LinearForwardingTable"]
    assert Reach(found).why(one, other).ways == (None, None, None)


def blocked(net: Subnet) -> Subnet:
    """Let the cable from node01 to node04 stop every packet: both ends enforce with an empty table."""
    [port, *_] = _between(net)
    assert port.peer is not None
    for end in (port, port.peer):
        end.p_keys = []
        end.inbound_enforcement = end.outbound_enforcement = 1
    return net


def _between(net: Subnet) -> list[SimPort]:
    [first, *_] = [node for node in net.nodes if node.is_switch]
    return [port for port in first.ports[1:] if port.peer is not None and port.peer.node.is_switch]


@pytest.fixture
def why(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    change_each_subnet(monkeypatch, blocked)
    return lambda *words: run("why", HERE, THERE, *words, "--backend", TWO_SWITCH)


def test_the_command_shows_the_port_on_the_route_that_stops_the_packets(why: Callable[..., Result]) -> None:
    found = why()
    assert found.code == 1
    assert f"  one way, {THERE} to {HERE}: packets get through, but no answer comes back\n" in found.out
    assert (
        "  route to LID 4, by the forwarding tables:\n"
        "    node01 mlx4_0, port 1\n"
        "    MF0;switch-a:IS5023/U1, port 1 to 7\n"
        "      port 7, outbound: stops 0xffff, no entry of its P_Key table fits\n"
        "  route to LID 1, by the forwarding tables:\n"
    ) in found.out
    assert "if switches route adaptively, which cannot be read (--adaptive-routing), the answer is: " in found.out
    tree = found.out[found.out.index("  route to") : found.out.index("  SMPs")]
    assert all(len(line) <= 80 for line in tree.splitlines())
    document = why("-f", "json").json
    assert (document["can_talk"], document["a_to_b"], document["b_to_a"]) == (False, False, True)
    assert document["if_adaptive"] == {"can_talk": None, "a_to_b": None, "b_to_a": None}
    there, back = document["packets"]
    assert (there["way"], there["lid"], there["pkey"], there["outcome"]) == ("a_to_b", 4, "0xffff", "stopped")
    assert there["counter"] == "PortXmitConstraintErrors"
    assert [(hop["in_port"], hop["out_port"]) for hop in there["hops"]] == [(None, 1), (1, 7)]
    assert there["hops"][-1]["checks"] == [{"port": 7, "direction": "outbound", "index": None, "entry": None}]
    assert (back["way"], back["outcome"], back["counter"], back["lost_by"]) == ("b_to_a", "delivered", None, None)


def test_with_adaptive_routing_the_answer_holds_on_every_route(why: Callable[..., Result]) -> None:
    found = why("--adaptive-routing")
    assert found.code == 3
    assert "it is not known whether they can talk: it depends on the route\n" in found.out
    assert why("--adaptive-routing", "--packet", "0xffff").code == 2


@pytest.mark.parametrize(("key", "code"), [("0xffff", 1), ("0x8001", 1)])
def test_one_packet_is_followed_to_its_end(why: Callable[..., Result], key: str, code: int) -> None:
    found = why("--packet", key)
    assert found.code == code
    assert (
        f"  a packet with {key} to LID 4: stopped at MF0;switch-a:IS5023/U1 port 7 (outbound), which counts it in "
        "PortXmitConstraintErrors\n"
    ) in found.out
    [packet] = why("--packet", key, "-f", "json").json["packets"]
    assert (packet["pkey"], packet["outcome"], packet["unread"]) == (key, "stopped", None)
    assert why("--packet", key, "-f", "csv").out.splitlines()[1] == f"4,{key},stopped,"


def test_a_packet_that_no_switch_stops_gets_through() -> None:
    assert run("why", HERE, THERE, "--packet", "0x7fff", "--backend", TWO_SWITCH).code == 0
    assert run("why", HERE, THERE, "--packet", "0x0001", "--backend", TWO_SWITCH).code == 1


def lose_lid_4(net: Subnet) -> None:
    [first, *_] = [node for node in net.nodes if node.is_switch]
    routes = first.first_routes(first)
    routes[4] = 0xFF
    first.routes = routes
    first.touch()


def test_a_route_that_loses_packets_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    change_each_subnet(monkeypatch, lose_lid_4)
    found = run("why", HERE, THERE, "--backend", TWO_SWITCH)
    assert found.code == 1
    assert f"one way, {THERE} to {HERE}" in found.out
    assert "      lost: its forwarding table has no port for this LID\n" in found.out
    packet = run("why", HERE, THERE, "--packet", "0xffff", "--backend", TWO_SWITCH, "-f", "json").json["packets"][0]
    assert (packet["outcome"], packet["lost_by"]) == ("lost", "no entry")


def test_a_route_that_the_sending_switch_itself_loses_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    change_each_subnet(monkeypatch, lose_lid_4)
    words = ("why", "MF0;switch-a:IS5023/U1", THERE, "--backend", TWO_SWITCH)
    found = run(*words)
    assert found.code == 1
    assert (
        "  route to LID 4, by the forwarding tables:\n"
        "    MF0;switch-a:IS5023/U1\n"
        "      lost: its forwarding table has no port for this LID\n"
    ) in found.out
    packets = run(*words, "-f", "json").json["packets"]
    assert [(each["way"], each["outcome"]) for each in packets] == [("a_to_b", "lost"), ("b_to_a", "delivered")]


@pytest.mark.parametrize("row", sampled(ROWS, ["ring 3"]))
def test_the_matrix_counts_what_why_says_of_each_pair(row: str) -> None:
    random = Random(row)
    for number in range(NETS):
        net = routed_net(random, row.rpartition(" ")[0])
        fabric = read_with_routes(net.subnet)
        if number % 2:
            forget_some_blocks(fabric, random)
        for check in INBOUND_CHECKS:
            reach = Reach(fabric, inbound_check=check)
            numbers = dict(zip(reach.ports, random.sample(range(100), len(reach.ports)), strict=True))
            renumbered = Reach(fabric, numbers.get, inbound_check=check)
            for one, other in permutations(reach.ports, 2):
                profile = reach.standings_of(one)
                assert profile is not None
                has_other = [ports >> numbers[other] & 1 for ports in renumbered.reached(profile)]
                assert has_other == [ports >> reach.ports.index(other) & 1 for ports in reach.reached(profile)]
                found, bit = reach.reached(profile), 1 << reach.ports.index(other)
                ways = reach.why(one, other).ways
                if found.both & bit:
                    assert ways.can_talk is True
                elif found.unknown & bit:
                    assert None in ways
                else:
                    assert (bool(found.to & bit), bool(found.by & bit)) == (ways.a_to_b, ways.b_to_a)
            readings = [Reach(fabric, inbound_check=each) for each in INBOUND_CHECKS]
            for port in reach.ports:
                if port not in reach.depending_on_inbound_check():
                    for other in reach.ports:
                        if other is not port:
                            assert len({each.why(port, other).ways.a_to_b for each in readings}) == 1


def forget_some_blocks(fabric: Topology, random: Random) -> None:
    for node in fabric.nodes:
        if node.is_switch and random.random() < 0.4:
            node.forwarding = random.choice((None, {}))
