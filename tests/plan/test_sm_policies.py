"""The policies that OpenSM is given one after the other: each leads to its state, and no order of ports cuts or joins.

What OpenSM makes of a policy is predicted by what is measured by the tables of a real one (test_opensm_tables.py);
tests/integration/test_sm_policies.py gives these texts to a real one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.partitions.export import pin
from ibkeys.partitions.ipoib import compare_groups
from ibkeys.partitions.membership import EndPort, resolve
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import SmOptions
from ibkeys.plan.port_kinds import memberships_of
from ibkeys.plan.sm_policies import SmPolicies, policies_between
from tests.plan.drawn_policies import (
    AWAY,
    DIGEST,
    OPTIONS,
    ROUTER,
    SM,
    SWITCH,
    A,
    B,
    leaf_of,
    named,
    policies,
    port_id,
    ports,
    tables_of,
)
from tests.plan.walking import Rules, on_the_way


def between(
    old: str | None, new: str, options: SmOptions | None = None, count: int = 5, gaps: bool = False, **tables: Any
) -> SmPolicies:
    options = options or SmOptions()
    before, after = (None if old is None else parse_policy(old)), parse_policy(new)
    found = tables_of(before, after, options, ports(count), **tables)
    return policies_between(before, after, found, SM, options, DIGEST, gaps=gaps)


def keys(*values: int) -> frozenset[PKey]:
    return frozenset(map(PKey, values))


# --- properties -------------------------------------------------------------------------------------------------------


def check_way(old: str | None, new: str, options: SmOptions, count: int, gaps: bool, random: Random | None) -> None:
    found = between(old, new, options, count, gaps)
    before = resolve(None if old is None else parse_policy(old), ports(count), SM, options.allow_both_pkeys).by_port
    states = [{guid: frozenset(its_keys) for guid, its_keys in before.items()}, *found.states]
    rules = Rules(named(states[0]), named(states[-1]))
    cut = {(f"{min(a, b):x}", f"{max(a, b):x}") for circle in found.cycles for a, b in circle.pairs}
    assert not (gaps and cut)
    for one, other in pairwise(map(named, states)):
        order = [guid for guid in one if one[guid] != other[guid]]
        for way in permutations(order) if random is None else [random.sample(order, len(order))]:
            for state in on_the_way(one, other, list(way)):
                assert not rules.bridges(state)
                assert gaps or rules.gaps(state) <= cut


@given(policies(), policies(), OPTIONS)
@settings(max_examples=300, deadline=None)
def test_of_each_text_opensm_makes_the_state_and_the_last_one_is_the_policy(
    old: str, new: str, options: SmOptions
) -> None:
    found = between(old, new, options)
    assert found.texts[-1] == new.encode()
    assert len(found.texts) == len(found.states) == len(found.tables)
    for text, state, tables in zip(found.texts, found.states, found.tables, strict=True):
        policy = parse_policy(text)
        assert policy.accepted
        made = resolve(policy, ports(), SM, options.allow_both_pkeys).by_port
        assert {guid: frozenset(its_keys) for guid, its_keys in made.items()} == state
        for guid, placed in tables.items():
            assert memberships_of(placed.entries.values()) == memberships_of(state[guid])
            # With allow_both_pkeys OpenSM may put 0xffff where it has just put 0x7fff: at index 0.
            lost = state[guid] - frozenset(placed.entries.values())
            assert not lost or (options.allow_both_pkeys and lost == {0x7FFF})
    assert (found.given_default, found.torn) == ((), ())


@given(policies() | st.none(), policies(), OPTIONS, st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_order_of_ports_cuts_or_joins(old: str | None, new: str, options: SmOptions, gaps: bool) -> None:
    check_way(old, new, options, 4, gaps, None)


@given(policies(), policies(), OPTIONS, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_nor_does_a_random_order_of_more_ports(old: str, new: str, options: SmOptions, random: Random) -> None:
    check_way(old, new, options, 5, False, random)


@given(policies(), policies(), OPTIONS)
@settings(max_examples=200, deadline=None)
def test_a_policy_in_between_names_ports_by_guid_only_and_pins_no_index_that_neither_policy_pins(
    old: str, new: str, options: SmOptions
) -> None:
    pins = [resolve(parse_policy(text), ports(), SM, options.allow_both_pkeys).index0 for text in (old, new)]
    for text in between(old, new, options).texts[:-1]:
        policy = parse_policy(text)
        assert {rule.who for partition in policy.partitions for rule in partition.rules} == {"GUID"}
        assert all(partition.automatic is False for partition in policy.partitions if partition.base != 0x7FFF)
        groups = [group for partition in policy.partitions for group in partition.groups]
        assert all(group.refused is None for group in groups)  # as it is where two partitions have one MGID
        pinned = resolve(policy, ports(), SM, options.allow_both_pkeys).index0
        assert all(key in (each.get(guid) for each in pins) for guid, key in pinned.items())


# --- examples ---------------------------------------------------------------------------------------------------------

TENANT = "Default=0x7fff : ALL=limited, SELF=full ;\nOne=1, ipoib, mtu=5 : 0x102=full, 0x103=full ;\n"


def test_only_additions_take_the_policy_alone() -> None:
    new = TENANT + "Two=2 : 0x102=full, 0x105=full ; # no newline"
    found = between(TENANT, new)
    assert found.texts == (new.encode(),)
    assert found.states[0][A] == keys(0x7FFF, 0x8001, 0x8002)


def test_only_removals_take_the_policy_alone() -> None:
    new = "Default=0x7fff : ALL=limited, SELF=full ;\n"
    assert between(TENANT, new).texts == (new.encode(),)


def test_a_policy_that_changes_no_membership_is_given_all_the_same() -> None:
    new = TENANT.replace("mtu=5", "mtu=4")
    found = between(TENANT, new)
    assert found.texts == (new.encode(),)
    assert found.states[0][A] == keys(0x7FFF, 0x8001)


def test_a_partition_is_replaced_in_two_steps_with_the_groups_of_both() -> None:
    new = (
        "Default=0x7fff : ALL=limited, SELF=full ;\nTwo=2, ipoib, sl=3 : mgid=ff15::7,sl=1\n0x102=full, 0x103=full ;\n"
    )
    first, last = between(TENANT, new).texts
    assert first.decode() == (
        "# Step 1 of 2 of a change that ibkeys makes; digest of its plan: 0123456789abcdef\n"
        "# An intermediate state, for the ports of the fabric when the change began: the policy itself follows.\n"
        "One=0x0001, ipoib, mtu=5 : 0x0000000000000102=full, 0x0000000000000103=full ;\n"
        "Two=0x0002, ipoib, sl=3 :\n"
        "\tmgid=ff15::7,sl=1\n"
        "\t0x0000000000000102=full, 0x0000000000000103=full ;\n"
        "Default=0x7fff :\n"
        "\t0x0000000000000101=full, 0x0000000000000102=limited, 0x0000000000000103=limited, "
        "0x0000000000000104=limited,\n"
        "\t0x0000000000000105=limited ;\n"
    )
    assert last == new.encode()


def test_the_first_policy_keeps_the_broadcast_group_that_opensm_makes_without_a_file() -> None:
    first, _ = between(None, TENANT).texts
    policy = parse_policy(first)
    default = policy.partition(0x7FFF)
    assert default is not None
    assert default.ipoib
    assert "full" in {rule.membership for rule in default.rules if rule.guid in (A, B)}
    assert between("X=oops : ALL ;", TENANT).texts[0] == first


def test_a_reused_partition_has_the_new_groups_when_none_of_its_former_ports_is_left() -> None:
    new = "Default=0x7fff : SELF=full ;\nTwo=2 : 0x102=full, 0x103=full ;\nNew=1 : 0x104=full, 0x105=full ;\n"
    first, second, last = (parse_policy(text) for text in between(TENANT, new).texts)
    one = first.partition(1)
    assert one is not None
    assert (one.name, one.ipoib, {rule.guid for rule in one.rules}) == ("One", True, {A, B})
    assert second.partition(1) is None
    new_one = last.partition(1)
    assert new_one is not None
    assert not new_one.ipoib


def test_of_two_groups_with_one_mgid_the_present_one_stays_until_the_end() -> None:
    new = TENANT.replace("mtu=5", "mtu=4").replace("One=1", "Other=1") + "Two=2 : 0x102=full, 0x105=full ;\n"
    old = TENANT + "Three=3 : 0x102=full, 0x105=full ;\n"
    first, _ = between(old, new).texts
    policy = parse_policy(first)
    assert b"\nOne=0x0001, ipoib, mtu=5 :" in first
    [group] = [each for each in compare_groups(policy, None) if each.base == 1]
    assert group.planned is not None
    assert group.planned.mtu == 5


def test_a_group_that_goes_to_another_partition_does_so_at_the_end() -> None:
    old = f"{TENANT}Three=3 : mgid=ff15::7,sl=1\n0x102=full, 0x105=full ;\n"
    new = "Default=0x7fff : ALL=limited, SELF=full ;\nTwo=2 : mgid=ff15::7,sl=1\n0x102=full, 0x103=full, 0x105=full ;\n"
    first, last = map(parse_policy, between(old, new).texts)
    assert [(each.base, len(each.groups)) for each in first.partitions] == [(1, 0), (2, 0), (3, 1), (0x7FFF, 0)]
    assert [(each.base, len(each.groups)) for each in last.partitions] == [(0x7FFF, 0), (2, 1)]


def test_a_group_that_leaves_a_partition_that_ends_is_named() -> None:
    old = f"{TENANT}Three=3 : mgid=ff15::7,sl=1\n0x102=full, 0x105=full ;\n"
    new = "Default=0x7fff : ALL=limited, SELF=full ;\nTwo=2 : mgid=ff15::7,sl=1\n0x102=full, 0x105=full ;\n"
    group = 0xFF12 << 112 | 7  # without scope= OpenSM makes a link-local group
    assert between(old, new).moved_groups == ((group, 3, 2),)
    assert between(old, f"{new}Three=3 : 0x102=full ;\n").moved_groups == ()
    assert between(old, new.replace("ff15::7", "ff15::8")).moved_groups == ()


def test_self_is_the_guid_of_the_sms_port_in_between_and_the_keyword_at_the_end() -> None:
    old = f"{TENANT}Own=4 : SELF=full, 0x102 ;\n"
    first, last = between(old, old.replace("One=1", "Two=2")).texts
    assert b"SELF" not in first
    assert first.count(b"0x0000000000000101=full") == 2
    assert b"SELF=full, 0x102" in last


def test_a_port_that_is_away_has_in_between_what_both_policies_give_it() -> None:
    both = "Both=5 : 0xdead=full, 0x104=full ;\n"
    old = TENANT + both + "Gone=6 : 0xdead=full, ALL_CAS=full ;\n"
    new = TENANT.replace("=1,", "=2,") + both.replace("0xdead=full", "0xdead=limited") + "ALL=7 : ALL_CAS=full ;\n"
    first, *_ = between(old, new).texts
    found = resolve(parse_policy(first), [*ports(), EndPort(AWAY, "ca")], SM).by_port[AWAY]
    assert frozenset(found) == keys(0x7FFF, 0x0005)


def test_a_port_whose_table_is_not_known_has_what_the_present_policy_gives_it() -> None:
    old, new = TENANT.replace("One=1", "One=1, indx0"), TENANT.replace("One=1", "Two=2")
    found = tables_of(parse_policy(old), parse_policy(new), SmOptions(), ports())
    unread = [table for table in found if table.port.key not in (port_id(B).key, leaf_of(B).key)]
    way = policies_between(
        parse_policy(old), parse_policy(new), unread, SM, SmOptions(), DIGEST, others=[EndPort(B, "ca")]
    )
    assert way.states[0][B] == keys(0x7FFF, 0x8001, 0x8002)
    assert B not in way.tables[0]


def test_tenants_that_change_places_are_a_circle_and_with_gaps_none() -> None:
    old = "Default=0x7fff : SELF=full ;\nOne=1 : 0x102=full, 0x103=full ;\nTwo=2 : 0x104=full, 0x105=full ;\n"
    new = old.replace("=1 :", "=9 :").replace("=2 :", "=1 :").replace("=9 :", "=2 :")
    [circle] = between(old, new).cycles
    assert circle.pairs in (((A, B),), ((SWITCH, ROUTER),))
    found = between(old, new, gaps=True)
    assert not found.cycles
    assert found.states[0][A] == found.states[0][ROUTER] == keys(0x7FFF)
    assert parse_policy(found.texts[0]).partition(1) is None


def test_the_pinned_p_key_keeps_index_0_until_it_goes() -> None:
    old = TENANT.replace("One=1", "One=1, indx0")
    new = TENANT.replace("One=1", "Two=2, indx0")
    found = between(old, new)
    assert [tables[A].entries[0] for tables in found.tables] == [0x8001, 0x8002]
    assert b"One=0x0001, indx0 :" in found.texts[0]


def test_both_p_keys_of_a_partition_are_kept_where_opensm_keeps_them() -> None:
    old = TENANT + "Both=3 : 0x102=both, 0x105 ;\n"
    new = old.replace("One=1", "Two=2")
    assert between(old, new, SmOptions(allow_both_pkeys=True)).states[0][A] >= keys(0x8003, 0x0003)
    assert between(old, new).states[0][A] >= keys(0x8003)
    assert PKey(0x0003) not in between(old, new).states[0][A]


def test_a_table_or_leaf_table_without_room_takes_more_steps_and_names_whom_it_cuts() -> None:
    old = "Default=0x7fff : SELF=full ;\nOne=1 : 0x102=full, 0x103=full ;\n"
    new = old.replace("=1", "=2")
    wide = between(old, new)
    assert not wide.cycles
    for room in ({"capacity": 2}, {"leaf": 2}):
        found = between(old, new, **room)
        assert [circle.pairs for circle in found.cycles] == [((A, B),)]
        assert all(len(its_keys) <= 2 for state in found.states for its_keys in state.values())
        assert not any(placed.dropped for tables in found.tables for placed in tables.values())
    assert between(old, new, SmOptions(part_enforce="off"), leaf=2).texts == wide.texts


def test_who_has_no_default_p_key_is_named_and_gets_it_first() -> None:
    new = TENANT.replace("One=1", "Two=2")
    found = tables_of(parse_policy(TENANT), parse_policy(new), SmOptions(), ports())
    bare = [replace(each, before={1: PKey(0x8001)}) if each.port == port_id(A) else each for each in found]
    way = policies_between(parse_policy(TENANT), parse_policy(new), bare, SM, SmOptions(), DIGEST)
    assert way.given_default == (A,)
    assert way.states[0][A] == keys(0x7FFF, 0x8001, 0x8002)


def test_a_p_key_that_moves_to_another_block_is_named() -> None:
    many = "".join(f"P{base}={base} : 0x102=full, 0x103=full ;\n" for base in range(0x10, 0x30))
    old = f"Default=0x7fff : SELF=full ;\n{many}"
    new = f"{old}P15=15 : 0x102=full, 0x103=full ;\n"
    assert not between(old, new).torn
    assert {guid for _, guid, _ in between(old, new, SmOptions(keep_pkey_indexes=False)).torn} == {A, B}


def test_what_opensm_would_not_make_of_the_policy_is_refused() -> None:
    old, new = parse_policy(TENANT), parse_policy(TENANT.replace("One=1", "Two=2"))
    found = tables_of(old, new, SmOptions(), ports())
    other = [replace(each, after={0: PKey(0x7FFF)}) if each.port == port_id(A) else each for each in found]
    with pytest.raises(UsageError, match=r"by the policy OpenSM would write 0x7fff, 0x8002, but the plan has 0x7fff"):
        policies_between(old, new, other, SM, SmOptions(), DIGEST)
    with pytest.raises(UsageError, match="port 0x000000000000beef is not an end port of the plan's fabric"):
        policies_between(old, new, found, 0xBEEF, SmOptions(), DIGEST)
    with pytest.raises(FileFormatError, match="the policy has no text to give to OpenSM"):
        policies_between(old, pin(new), found, SM, SmOptions(), DIGEST)
    with pytest.raises(FileFormatError, match="nothing was read from it"):
        policies_between(old, parse_policy("X=oops : ALL ;"), found, SM, SmOptions(), DIGEST)


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        (f"Old : {A:#x}=full, {B:#x}=full ;", f"New : {B:#x}=full ;", "0x0002"),
        (f"Own : {A:#x}=full, {B:#x}=full ;", f"New : {B:#x}=full ;\nOwn : {A:#x}=full ;", "0x0002"),
        (f"Own=0x10 : {A:#x}=full ;", f"Own : {A:#x}=full ;", "0x0010"),
    ],
)
def test_a_policy_for_which_a_running_opensm_would_pick_another_p_key_is_refused(
    old: str, new: str, number: str
) -> None:
    with pytest.raises(UsageError, match=f"1: OpenSM picks the P_Key of .* would pick {number}; write the P_Key"):
        between(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"Own : {A:#x}=full ;", f"Own : {A:#x}=full, {B:#x}=full ;"),
        (f"Gone : {AWAY:#x}=full ;", f"New : {A:#x}=full ;"),
        (f"Emptied=1 : {B:#x}=full ;", f"New : {A:#x}=full ;"),
        (None, f"New : {A:#x}=full ;"),
    ],
)
def test_a_p_key_that_a_running_opensm_picks_as_a_new_one_does_is_no_hindrance(old: str | None, new: str) -> None:
    assert PKey(0x8001) in between(old, new).states[-1][A]


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        (f"Own : {A:#x}=full ;", f"New : {B:#x}=full ;\nOwn : {A:#x}=full ;", 2),
        (f"Own : {A:#x}=full ;", f"New=1 : {B:#x}=full ;\nOwn=2 : {A:#x}=full ;", 2),
        (f"Own : {A:#x}=full ;", f"Own=0x10 : {A:#x}=full ;", 0x10),
        (f"Own : {A:#x}=full ;", f"New=1 : {B:#x}=full ;", 2),
    ],
)
def test_a_policy_is_refused_if_opensm_would_pick_another_p_key_in_its_rollback(
    old: str, new: str, number: int
) -> None:
    text = f"1: OpenSM picks the P_Key of Own by itself: it is 0x0001 now, .* would pick 0x{number:04x}; write 0x0001"
    with pytest.raises(UsageError, match=text):
        between(old, new)
    assert between(old.replace("Own", "Own=1"), new).texts[-1] == new.encode()
