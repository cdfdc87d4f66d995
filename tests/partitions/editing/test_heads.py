"""Editing the heads of definitions and their groups: what is written, every other byte, and what the policy means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, UsageError
from ibkeys.partitions.editing.changes import EditedPolicy, add_members, remove_members
from ibkeys.partitions.editing.groups import add_group, remove_group
from ibkeys.partitions.editing.heads import (
    GROUP_FLAGS,
    FlagValue,
    delete_partition,
    lacking_ipoib,
    rename_partition,
    set_flags,
)
from ibkeys.partitions.editing.partition_name import PartitionName
from ibkeys.partitions.model import Definition, GroupFlags, MemberRule, Partition, Policy
from ibkeys.partitions.reader import parse_policy
from tests import corpus
from tests.partitions.editing.generated import GUIDS, PORTS, X, members, policies, text_of

MGID = 0xFF12 << 112 | 0x77
"""A multicast group of no IP."""
IP_GROUP = 0xFF12_401B << 96 | 0x77


def flagged(text: str, **flags: FlagValue | None) -> str:
    return text_of(set_flags(parse_policy(text), X, flags))


@pytest.mark.parametrize(
    ("before", "flags", "after"),
    [
        ("X=5 : 1 ;\n", {"ipoib": True}, "X=5, ipoib : 1 ;\n"),
        ("X=5:1;\n", {"ipoib": True, "mtu": 5}, "X=5, ipoib, mtu=5:1;\n"),
        ("X=5, ipoib , mtu=4,rate=3 : 1 ; # c\n", {"mtu": 5}, "X=5, ipoib , mtu=5,rate=3 : 1 ; # c\n"),
        ("X=5,ipoib,mtu = 5 : 1 ;\n", {"mtu": 5}, "X=5,ipoib,mtu = 5 : 1 ;\n"),
        ("X=5,ipoib,m=4,mtu=3 : 1 ;\n", {"mtu": 5}, "X=5,ipoib, mtu=5 : 1 ;\n"),
        ("X=5,ipoib,mtu=4 : 1 ;\n", {"ipoib": False}, "X=5,mtu=4 : 1 ;\n"),
        ("X=5, ipoib, mtu=4 : 1 ;\n", {"mtu": None, "sl": 3}, "X=5, ipoib, sl=3 : 1 ;\n"),
        ("X=5, ipoib : 1 ;\n", {"Q_Key": 0x80000001}, "X=5, ipoib, Q_Key=0x80000001 : 1 ;\n"),
        ("X=5, scope=2, scope=5 : 1 ;\n", {"scope": frozenset((5, 14))}, "X=5, scope=5, scope=14 : 1 ;\n"),
        ("X=5, ipoib : 1, 2=full ;\n", {"defmember": "full"}, "X=5, ipoib, defmember=full : 1=limited, 2=full ;\n"),
        ("X=5, defmember=full : 1, # one\n 2 ;\n", {"defmember": None}, "X=5 : 1=full, # one\n 2=full ;\n"),
        ("X=5 : 1 ;\nX=5, indx0 : 2 ;\n", {"indx0": False}, "X=5 : 1 ;\nX=5 : 2 ;\n"),
        ("X=5 : 1 ;\nX=5, indx0 : 2 ;\n", {"indx0": True}, "X=5 : 1 ;\nX=5, indx0 : 2 ;\n"),
        ("X=5 : 1 ;\nX=5, ipoib : 2 ;\n", {"mtu": 5}, "X=5 : 1 ;\nX=5, ipoib, mtu=5 : 2 ;\n"),
        ("Y=6 : 1 ; X=5 : 2 ; # both\n", {"ipoib": True}, "Y=6 : 1 ; X=5, ipoib : 2 ; # both\n"),
        ("X : 1 ;\n", {"ipoib": True}, "X, ipoib : 1 ;\n"),
        ("X=5, ipoib :\r\n 1 ; # a\r\n", {"sl": 1}, "X=5, ipoib, sl=1 :\r\n 1 ; # a\r\n"),
    ],
)
def test_a_flag_is_written_in_its_place_and_the_rest_stays(
    before: str, flags: Mapping[str, FlagValue | None], after: str
) -> None:
    if "\r" in before:
        with pytest.raises(FileFormatError, match="FULL MEMBER"):
            flagged(before, **flags)
        return
    assert flagged(before, **flags) == after


def test_a_scope_that_opensm_ignores_is_said() -> None:
    policy = parse_policy("X=5, ipoib : 1 ;\n")
    [note] = set_flags(policy, X, {"scope": frozenset((5,))}).notes
    assert note.startswith("OpenSM 3.3.23 ignores scope for the broadcast group of ipoib")
    assert set_flags(policy, X, {"mtu": 5, "defmember": "full"}).notes == ()
    assert set_flags(parse_policy("X=5 : 1 ;\n"), X, {"scope": frozenset((5,))}).notes == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("X=5 : 1 ;\n", "Z=5 : 1 ;\n"),
        ("Y=6 : 1 ; X = 5, ipoib : 2 ; # x\n", "Y=6 : 1 ; Z = 5, ipoib : 2 ; # x\n"),
        ("X=5 : 1 ;\nY=6 : 1 ;\nX=5 : 2 ;\n", "Z=5 : 1 ;\nY=6 : 1 ;\nZ=5 : 2 ;\n"),
        ("X : 1 ;\nA : 2 ;\n", "Z=0x0001 : 1 ;\nA=0x0002 : 2 ;\n"),
        ("A, ipoib : 2 ;\nX : 1 ;\n", "A=0x0001, ipoib : 2 ;\nZ=0x0002 : 1 ;\n"),
    ],
)
def test_a_new_name_leaves_every_p_key(before: str, after: str) -> None:
    assert text_of(rename_partition(parse_policy(before), X, "Z")) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [("0x5 : 1 ;\n", "Z=0x5 : 1 ;\n"), ("=5 : 1 ;\n", "Z=5 : 1 ;\n"), (" =5 : 1 ;\n", " Z=5 : 1 ;\n")],
)
def test_a_partition_without_a_name_gets_one(before: str, after: str) -> None:
    assert text_of(rename_partition(parse_policy(before), PartitionName(None, 5), "Z")) == after


@pytest.mark.parametrize("name", ["", " a", "a ", "a,b", "a=b", "a:b", "a;b", "a#b", "a\nb", "n" * 32, "ä" * 16])
def test_what_opensm_cannot_keep_is_no_name(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a partition"):
        rename_partition(parse_policy("X=5 : 1 ;\n"), X, name)


def test_a_name_is_of_one_partition_and_the_default_one_keeps_its_own() -> None:
    policy = parse_policy("Default=0x7fff : ALL ;\nX=5 : 1 ;\nY=6 : 1 ;\n")
    with pytest.raises(UsageError, match="partition 0x0006 is called 'Y' already"):
        rename_partition(policy, X, "Y")
    for where, name in ((X, "Default"), (PartitionName("Default", None), "Z")):
        with pytest.raises(UsageError, match="the default partition is called Default"):
            rename_partition(policy, where, name)
    assert not rename_partition(policy, X, "X").pending


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Y=6 : 1 ;\nX=5 : 1 ;\n", "Y=6 : 1 ;\n"),
        ("Y=6 : 1 ;\n\nX=5 :\n 1, # one\n 2 ;\n", "Y=6 : 1 ;\n"),
        ("X=5 : 1 ;\n# of Y\nY=6 : 1 ;\n", "# of Y\nY=6 : 1 ;\n"),
        ("X=5 : 1 ; Y=6 : 1 ; # both\n", " Y=6 : 1 ; # both\n"),
        ("Y=6 : 1 ; X=5 : 1 ; # both\n", "Y=6 : 1 ;  # both\n"),
        ("X=5 : 1 ;\nY=6 : 1 ;\nX=5 : 2", "Y=6 : 1 ;\n"),
        ("X : 1 ;\nY : 1 ;\n", "Y=0x0002 : 1 ;\n"),
    ],
)
def test_a_partition_goes_with_all_its_definitions_and_no_p_key_moves(before: str, after: str) -> None:
    edited = delete_partition(parse_policy(before), X)
    assert text_of(edited) == after
    assert "is removed" in edited.notes[0]


def test_the_last_partition_and_the_default_one_stay() -> None:
    with pytest.raises(UsageError, match="X is the only partition"):
        delete_partition(parse_policy("X=5 : 1 ;\n"), X)
    with pytest.raises(UsageError, match="the default partition cannot be deleted"):
        delete_partition(parse_policy("Default=0x7fff : ALL ;\nX=5 : 1 ;\n"), PartitionName("Default", None))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("X=5 : 1 ;\n", "X=5 :\n    mgid=ff12::77\n    1 ;\n"),
        ("X=5 :  # c\n 1, # one\n 2 ;\n", "X=5 :  # c\n    mgid=ff12::77\n 1, # one\n 2 ;\n"),
        ("X=5 : ;\n", "X=5 :\n    mgid=ff12::77\n    NONE ;\n"),
        ("X=5 : 1", "X=5 :\n    mgid=ff12::77\n    1"),
        ("X=5 : 1 ; Y=6 : 2 ; # c\n", "X=5 :\n    mgid=ff12::77\n    1 ; Y=6 : 2 ; # c\n"),
        ("X=5 : 1 ;\nX=5, ipoib : 2 ;\n", "X=5 : 1 ;\nX=5, ipoib :\n    mgid=ff12::77\n    2 ;\n"),
        ("X=5 :\n mgid=ff12::77,sl=1\n 1 ;\n", "X=5 :\n mgid=ff12::77,sl=1\n 1 ;\n"),
    ],
)
def test_a_group_is_added_on_a_line_of_its_own_once(before: str, after: str) -> None:
    edited = add_group(parse_policy(before), X, MGID)
    assert text_of(edited) == after
    assert edited.pending == (before != after)
    assert not add_group(edited.after, X, MGID).pending


def test_the_scope_of_a_group_is_written_where_opensm_would_make_a_link_local_one() -> None:
    mgid = 0xFF15 << 112 | 0x77
    edited = add_group(parse_policy("X=5 : 1 ;\n"), X, mgid)
    assert text_of(edited) == "X=5 :\n    mgid=ff15::77,scope=5\n    1 ;\n"
    assert edited.after.definitions[0].groups[0].mgids() == [mgid]
    with pytest.raises(UsageError, match="OpenSM would make ff18::77 of the group ff12::77, by scope="):
        add_group(parse_policy("X=5, scope=8 : 1 ;\n"), X, MGID)


@pytest.mark.parametrize(
    ("mgid", "why"),
    [
        (0xFF32 << 112 | 0x77, "its flags, the first digit after ff, are neither 0 nor 1"),
        (IP_GROUP, "no line before it makes the broadcast group ff12:401b:8005::ffff:ffff of its partition"),
        (1, "it is not multicast"),
        (0xFF12_401B_8006 << 80 | 0x77, "its P_Key bits 0x8006 are neither those"),
        (MGID + 1, "it exists already"),
    ],
)
def test_a_group_that_opensm_would_leave_out_is_refused(mgid: int, why: str) -> None:
    policy = parse_policy("Y=6 :\n mgid=ff12::78,sl=0\n 1 ;\nX=5 : 1 ;\n")
    with pytest.raises(UsageError, match=why):
        add_group(policy, X, mgid)


def test_a_group_is_removed_by_either_spelling_of_its_gid() -> None:
    text = "X=5, ipoib :\n mgid=ff12:401b::77,sl=0\n mgid=ff12::77,sl=0\n 1 ;\n"
    for mgid in (IP_GROUP, IP_GROUP | 0x8005 << 80):
        edited = remove_group(parse_policy(text), X, mgid)
        assert text_of(edited) == "X=5, ipoib :\n mgid=ff12::77,sl=0\n 1 ;\n"
    again = remove_group(edited.after, X, IP_GROUP)
    assert not again.pending
    assert again.notes == ("partition X has no line with the group ff12:401b::77",)


def test_an_ip_group_with_the_p_key_of_another_partition_is_not_that_of_the_partition() -> None:
    policy, other = parse_policy("X=5 :\n mgid=ff12:401b::77,sl=0\n 1 ;\n"), IP_GROUP | 0x8006 << 80
    with pytest.raises(UsageError, match="its P_Key bits 0x8006 are neither those"):
        add_group(policy, X, other)
    assert not remove_group(policy, X, other).pending


def test_a_group_that_another_line_would_take_over_stays() -> None:
    policy = parse_policy("X=5 :\n mgid=ff12::77,sl=0\n 1 ;\nY=6 :\n mgid=ff12::77,sl=0\n 1 ;\n")
    with pytest.raises(UsageError, match="OpenSM would misread"):
        remove_group(policy, X, MGID)


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("A=1 : 1 ;\n", ""),
        ("Default=0x7fff, ipoib : ALL ;\n", ""),
        ("A=1, ipoib : 1 ;\nB=2 : 1 ;\n", ""),
        ("A=1, ipoib : 1 ;\n", "1 of 1 other partition has ipoib"),
        ("A=1, ipoib : 1 ;\nB=2, ipoib : 1 ;\nC=3 : 1 ;\n", "2 of 3 other partitions have ipoib"),
    ],
)
def test_a_partition_without_the_ipoib_of_most_others_is_remarked(text: str, remark: str) -> None:
    found = lacking_ipoib(parse_policy(text))
    assert found.startswith(remark)
    assert bool(found) == bool(remark)


# --- whatever the policy is -------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["A", "B", "X", "Z", "a b", "n" * 31])
BASES = st.sampled_from([1, 2, 3, 4, 0x7FFF])
HEADS = st.builds(
    "{}{}".format,
    st.sampled_from(["A=1", "B=0x2", "X = 3", "=0x8004", "0x4", "Default=0x7fff", "A", "B ", "X"]),
    st.sampled_from(
        ["", ",indx0", ", ipoib", ", ipoib, mtu=3 , rate=16", ", def=full", ",sl=2,s=5,scope=2,Q=7 ", ", ip,, m=5"]
    ),
)
BODIES = st.builds(
    "{}{}".format,
    st.sampled_from([*map(hex, GUIDS), "07", "ALL_SWITCHES", "SELF", "NONE", "ALL_CAS"]),
    st.sampled_from(["", "=full", "=limited", " = full", "=both", "="]),
)
FLAGS: st.SearchStrategy[dict[str, FlagValue | None]] = st.fixed_dictionaries(
    {},
    optional={
        "ipoib": st.booleans(),
        "indx0": st.booleans(),
        "mtu": st.sampled_from([None, 4, 5]),
        "rate": st.sampled_from([None, 3, 16]),
        "sl": st.sampled_from([None, 0, 7]),
        "Q_Key": st.sampled_from([None, 0xB1C]),
        "scope": st.sampled_from([None, frozenset((2, 14))]),
        "defmember": st.sampled_from([None, "full", "limited", "both"]),
    },
).filter(bool)


ACCEPTED = policies(HEADS, BODIES).map(parse_policy).filter(lambda policy: policy.accepted)


def meaning(policy: Policy) -> dict[int, Any]:
    """Return what a policy says of each partition: its name, flags, groups and members."""
    found: dict[int, Any] = {each.base: [each.name, heads(each)] for each in policy.partitions}
    for both in (False, True):
        for (base, port), how in members(policy, both).items():
            found.setdefault(base, []).append((both, port, how))
    return found


def heads(partition: Partition) -> list[Definition]:
    return [replace(each, rules=(), pkey_given=True) for each in partition.definitions]


def tried(policy: Policy, change: Callable[[], EditedPolicy]) -> EditedPolicy:
    """Return an edit; one that is refused changes nothing."""
    try:
        return change()
    except UsageError:
        return EditedPolicy(policy, policy)


def lines_without(policy: Policy, rows: set[int]) -> list[str]:
    lines = (policy.data or b"").decode().split("\n")
    return [line for number, line in enumerate(lines, 1) if number not in rows]


@given(ACCEPTED, BASES, FLAGS)
def test_flags_are_the_wanted_ones_and_nothing_else_changes(
    policy: Policy, base: int, flags: dict[str, FlagValue | None]
) -> None:
    partition = policy.partition(base)
    assume(partition is not None)
    assert partition is not None
    edited = set_flags(policy, PartitionName(None, base), flags)
    before, after = meaning(policy), meaning(edited.after)
    assert {**before, base: None} == {**after, base: None}
    changed = edited.after.partition(base)
    assert changed is not None
    assert [each.rules for each in changed.definitions] == [each.rules for each in partition.definitions]
    assert changed.ipoib == flags.get("ipoib", partition.ipoib)
    assert changed.indx0 == flags.get("indx0", partition.indx0)
    all_flags = [each.flags for each in changed.definitions]
    for name, field in GROUP_FLAGS.items():
        values = [getattr(each, field) for each in all_flags]
        wanted = flags.get(name)
        default = getattr(GroupFlags(), field)
        if name not in flags:
            assert values == [getattr(each.flags, field) for each in partition.definitions]
        else:
            assert wanted in values if wanted is not None else set(values) == {default}
    if "scope" in flags:
        assert (flags["scope"] or frozenset()) in [each.scopes for each in all_flags]
    touched = {each.line for each in partition.definitions}
    if "defmember" in flags:
        touched |= {rule.line for rule in partition.rules}
    assert lines_without(policy, touched) == lines_without(edited.after, touched)
    again = set_flags(edited.after, PartitionName(None, base), flags)
    assert again.after.data == edited.after.data


@given(ACCEPTED, BASES, NAMES)
def test_another_name_changes_only_heads(policy: Policy, base: int, name: str) -> None:
    partition = policy.partition(base)
    assume(partition is not None)
    assert partition is not None
    edited = tried(policy, lambda: rename_partition(policy, PartitionName(None, base), name))
    if edited.before is edited.after:
        assert base == 0x7FFF or any(each.name == name and each.base != base for each in policy.partitions)
        return
    expected, found = meaning(policy), meaning(edited.after)
    assert found[base][0] == name
    assert all(each.name == name for each in found[base][1])
    assert found[base][2:] == expected[base][2:]
    assert {**found, base: None} == {**expected, base: None}
    assert all(each.pkey_given for each in edited.after.definitions)
    touched = {each.line for each in policy.definitions if each.base == base or not each.pkey_given}
    assert lines_without(policy, touched) == lines_without(edited.after, touched)


@given(ACCEPTED, BASES)
def test_what_is_deleted_is_gone_and_all_others_stay(policy: Policy, base: int) -> None:
    partition = policy.partition(base)
    assume(partition is not None and base != 0x7FFF)
    assert partition is not None
    edited = tried(policy, lambda: delete_partition(policy, PartitionName(None, base)))
    if edited.before is edited.after:
        refused = [each for partition in policy.partitions for each in partition.groups if each.refused]
        assert len(policy.partitions) == 1 or refused  # OpenSM may make a group of another line then
        return
    expected = meaning(policy)
    del expected[base]
    assert meaning(edited.after) == expected
    left = iter(re.sub(r"\s", "", line) for line in (edited.after.data or b"").decode().split("\n"))
    touched = {rule.line for rule in partition.rules} | {each.line for each in partition.definitions}
    automatic = {each.line for each in policy.definitions if not each.pkey_given}
    standing = [line for line in lines_without(policy, touched | automatic) if "#" in line and ":" not in line]
    for line in standing:
        if not re.search(r"# (c|a comment|group|CR)", line):
            assert re.sub(r"\s", "", line) in left


STEPS = st.one_of(
    st.tuples(st.just("flags"), BASES, FLAGS),
    st.tuples(st.just("rename"), BASES, NAMES),
    st.tuples(st.just("delete"), BASES, st.none()),
    st.tuples(st.just("add"), BASES, st.dictionaries(st.sampled_from(GUIDS), st.sampled_from(["full", "limited"]))),
    st.tuples(st.just("remove"), BASES, st.sets(st.sampled_from(GUIDS), min_size=1)),
    st.tuples(st.just("group"), BASES, st.sampled_from([MGID, IP_GROUP])),
    st.tuples(st.just("no group"), BASES, st.sampled_from([MGID, IP_GROUP])),
)


def edited_by(policy: Policy, step: tuple[str, int, Any]) -> EditedPolicy:
    what, base, value = step
    partition = PartitionName(f"P{base}" if policy.partition(base) is None else None, base)
    match what:
        case "flags":
            return set_flags(policy, partition, value)
        case "rename":
            return rename_partition(policy, partition, value)
        case "delete":
            return delete_partition(policy, partition)
        case "add":
            return add_members(policy, partition, [MemberRule("GUID", guid, how) for guid, how in value.items()], PORTS)
        case "remove":
            return remove_members(policy, partition, sorted(value), PORTS)
        case "group":
            return add_group(policy, partition, value)
        case _:
            return remove_group(policy, partition, value)


@settings(deadline=None)
@given(ACCEPTED, st.lists(STEPS, min_size=2, max_size=8))
def test_after_any_steps_opensm_accepts_the_policy_and_other_partitions_are_as_they_were(
    policy: Policy, steps: list[tuple[str, int, Any]]
) -> None:
    present = policy
    for step in steps:
        edited = tried(present, lambda: edited_by(present, step))  # noqa: B023
        assert edited.after == parse_policy(edited.after.data or b"")
        assert edited.after.accepted
        before, after = meaning(present), meaning(edited.after)
        assert {**before, step[1]: None} == {**after, step[1]: None}, step
        present = edited.after


@pytest.mark.parametrize("file", corpus.files("policies/*.conf"), ids=corpus.label)
def test_each_partition_of_real_policies_gets_a_flag_and_loses_it_again(file: object) -> None:
    data = file.read_bytes()  # type: ignore[attr-defined]
    policy = parse_policy(data)
    if not policy.accepted or len(data) > 200_000:
        return
    for partition in policy.partitions:
        where = PartitionName(None, partition.base)
        if not partition.indx0:
            with_flag = set_flags(policy, where, {"indx0": True})
            assert with_flag.pending
            assert set_flags(with_flag.after, where, {"indx0": False}).after.data == data
        if partition.base != 0x7FFF:
            renamed = rename_partition(policy, where, "another name").after
            assert meaning(renamed).keys() == meaning(policy).keys()
            assert "another name" in [each.name for each in renamed.partitions]


def test_a_flag_may_bring_a_group_that_opensm_left_out_and_take_none() -> None:
    policy = parse_policy(
        "A=0x11 : ALL\n mgid=ff12:401b::78,sl=0\n ALL ;\nB=0x12, mtu=9 : ALL\n mgid=ff12::79\n ALL ;\n"
    )
    for base, flags in ((0x11, {"ipoib": True}), (0x12, {"mtu": 5})):
        changed = set_flags(policy, PartitionName(None, base), flags).after.partition(base)
        assert changed is not None
        assert [each.refused for each in changed.groups] == [None]
    taken = parse_policy("A=0x11, ipoib : ALL\n mgid=ff12:401b::78,rate=3\n ALL ;\n")
    with pytest.raises(UsageError, match="not read the edited flags as meant"):
        set_flags(taken, PartitionName(None, 0x11), {"rate": 7})
