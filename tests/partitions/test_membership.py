"""Who is a member of what, against the tables that real OpenSM made."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.errors import FileFormatError
from ibkeys.partitions.membership import EndPort, resolve
from ibkeys.partitions.reader import parse_policy
from tests.partitions.recordings import end_ports, load, recordings, subnet

SM, CA, SWITCH, ROUTER = 0x1, 0x2, 0x3, 0x4
PORTS = [EndPort(SM, "ca"), EndPort(CA, "ca"), EndPort(SWITCH, "switch"), EndPort(ROUTER, "router")]


@pytest.mark.parametrize("file", recordings())
def test_every_port_has_the_p_keys_that_opensm_gave_it(file: Path) -> None:
    recording = load(file)
    net = subnet(recording.fabric)
    ports = end_ports(net)
    for step in recording.steps:
        found = resolve(step.policy, ports, recording.sm_port_guid, recording.allow_both, emulate_fallback=True).by_port
        assert found.keys() == step.end_ports.keys()
        for guid, table in step.end_ports.items():
            keys, programmed = set(found[guid]), set(table.values())
            if len(table) < min(recording.capacity.values()) or not file.stem.startswith("two-switch--overflow"):
                assert keys == programmed
            else:  # the table is full: OpenSM drops what does not fit
                assert programmed < keys or programmed == keys


def members(text: str, allow_both: bool = False) -> dict[int, tuple[set[int], set[int]]]:
    resolution = resolve(parse_policy(text), PORTS, SM, allow_both)
    return {membership.base: (set(membership.full), set(membership.limited)) for membership in resolution.memberships}


@pytest.mark.parametrize(
    ("text", "full", "limited"),
    [
        ("X=5 : 0x2=full ;", {CA}, set()),
        ("X=5 : ALL_CAS=full, 0x2=limited ;", {SM}, {CA}),
        ("X=5 : 0x2=limited, ALL_CAS=full ;", {SM, CA}, set()),
        ("X=5 : ALL=full ; X=5 : ALL_SWITCHES, ALL_ROUTERS=limited ;", {SM, CA}, {SWITCH, ROUTER}),
        ("X=5 : SELF=both ;", {SM}, set()),
        ("X=5 : 0x2=full, 0x99=full ;", {CA}, set()),
    ],
)
def test_later_items_win(text: str, full: set[int], limited: set[int]) -> None:
    assert members(text)[5] == (full, limited)


@pytest.mark.parametrize(
    ("text", "full", "limited"),
    [
        ("X=5 : 0x2=both ;", {CA}, {CA}),
        ("X=5 : 0x2=both ; X=5 : 0x2=full ;", {CA}, set()),
        ("X=5 : 0x2=both ; X=5 : 0x2=limited ;", set(), {CA}),
        ("X=5 : ALL=both, ALL_CAS=full ;", {SM, CA, SWITCH, ROUTER}, {SWITCH, ROUTER}),
    ],
)
def test_both_makes_a_port_full_and_limited_where_it_is_allowed(text: str, full: set[int], limited: set[int]) -> None:
    assert members(text, allow_both=True)[5] == (full, limited)


def test_the_rule_that_opensm_adds_for_the_default_partition() -> None:
    assert members("X=5 : 0x2 ;")[0x7FFF] == ({SM}, {CA, SWITCH, ROUTER})
    assert members("Default : 0x2=full ;")[0x7FFF] == ({SM, CA}, {SWITCH, ROUTER})
    assert members("Default : SELF=full, ALL=limited ;")[0x7FFF] == (set(), {SM, CA, SWITCH, ROUTER})


def test_partitions_come_in_the_order_of_byte_swapped_numbers_and_without_members_not_at_all() -> None:
    assert list(members("A=0x0102 : ALL ; B=0x0201 : ALL ; C=3 : ALL ; D=4 : 0x99 ;")) == [0x0201, 0x0102, 3, 0x7FFF]


def test_guids_that_nobody_has_are_named_once_with_their_place() -> None:
    found = resolve(parse_policy("X=5 : 0x99, 0x2 ;\nY=6 : 0x99 ;"), PORTS, SM).unmatched
    assert [(rule.guid, rule.line, rule.column) for rule in found] == [(0x99, 1, 7)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=5, indx0 : 0x2=full ; B=6, indx0 : 0x2 ;", {CA: 0x0006}),
        ("A=5, indx0 : ALL_CAS=full ; A=5 : 0x2=full ;", {SM: 0x8005}),
        ("A=5, indx0 : 0x2=full ; B=6 : 0x2=full ;", {CA: 0x8005}),
    ],
)
def test_the_last_indx0_wins_and_a_definition_without_it_unpins(text: str, expected: dict[int, int]) -> None:
    assert resolve(parse_policy(text), PORTS, SM).index0 == expected


@pytest.mark.parametrize("text", ["", "X=5 : 0xzz ;\n", "X=5 : ALL=limited ;\nY : junk ;\n"])
def test_a_refused_policy_is_never_used_and_the_fallback_is_wide_open(text: str) -> None:
    policy = parse_policy(text)
    with pytest.raises(FileFormatError, match="nothing was read"):
        resolve(policy, PORTS, SM)
    resolution = resolve(policy, PORTS, SM, emulate_fallback=True)
    assert resolution.fallback
    assert resolution.by_port == {port.guid: (0xFFFF,) for port in PORTS}


def test_an_unknown_sm_is_nobody() -> None:
    resolution = resolve(parse_policy("X=5 : SELF=full ; Y=6 : 0x2 ;"), PORTS, None)
    assert [membership.base for membership in resolution.memberships] == [6, 0x7FFF]


def test_of_a_refused_policy_opensm_keeps_what_it_wanted_at_index_0() -> None:
    policy = parse_policy("A=5, indx0 : 0x2=full ;\nB=6, indx0 : 0x1=full, 0xzz, 0x3 ;\n")
    resolution = resolve(policy, PORTS, SM, emulate_fallback=True)
    assert resolution.index0 == {CA: 0x8005, SM: 0x8006}
