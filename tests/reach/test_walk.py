"""why, matrix, diff, plan and PK005 against what packets do on every route that a fabric could have.

What is said for sure has to hold on every route. What is left open has to be so on some route.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from random import Random

import pytest

from ibkeys.audit.inputs import AuditInput
from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.keys.pkey import InboundCheck, may_talk
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.reach.difference import compare_reach
from ibkeys.reach.reach import Reach
from ibkeys.sim import nodes
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests.audit.looking import SECRET, policy, result_of
from tests.fabricsim import tool
from tests.plan.planning import perform, sm_at
from tests.reach.packets import ends, read
from tests.reach.routed import SHAPES, RoutedNet, routed_net
from tests.reach.walk import Seen, Truth, Walk
from tests.sample import sampled

VERDICTS = 1_000
ROWS = [f"{shape} {number}" for number in range(20) for shape in SHAPES]
"""Each of so many verdicts: 100,000."""
SAMPLE = ["ring 1"]
YES, NO = frozenset({True}), frozenset({False})
Pairs = list[tuple[nodes.SimPort, Port]]
Ordered = dict[tuple[str, str], Seen]


def is_right(said: bool | None, seen: Truth) -> bool:
    """Return whether a verdict is true on every route; an open one, whether it is true on some route."""
    return True in seen if said is None else seen == {said}


def walked(
    net: RoutedNet, check: InboundCheck, pairs: Pairs, hidden: frozenset[nodes.SimPort] = frozenset()
) -> Ordered:
    walk = Walk(net.subnet.nodes, by_membership=check == "membership", hidden=hidden)
    return {(str(one), str(other)): walk.pair(a, b) for (a, one), (b, other) in permutations(pairs, 2)}


@pytest.mark.parametrize("row", sampled(ROWS, SAMPLE))
def test_why_and_matrix_say_what_holds_on_every_route(row: str) -> None:
    random = Random(row)
    looked_at = 0
    while looked_at < VERDICTS:
        net = routed_net(random, row.rpartition(" ")[0])
        fabric = read(net.subnet)
        pairs = ends(net.subnet, fabric)
        hidden = hide(net, fabric, random) if random.random() < 0.3 else frozenset()
        reach = Reach(fabric, inbound_check=net.subnet.inbound_check)
        seen = walked(net, net.subnet.inbound_check, pairs, hidden)
        for (_, a), (_, b) in permutations(pairs, 2):
            ways = reach.why(a, b).ways
            assert all(map(is_right, ways, seen[str(a), str(b)])), (str(a), str(b), ways, seen[str(a), str(b)])
            looked_at += len(ways)
        assert_sets_hold(reach, seen)


def hide(net: RoutedNet, fabric: Topology, random: Random) -> frozenset[nodes.SimPort]:
    """Let some ports between switches be unread, and return them."""
    found = set()
    for port in (port for node in fabric.nodes if node.is_switch for port in node.ports.values()):
        if port.num and port.peer is not None and port.peer.node.is_switch and random.random() < 0.2:
            port.info = None
            found.add(net.subnet.port(port.node.guid, port.num))
    return frozenset(found)


def assert_sets_hold(reach: Reach, seen: Ordered) -> None:
    """Compare the matrix, which looks at no pair by itself."""
    talking, unknown, one_way = (
        {(str(a), str(b)) for a, b in each}
        for each in (reach.talking_pairs(), reach.unknown_pairs(), reach.one_way_pairs())
    )
    for a, b in combinations(map(str, reach.ports), 2):
        there, back = ((a, b) in one_way, (b, a) in one_way)
        if (a, b) in talking:
            assert seen[a, b].can_talk == YES
        elif (a, b) in unknown:
            assert any(True in each for each in seen[a, b])
        else:
            assert seen[a, b] == (NO, frozenset({there}), frozenset({back}))
    assert reach.count() == (len(talking), len(one_way), len(unknown))


@pytest.mark.parametrize("row", sampled(ROWS, SAMPLE))
def test_diff_says_what_holds_on_every_route(row: str) -> None:
    random = Random(row)
    looked_at = 0
    while looked_at < VERDICTS:
        net = routed_net(random, row.rpartition(" ")[0])
        check = net.subnet.inbound_check
        before = read(net.subnet)
        was = walked(net, check, ends(net.subnet, before))
        net.scramble()
        after = read(net.subnet)
        will = walked(net, check, ends(net.subnet, after))
        found: dict[str, set[tuple[str, str]]] = {}
        comparison = compare_reach(before, after, inbound_check=check)
        for each in comparison.changes:
            both = {(str(a), str(b)) for a in each.a for b in each.b if a is not b}
            found.setdefault(each.change, set()).update(both)
        for pair in was:
            either = {pair, pair[::-1]}
            kinds = {
                kind for kind, pairs in found.items() if pair in pairs or ("one-way" not in kind and pairs & either)
            }
            assert is_change(kinds, was[pair], will[pair]), (pair, kinds, was[pair], will[pair])
            looked_at += 1


def is_change(kinds: set[str], was: Seen, will: Seen) -> bool:
    """Return whether what is said of an ordered pair holds on every route."""
    if "unknown" in kinds:
        return any(True in each for each in (*was, *will))
    if any(len(way) > 1 for each in (was, will) for way in each):
        return False
    could, can = was.can_talk == YES, will.can_talk == YES
    sent, sends = one_way(was), one_way(will)
    happened = {
        "gained": can and not could,
        "lost": could and not can,
        "one-way-gained": sends and not sent,
        "one-way-lost": sent and not sends,
    }
    return kinds == {kind for kind, has in happened.items() if has}


def one_way(seen: Seen) -> bool:
    """Return whether packets get there, and the two cannot talk."""
    return seen.can_talk == NO and seen.a_to_b == YES


@pytest.mark.parametrize("row", sampled(ROWS, SAMPLE))
def test_plan_says_how_many_pairs_are_connected_on_every_route(row: str) -> None:
    random = Random(row)
    looked_at = 0
    while looked_at < VERDICTS:
        net = routed_net(random, row.rpartition(" ")[0])
        fabric = read(net.subnet)
        pairs = ends(net.subnet, fabric)
        members = ", ".join(f"0x{port.guid:x}={random.choice(('full', 'limited'))}" for port in net.end_ports)
        text = f"Default=0x7fff : ALL=limited, SELF=full ;\nOne=0x1 : {members} ;\n"
        enforce = PlanOptions(random.choice(("both", "in", "out", "off")))
        plan = make_plan(parse_policy(text, "p.conf"), fabric, enforce, sm_at(net.end_ports[0].guid))
        was = walked(net, "partition", pairs)
        perform(net.subnet, plan)
        will = walked(net, "partition", pairs)
        both = [(was[a, b].can_talk, will[a, b].can_talk) for a, b in combinations((str(port) for _, port in pairs), 2)]
        for said, (no, yes) in ((plan.reach.gained, (0, 1)), (plan.reach.lost, (1, 0))):
            sure = sum(each[no] == NO and each[yes] == YES for each in both)
            perhaps = sum(False in each[no] and True in each[yes] for each in both)
            assert said <= sure
            assert perhaps <= said + plan.reach.unknown
        looked_at += len(both)


@pytest.mark.parametrize("row", sampled(ROWS, SAMPLE))
def test_pk005_accuses_who_can_talk_on_every_route(row: str) -> None:
    random = Random(row)
    looked_at = 0
    while looked_at < VERDICTS:
        net = routed_net(random, row.rpartition(" ")[0])
        with tool(net.subnet) as fabric:
            snapshot = take_snapshot(fabric, SECRET)
        check = net.subnet.inbound_check
        data = AuditInput(snapshot, policy=policy("One=0x1 : ALL_CAS=limited ;"), inbound_check=check)
        pairs = ends(net.subnet, data.snapshot.fabric)
        seen = walked(net, check, pairs)
        accused = dict(accusations(data))
        for (_, a), (_, b) in permutations(pairs, 2):
            if any(may_talk(x, y) for x in data.wanted[a.guid] for y in data.wanted[b.guid]):
                continue
            said = accused.get((str(a), str(b)), accused.get((str(b), str(a))))
            truth = seen[str(a), str(b)]
            looked_at += 1
            if said == "talk":
                assert truth.can_talk == YES
            elif said == "one way":
                sender, receiver = next(pair for pair in ((str(a), str(b)), (str(b), str(a))) if pair in accused)
                assert (seen[sender, receiver].can_talk, seen[sender, receiver].a_to_b) == (NO, YES)
            elif said == "unknown":
                assert any(True in way for way in truth)
            else:
                assert truth == (NO, NO, NO)


def accusations(data: AuditInput) -> Iterator[tuple[tuple[str, str], str]]:
    names = {f"0x{port.guid:016x}": str(port) for port in data.end_ports}
    for subject in result_of("PK005", data).subjects:
        own = names[subject.identity["port_guid"]]
        for partner in subject.evidence["partners"].values():
            way = subject.evidence.get("one_way")
            if subject.result == "unknown":
                yield (own, partner), "unknown"
            elif way is None:
                yield (own, partner), "talk"
            else:
                yield (way["from"], way["to"]), "one way"
