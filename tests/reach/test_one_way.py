"""Reach has two directions: against single packets that random small simulated fabrics carry, one by one."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.keys.pkey import INBOUND_CHECKS, InboundCheck, may_talk
from ibkeys.reach.difference import compare_reach
from ibkeys.reach.forms import Standing, forms_passing_port
from ibkeys.reach.reach import Reach
from ibkeys.reach.routes import numbers_in
from ibkeys.reach.why import Connectivity
from ibkeys.sim.notices import Packet
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests.fabricsim import limited_members, set_enforcement_caps, set_p_key_capacity
from tests.reach.packets import by_packets, ends, read

KEYS = [0xFFFF, 0x7FFF, 0x8001, 0x0001, 0x8002, 0x0002]
TABLES = st.lists(st.sampled_from([0x0000, 0x8000, *KEYS]), min_size=1, max_size=4)
LIAR = "node02 mlx4_0"
CHECKS = st.sampled_from(INBOUND_CHECKS)


@st.composite
def nets(draw: st.DrawFn) -> Subnet:
    """Up to three switches in a row with up to five hosts, some of two ports on different switches."""
    switches = draw(st.integers(1, 3))
    links: list[tuple[str, int, str, int]] = [(f"S-{at}", 11, f"S-{at + 1}", 12) for at in range(1, switches)]
    free = {at: iter(range(1, 11)) for at in range(1, switches + 1)}
    hosts = draw(st.lists(st.lists(st.integers(1, switches), min_size=1, max_size=2), min_size=2, max_size=5))
    for number, homes in enumerate(hosts, 1):
        links += [(f"H-{number}", port, f"S-{at}", next(free[at])) for port, at in enumerate(homes, 1)]
    lines = []
    for node, kind, ports in [(f"S-{at}", "Switch", 12) for at in free] + [
        (f"H-{number}", "Ca", len(homes)) for number, homes in enumerate(hosts, 1)
    ]:
        lines.append(f'{kind}\t{ports} "{node}"\t\t# "{node}"')
        lines += [f'[{p}]\t"{b}"[{q}]' for a, p, b, q in links if a == node]
        lines += [f'[{q}]\t"{a}"[{p}]' for a, p, b, q in links if b == node]
        lines.append("")
    return Subnet.from_text("\n".join(lines))


def scramble(net: Subnet, data: st.DataObject) -> None:
    """Give end ports and leaf ports tables that have nothing to do with each other, and any mix of enforcement."""
    for node in net.nodes:
        if node.is_switch:
            set_enforcement_caps(node, *data.draw(st.sampled_from([(True, True)] * 3 + [(True, False), (False, True)])))
            set_p_key_capacity(node, enforcement_cap=data.draw(st.sampled_from([64, 64, 64, 0])))
        for port in node.end_ports:
            port.p_keys = data.draw(TABLES)
            leaf = None if node.is_switch else port.peer
            if leaf is not None:
                leaf.p_keys = data.draw(TABLES) if leaf.node.enforcement_capacity else []
                leaf.inbound_enforcement, leaf.outbound_enforcement = data.draw(st.tuples(*[st.integers(0, 1)] * 2))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(net=nets(), data=st.data(), check=CHECKS)
def test_every_ordered_pair_is_as_single_packets_show(net: Subnet, data: st.DataObject, check: InboundCheck) -> None:
    scramble(net, data)
    fabric = read(net)
    pairs = ends(net, fabric)
    (other_check,) = (each for each in INBOUND_CHECKS if each != check)
    reach = Reach(fabric, inbound_check=check)
    seen, otherwise = by_packets(net, check, pairs), by_packets(net, other_check, pairs)
    for (a, b), ways in seen.items():
        verdict = reach.why(a, b)
        assert verdict.ways == ways
        assert verdict.otherwise == otherwise[a, b]
        assert verdict.depends_on_inbound_check == (ways != otherwise[a, b])
    assert not reach.unread
    at = {port: number for number, port in enumerate(reach.ports)}
    for port in reach.ports:
        profile = reach.standings_of(port)
        assert profile is not None
        found = reach.reached(profile)
        others = [other for other in reach.ports if other is not port]
        for field, wanted in (
            ("both", [other for other in others if seen[port, other].can_talk]),
            ("to", [b for b in others if seen[port, b].a_to_b and not seen[port, b].can_talk]),
            ("by", [b for b in others if seen[port, b].b_to_a and not seen[port, b].can_talk]),
        ):
            assert [reach.ports[n] for n in numbers_in(getattr(found, field)) if n != at[port]] == wanted
    one_way = [pair for pair, ways in seen.items() if ways.a_to_b and not ways.can_talk]
    assert sorted(map(repr, reach.one_way_pairs())) == sorted(map(repr, one_way))
    assert list(reach.talking_pairs()) == [pair for pair in combinations(reach.ports, 2) if seen[pair].can_talk]
    assert reach.count() == (sum(bool(ways.can_talk) for ways in seen.values()) // 2, len(one_way), 0)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(net=nets(), data=st.data(), check=CHECKS)
def test_gained_and_lost_ways_are_those_of_every_ordered_pair(
    net: Subnet, data: st.DataObject, check: InboundCheck
) -> None:
    fabrics, seen = [], []
    for _ in range(2):
        scramble(net, data)
        fabrics.append(read(net))
        ways = by_packets(net, check, ends(net, fabrics[-1]))
        seen.append({(str(a), str(b)): each for (a, b), each in ways.items()})
    before, after = seen
    expected: dict[str, set[tuple[str, str]]] = {}
    for pair in before:
        was, now = before[pair], after[pair]
        one_way = [bool(ways.a_to_b and not ways.can_talk) for ways in (was, now)]
        for change, happened in (
            ("gained", now.can_talk and not was.can_talk and pair < pair[::-1]),
            ("lost", was.can_talk and not now.can_talk and pair < pair[::-1]),
            ("one-way-gained", one_way == [False, True]),
            ("one-way-lost", one_way == [True, False]),
        ):
            if happened:
                expected.setdefault(change, set()).add(pair)
    found = compare_reach(*fabrics, inbound_check=check)
    for change in ("gained", "lost", "one-way-gained", "one-way-lost"):
        pairs = []
        for gain in found.changes:
            if gain.change == change:
                among = combinations(gain.a, 2) if gain.a is gain.b else product(gain.a, gain.b)
                these = [(str(a), str(b)) for a, b in among]
                assert len(these) == gain.pairs
                pairs += these if change.startswith("one-way") else [min(pair, pair[::-1]) for pair in these]
        assert sorted(pairs) == sorted(expected.get(change, ()))
        assert found.count(change) == len(pairs)  # type: ignore[arg-type]


FORMS = range(4)


def test_in_one_partition_ways_both_ways_are_a_pair_of_matching_keys() -> None:
    """What `ibkeys.reach.forms` relies on, for everything that two ports and their switch ports can hold."""
    checked = (None, *FORMS)
    standings = [Standing(*each) for each in product(FORMS, checked, checked)]
    by_form = {1: 0x0001, 2: 0x8001}

    def table(forms: int) -> list[int]:
        return [key for form, key in by_form.items() if forms & form]

    def arrives(key: int, source: Standing, destination: Standing, check: InboundCheck) -> bool:
        if source.inbound is not None:
            lets = {"partition": lambda entry: True, "membership": lambda entry: may_talk(key, entry)}[check]
            if not any(map(lets, table(source.inbound))):
                return False
        tables = [destination.holds, *([destination.outbound] if destination.outbound is not None else [])]
        return all(any(may_talk(key, entry) for entry in table(forms)) for forms in tables)

    for check in INBOUND_CHECKS:
        for a, b in product(standings, repeat=2):
            there = [key for key in table(a.holds) if arrives(key, a, b, check)]
            back = [key for key in table(b.holds) if arrives(key, b, a, check)]
            one, other = forms_passing_port(a, check), forms_passing_port(b, check)
            assert one.sends_to(other) == bool(there)
            assert (one.sends_to(other) and other.sends_to(one)) == any(may_talk(k, q) for k in there for q in back)


# --- the case of the issue --------------------------------------------------------------------------------------------


def named(fabric: Topology, name: str) -> Port:
    [port] = [port for port in fabric.end_ports() if port.node.description == name and port.num]
    return port


@pytest.mark.parametrize("check", INBOUND_CHECKS)
def test_a_host_that_gave_itself_the_full_p_key_can_send(check: InboundCheck) -> None:
    net = limited_members(LIAR)
    liar, victim = net.port(LIAR, 1), net.port("node05 mlx4_0", 1)
    net.inbound_check = check
    assert net.packet(Packet(liar, victim, 0x8001)).endswith("received")
    assert "dropped by outbound enforcement" in net.packet(Packet(victim, liar, 0x0001)) or check == "membership"
    fabric = read(net)
    a, b = named(fabric, LIAR), named(fabric, "node05 mlx4_0")
    reach = Reach(fabric, inbound_check=check)
    verdict = reach.why(a, b)
    assert verdict.ways == Connectivity(False, True, False)
    assert reach.why(b, a).ways == Connectivity(False, False, True)
    [match] = verdict.matches
    assert (match.a_pkey, match.b_pkey) == (0x8001, 0x0001)
    assert [(each.direction, each.entry) for each in match.a_to_b] == [("inbound", 0x0001), ("outbound", 0x0001)]
    drops = [each.direction for each in match.b_to_a if each.index is None]
    assert drops == (["outbound"] if check == "partition" else ["inbound", "outbound"])
    assert not verdict.depends_on_inbound_check


def test_where_the_answer_depends_on_the_reading_it_is_said() -> None:
    fabric = read(limited_members(LIAR))
    full, limited = named(fabric, "node01 mlx4_0"), named(fabric, "node03 mlx4_0")
    verdict = Reach(fabric).why(full, limited)
    assert (verdict.ways, verdict.otherwise) == (Connectivity(True, True, True), Connectivity(False, True, False))
    assert verdict.depends_on_inbound_check
    strict = Reach(fabric, inbound_check="membership")
    assert strict.why(full, limited).ways == Connectivity(False, True, False)
    assert strict.why(full, limited).otherwise == Connectivity(True, True, True)
    depending = {port.node.description for port in strict.depending_on_inbound_check()}
    assert depending == {f"node0{number} mlx4_0" for number in (1, 2, 3, 4, 5, 6)}  # node01 by its 0x0001


def test_what_was_not_read_leaves_open_only_the_way_that_it_decides() -> None:
    fabric = read(limited_members(LIAR))
    a, b = named(fabric, LIAR), named(fabric, "node05 mlx4_0")
    assert b.peer is not None
    b.peer.p_key_raw = None  # it checks what goes to node05, and what comes from it
    verdict = Reach(fabric).why(a, b)
    assert verdict.ways == Connectivity(False, None, False)
    assert verdict.unread == (b.peer,)
