"""PK001 and PK005 where packets get through in one direction only, against every pair looked at one by one."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.rules import p_keys_policy as pk_policy
from ibkeys.keys.pkey import INBOUND_CHECKS, InboundCheck, may_talk
from ibkeys.topology.nodes import Port
from tests.audit.looking import enforce, look, policy, result_of
from tests.audit.scrambling import scrambled
from tests.fabricsim import limited_members, set_enforcement_caps, subnet

LIAR, MANAGER = "node02 mlx4_0", "node01 mlx4_0"
ONE = "One=0x1 : ALL_CAS=limited ;"


def leaf_tables(seed: int) -> AuditInput:
    """Look at a scrambled fabric whose leaf ports hold what nobody behind them has asked for."""
    net, lines = scrambled(seed)
    chance = random.Random(seed)
    enforce(net)
    for node in net.nodes:
        for port in () if node.is_switch else node.end_ports:
            leaf = port.peer
            if leaf is not None:
                leaf.p_keys = [key ^ chance.choice([0, 0x8000]) for key in port.p_keys if key and chance.random() < 0.8]
                leaf.inbound_enforcement, leaf.outbound_enforcement = chance.randrange(2), chance.randrange(2)
    check: InboundCheck = INBOUND_CHECKS[seed % 2]
    return look(net, policy=policy(*lines), inbound_check=check)


def by_hand(data: AuditInput) -> tuple[set[frozenset[str]], set[tuple[str, str]]]:
    """Return the pairs that can talk and may not, and (sender, receiver) of those that are one way and may not."""
    talk, one_way = set(), set()
    for a, b in permutations(data.end_ports, 2):
        if any(may_talk(x, y) for x in data.wanted[a.guid] for y in data.wanted[b.guid]):
            continue
        verdict = data.reach.why(a, b)
        if verdict.can_talk:
            talk.add(frozenset((str(a), str(b))))
        elif verdict.a_to_b:
            one_way.add((str(a), str(b)))
    return talk, one_way


def said(data: AuditInput) -> tuple[list[frozenset[str]], list[tuple[str, str]]]:
    names = {f"0x{port.guid:016x}": str(port) for port in data.end_ports}
    talk, one_way = [], []
    for subject in result_of("PK005", data).subjects:
        own = names[subject.identity["port_guid"]]
        for partner in subject.evidence["partners"].values():
            way = subject.evidence.get("one_way")
            if way is None:
                talk.append(frozenset((own, partner)))
            else:
                one_way.append((own, partner) if way["from"] == own else (partner, own))
                assert way["answer_stopped_by"]
                assert "one way" in subject.message
    return talk, one_way


@pytest.mark.parametrize("seed", range(12))
def test_each_forbidden_pair_is_said_once_and_which_way(seed: int) -> None:
    data = leaf_tables(seed)
    talk, one_way = said(data)
    assert (set(talk), set(one_way)) == by_hand(data)
    assert (len(talk), len(one_way)) == (len(set(talk)), len(set(one_way)))


def test_the_random_fabrics_have_pairs_of_both_kinds() -> None:
    found = [by_hand(leaf_tables(seed)) for seed in range(12)]
    assert sum(bool(talk) for talk, _ in found) > 3
    assert sum(bool(one_way) for _, one_way in found) > 3


@pytest.mark.parametrize("seed", range(4))
def test_many_are_said_by_port_and_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = leaf_tables(seed)
    monkeypatch.setattr(pk_policy, "LISTED_PAIRS", 0)
    monkeypatch.setattr(pk_policy, "NAMED_PARTNERS", 99)
    talk, one_way = said(data)
    assert (set(talk), set(one_way)) == by_hand(data)


def test_a_host_that_helped_itself_is_named_with_what_stops_the_answers() -> None:
    net = limited_members(LIAR)
    net.set_sm(MANAGER)
    result = result_of("PK005", look(net, policy=policy(ONE)))
    # the manager and it may talk in the default partition, so that one way in the other is nothing new
    assert len(result.subjects) == 4
    assert {subject.identity["node_desc"] for subject in result.subjects} == {LIAR}
    message = result.subjects[0].message
    assert message.startswith(f"one way, '{LIAR}' 0x0002c903000a1020 port 1 to 'node03 mlx4_0' 0x0002c903000a1030 ")
    assert "packets get through in partition 0x0001 and the answers do not ('MF0;switch-a:IS5023/U1' " in message
    assert message.endswith("port 2 drops 0x0001 by outbound enforcement); the policy keeps them apart")
    assert result_of("PK005", look(limited_members(), policy=policy(ONE))).result != "fail"


@pytest.mark.parametrize(
    ("leaf", "inbound", "outbound", "says"),
    [
        ([0xFFFF], 1, 1, "it may talk to every port of the fabric"),
        ([0x7FFF], 0, 0, "it may talk to every port of the fabric"),
        (
            [0x7FFF],
            1,
            1,
            "one way, it may send to every port of the fabric; {} stops answers",
        ),
        ([0x8001], 0, 1, "one way, it may send to every port of the fabric; {} stops all answers"),
        ([0x8001], 1, 0, "one way, every port of the fabric may send to it; {} stops what it sends"),
        ([0x8001], 1, 1, "its packets do not pass {}, which enforces"),
    ],
)
def test_a_full_member_of_the_default_partition_reaches_what_its_switch_port_lets_it(
    leaf: list[int], inbound: int, outbound: int, says: str
) -> None:
    net = subnet("two-switch")
    net.set_sm(MANAGER)
    for number in range(2, 7):
        net.port(f"node0{number} mlx4_0", 1).p_keys = [0xFFFF if number == 2 else 0x7FFF]
    switch_port = net.port(LIAR, 1).peer
    assert switch_port is not None
    switch_port.p_keys = leaf
    switch_port.inbound_enforcement, switch_port.outbound_enforcement = inbound, outbound
    data = look(net)
    (subject,) = result_of("PK001", data).subjects
    port: Port = next(port for port in data.end_ports if port.node.description == LIAR)
    assert subject.result == "fail"
    assert says.format(port.peer) in subject.message
    switch = switch_port.node
    set_enforcement_caps(switch, False, False)
    assert "it may talk to every port" in result_of("PK001", look(net)).subjects[0].message


def test_what_a_full_member_reaches_behind_a_switch_port_that_was_not_read_is_left_open() -> None:
    net = limited_members()
    net.set_sm(MANAGER)
    net.port(LIAR, 1).p_keys = [0xFFFF]
    data = look(net)
    port = next(port for port in data.end_ports if port.node.description == LIAR)
    assert port.peer is not None
    port.peer.p_key_raw = None
    (subject,) = result_of("PK001", data).subjects
    assert "unless its switch port, which was only partly read, stops it" in subject.message
