"""P_Key tables against a policy: what the simulator carries agrees with what the audit says."""

from __future__ import annotations

import itertools

import pytest

from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.rules import p_keys_policy as pk_policy
from ibkeys.keys.pkey import may_talk
from tests.audit.cases import ruled, two_switch, with_table
from tests.audit.looking import (
    end_ports,
    enforce,
    look,
    policy,
    result_of,
    taken,
)
from tests.audit.scrambling import scrambled

NODE02 = 0x0002C903000A1021


def pairs_said(data: AuditInput) -> set[frozenset[int]]:
    result = result_of("PK005", data)
    found = set()
    for subject in result.subjects:
        for partner in subject.evidence["partners"]:
            found.add(frozenset((int(subject.identity["port_guid"], 16), int(partner, 16))))
    return found


def pairs_by_hand(data: AuditInput) -> set[frozenset[int]]:
    """Every pair of ports, one by one: can they talk, and may they?"""
    found = set()
    for a, b in itertools.combinations(data.end_ports, 2):
        allowed = any(may_talk(x, y) for x in data.wanted[a.guid] for y in data.wanted[b.guid])
        if data.reach.why(a, b).can_talk and not allowed:
            found.add(frozenset((a.guid, b.guid)))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_forbidden_pairs_are_those_that_looking_at_every_pair_finds(seed: int) -> None:
    net, lines = scrambled(seed)
    data = look(net, policy=policy(*lines))
    expected = pairs_by_hand(data)
    assert pairs_said(data) == expected
    assert (result_of("PK005", data).result == "fail") == bool(expected)


@pytest.mark.parametrize("seed", range(4))
def test_many_forbidden_pairs_are_said_by_port(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    net, lines = scrambled(seed)
    data = look(net, policy=policy(*lines))
    expected = pairs_by_hand(data)
    monkeypatch.setattr(pk_policy, "LISTED_PAIRS", 0)
    monkeypatch.setattr(pk_policy, "NAMED_PARTNERS", 99)
    assert pairs_said(data) == expected
    subjects = result_of("PK005", data).subjects
    assert len({each.identity["port_guid"] for each in subjects}) == len(subjects) <= len(data.end_ports)


def test_enforcement_keeps_apart_what_tables_join() -> None:
    net = ruled()
    enforce(net)
    for name in ("node02 mlx4_0", "node03 mlx4_0"):
        with_table([0x7FFF, 0x8010], name, net)
    data = look(net, policy=policy())
    assert result_of("PK005", data).result == "pass"
    assert result_of("PK002", data).result == "fail"
    assert result_of("SE002", data).result == "fail"


def test_both_memberships_need_a_policy_that_says_so() -> None:
    net = with_table([0x7FFF, 0x8010, 0x0010])
    line = "P=0x10 : 0x2c903000a1021=both ;"
    assert result_of("PK006", look(net, policy=policy(line), allow_both=True)).result == "pass"
    assert result_of("PK006", look(net, policy=policy(line))).result == "fail"
    assert result_of("PK004", look(net, policy=policy(line), allow_both=True)).result == "pass"


def test_a_lowered_membership_is_a_missing_key_and_not_a_strange_one() -> None:
    data = look(with_table([0x7FFF, 0x0010]), policy=policy("P=0x10 : 0x2c903000a1021=full ;"))
    assert result_of("PK002", data).result == "pass"
    assert result_of("PK003", data).subjects[0].message.startswith("0x8010")


def test_index_0_that_the_policy_asks_for_is_no_surprise() -> None:
    line = "P=0x10, indx0 : 0x2c903000a1021=full ;"
    assert result_of("PK008", look(with_table([0x8010, 0x7FFF]), policy=policy(line))).result == "pass"
    assert result_of("PK008", look(with_table([0x7FFF, 0x8010]), policy=policy(line))).result == "fail"
    assert result_of("PK008", look(with_table([0x8010, 0x7FFF]), policy=policy())).result == "fail"


def test_without_a_known_sm_what_depends_on_it_is_unknown() -> None:
    net = two_switch()
    for port in end_ports(net):
        port.p_keys = [0x7FFF]
        port.sm_lid = 0
    with_table([0xFFFF, 0x8010], "node01 mlx4_0", net)
    data = look(net, policy=policy())
    assert result_of("PK004", data).result == "unknown"
    assert result_of("PK005", data).result == "unknown"
    assert result_of("PK002", data).result == "fail"  # 0x8010 is nobody's, wherever the SM is
    assert "no master SM" in result_of("PK004", data).subjects[0].message


def test_ports_that_the_policy_names_full_in_the_default_partition_are_management() -> None:
    net = with_table([0xFFFF])
    assert result_of("PK001", look(net)).result == "fail"
    named = policy("Default=0x7fff : 0x2c903000a1021=full ;")
    assert result_of("PK001", look(net, policy=named)).result == "pass"
    assert result_of("PK001", look(net, sm_guids=frozenset({NODE02}))).result == "pass"


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("Default=0x7fff : ALL=full ;", "fail"),
        ("Default=0x7fff : ALL_CAS=full ;", "fail"),
        ("Default=0x7fff, ipoib : ALL_SWITCHES=full ;", "pass"),
        ("TenantA=0x7fff : 0x2c903000a1021=limited ;", "fail"),
    ],
)
def test_tenants_on_the_default_partition(line: str, result: str) -> None:
    assert result_of("PK014", look(ruled(), policy=policy(line))).result == result


def test_a_partition_of_limited_members_joins_nobody() -> None:
    net = with_table([0x7FFF, 0x0010])
    with_table([0x7FFF, 0x0010], "node03 mlx4_0", net)
    (subject,) = result_of("PK011", look(net)).subjects
    assert "all limited" in subject.message


def test_a_key_that_moved_and_stands_at_its_old_index_too_did_not_move() -> None:
    net = with_table([0x7FFF, 0x8010])
    before = taken(net)
    with_table([0x7FFF, 0x8010, 0x8010], net=net)
    assert result_of("PK010", look(net, baseline=before)).result == "pass"
    with_table([0x7FFF, 0x8011, 0x8010], net=net)
    assert result_of("PK010", look(net, baseline=before)).result == "fail"


def test_leaf_tables_are_compared_as_opensm_packs_them() -> None:
    net = ruled(enforced=True)
    with_table([0x7FFF, 0, 0x0010, 0x8010, 0x8011], net=net)
    leaf = net.port("node02 mlx4_0", 1).peer
    assert leaf is not None
    leaf.p_keys = [0x8011, 0x7FFF, 0x8010]
    assert result_of("SE002", look(net)).result == "pass"
    leaf.p_keys = [0x8011, 0x7FFF, 0x0010]
    assert "0x8010 missing, 0x0010 extra" in result_of("SE002", look(net)).subjects[0].message


def test_a_port_that_came_since_the_baseline_did_not_move_anything() -> None:
    net = ruled()
    cable = net.unplug("node06 mlx4_0", 1)
    before = taken(net)
    assert cable is not None
    net.plug("node06 mlx4_0", 1, cable.node, cable.number)
    result = result_of("PK010", look(net, baseline=before))
    assert (result.result, result.passed) == ("pass", 7)
    net.silence("node06 mlx4_0")
    before = taken(net)
    net.silence("node06 mlx4_0", False)
    assert result_of("PK010", look(net, baseline=before)).result == "unknown"
