"""Editing a policy in place: what is written, every other byte, and that it means the former one plus the change."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, UsageError
from ibkeys.partitions.editing.changes import EditedPolicy, KnownPorts, add_members, move_members, remove_members
from ibkeys.partitions.editing.partition_name import PartitionName
from ibkeys.partitions.model import MemberRule, MemberWord
from ibkeys.partitions.reader import parse_policy
from tests import corpus
from tests.partitions.editing.generated import GUIDS, PORTS, X, members, policies, text_of


def guid(number: int, how: MemberWord) -> MemberRule:
    return MemberRule("GUID", number, how)


def added(text: str, *rules: MemberRule, where: PartitionName = X) -> str:
    return text_of(add_members(parse_policy(text), where, rules, PORTS))


def removed(text: str, *guids: int, where: PartitionName = X) -> str:
    return text_of(remove_members(parse_policy(text), where, guids, PORTS))


def item(number: int, how: str, close: str = ",") -> str:
    return f"0x{number:016x}={how}{close}  # stage{number} mlx5_0\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("X=5 : 0x9=full ;\n", "X=5 : 0x9=full,\n    {1},\n    {2}\n"),
        ("X=5 : 0x9=full ;  # nine\n# end\n", "X=5 : 0x9=full,  # nine\n    {1},\n    {2}\n# end\n"),
        ("X=5 :\n\t0x9=full;\nY=6: ALL ;", "X=5 :\n\t0x9=full,\n\t{1},\n\t{2}\nY=6: ALL ;"),
        ("X=5 : 0x9=full, ;\n", "X=5 : 0x9=full,\n    {1},\n    {2}\n"),
        ("X=5 : ;\n", "X=5 :\n    {1},\n    {2}\n"),
        ("X=5 : NONE ;\n", "X=5 : NONE,\n    {1},\n    {2}\n"),
        ("X=5 : 0x9 ; Y=6 : 0x8 ; # both\n", "X=5 : 0x9,\n    {1},\n    {2}\n Y=6 : 0x8 ; # both\n"),
        ("X=5 : 0x9 ;", "X=5 : 0x9,\n    {1},\n    {2}\n"),
        ("X=5 : 0x9", "X=5 : 0x9,\n    {1},\n    {2}\n"),
        ("X=5 : 0x9,\n  0x8=full # eight\n# end", "X=5 : 0x9,\n  0x8=full, # eight\n  {1},\n  {2}\n# end"),
        ("X=5 :\n  mgid=ff12::1,sl=1\n", "X=5 :\n  mgid=ff12::1,sl=1\n  {1},\n  {2}\n"),
        ("X=5 : 0x9 ; # a\r\n# b\r\n", "X=5 : 0x9, # a\r\n    {1},\n    {2}\n# b\r\n"),
        ("X=5 : 0x9 ;\nY=6 : ALL ;\nX=5 : 0x8 ;\n", "X=5 : 0x9 ;\nY=6 : ALL ;\nX=5 : 0x8,\n    {1},\n    {2}\n"),
        ("X=5 : 0x9 ;\nX=5,indx0 : 0x8 ;\n", "X=5 : 0x9,\n    {1},\n    {2}\nX=5,indx0 : 0x8 ;\n"),
        ("X=5,indx0 : 0x8 ;\n", "X=5,indx0 : 0x8,\n    {1},\n    {2}\n"),
    ],
)
def test_ports_are_added_at_the_end_with_their_names(before: str, after: str) -> None:
    expected = after.replace("{1},", item(1, "limited").rstrip()).replace("{2}", item(2, "full", " ;").rstrip())
    assert added(before, guid(1, "limited"), guid(2, "full")) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("X=5 : 0x1=limited, 0x2 ;\n", "X=5 : 0x1=full, 0x2=full ;\n"),
        ("X=5 : 0x1 = limited # one\n, 0x2 ;\n", "X=5 : 0x1=full # one\n, 0x2=full ;\n"),
        ("X=5 : 0x1=l, 0x2", "X=5 : 0x1=full, 0x2=full"),
        ("X=5 : 0x1=full, 0x1, 0x2=full ;", "X=5 : 0x1=full, 0x1=full, 0x2=full ;"),
        ("X=5 : 0x1=full, 0x2=full, 0x9 ;", "X=5 : 0x1=full, 0x2=full, 0x9 ;"),
        ("X=5, defmember=full : 1, 02 ;", "X=5, defmember=full : 1, 02 ;"),
        ("X=5 : ALL=full ;", "X=5 : ALL=full ;"),
        ("X=5 : ALL=full, 2=limited ;", "X=5 : ALL=full, 2=full ;"),
    ],
)
def test_another_membership_is_written_in_place_and_the_same_one_nowhere(before: str, after: str) -> None:
    assert added(before, guid(1, "full"), guid(2, "full")) == after


def test_where_a_keyword_comes_later_the_port_is_named_again_behind_it() -> None:
    assert added("X=5 : 0x1=full, ALL=limited ;\n", guid(1, "full")) == (
        f"X=5 : 0x1=full, ALL=limited,\n    {item(1, 'full', ' ;')}"
    )


def test_one_change_in_place_and_one_at_the_end_of_an_open_definition() -> None:
    assert added("X=5 : 0x1", guid(1, "full"), guid(2, "full")) == f"X=5 : 0x1=full,\n    {item(2, 'full', ' ;')}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A=1 : ALL ;\n", "A=1 : ALL ;\n\nX=0x0021 :\n    {}"),
        ("A=1 : ALL ;", "A=1 : ALL ;\n\nX=0x0021 :\n    {}"),
        ("A=1 : ALL", "A=1 : ALL ;\n\nX=0x0021 :\n    {}"),
        ("A=1 : 0x9, # c", "A=1 : 0x9, ; # c\n\nX=0x0021 :\n    {}"),
        ("A=1 : mgid=ff12::1,sl=1\n", "A=1 : mgid=ff12::1,sl=1\n    NONE ;\n\nX=0x0021 :\n    {}"),
    ],
)
def test_a_new_partition_comes_last(before: str, after: str) -> None:
    where = PartitionName("X", 0x21)
    assert added(before, guid(1, "full"), where=where) == after.replace("{}", item(1, "full", " ;"))


def test_keywords_are_for_a_new_partition_and_come_first() -> None:
    rules = [guid(1, "full"), MemberRule("ALL", 0, "limited")]
    where = PartitionName("X", 0x21)
    assert added("A=1 : ALL ;\n", *rules, where=where).endswith(
        f"X=0x0021 :\n    ALL=limited,\n    {item(1, 'full', ' ;')}"
    )
    with pytest.raises(UsageError, match="its place among the other items"):
        added("X=0x21 : 0x1 ;\n", *rules)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("X=5 : 0x1, 0x2, 0x9 ;\n", "X=5 : 0x9 ;\n"),
        ("X=5 : 0x9, 0x1, 0x2 ;\n", "X=5 : 0x9 ;\n"),
        ("X=5 : 0x1=full, 0x9=full, 0x2=full, ; # c\n", "X=5 : 0x9=full, ; # c\n"),
        ("X=5 : 0x1, 0x2 ; # storage\n", "X=5 : NONE ; # storage\n"),
        ("X=5 :\n 0x9, # nine\n 0x1, # one\n 0x2 ; # two\n# end\n", "X=5 :\n 0x9 ; # nine\n# end\n"),
        ("X=5 :\n 0x1, # one\n 0x9, # nine\n 0x2 ; # two", "X=5 :\n 0x9 ; # nine\n"),
        ("X=5 :\n 0x1, # one\n# kept\n 0x2 ; # two\n", "X=5 :\n# kept\n NONE ;\n"),
        ("X=5 :\n 0x1,\n 0x2 ; Y=6 : ALL ; # y\n", "X=5 :\n NONE ; Y=6 : ALL ; # y\n"),
        ("X=5 : 0x9, # nine\n 0x1, 0x2 ; Y=6 : ALL ;\n", "X=5 : 0x9 ; # nine\n Y=6 : ALL ;\n"),
        ("X=5 : 0x1, # head\n 0x2,\n 0x9 ;\n", "X=5 : # head\n 0x9 ;\n"),
        ("X=5 :\n mgid=ff12::1,sl=1\n 0x1, 0x2 ; # both\n", "X=5 :\n mgid=ff12::1,sl=1\n NONE ;\n"),
        ("X=5 : 0x1,\n 0x2", "X=5 :\n NONE"),
        ("X=5 : 0x9,\n 0x2", "X=5 : 0x9,\n"),
        ("X=5 : 0x1 ;\nY=6 : 0x1 ;\nX=5 : 0x9, 0x1, 0x2 ;\n", "X=5 : NONE ;\nY=6 : 0x1 ;\nX=5 : 0x9 ;\n"),
        ("X=5 : 1, 02=full, 0x1=both, 0x9 ;\n", "X=5 : 0x9 ;\n"),
        ("X=5 : ALL_SWITCHES, 0x1, 0x2 ;\n", "X=5 : ALL_SWITCHES ;\n"),
        ("X=5 : 0x9 ;\n", "X=5 : 0x9 ;\n"),
    ],
)
def test_ports_are_removed_and_no_semicolon_stays_alone(before: str, after: str) -> None:
    assert removed(before, 1, 2) == after


def test_what_a_keyword_makes_a_member_cannot_be_left_out() -> None:
    with pytest.raises(
        UsageError,
        match=r"0x0000000000000001 \(stage1 mlx5_0\) \(and 1 more port\) is a member of .* by ALL in line 2",
    ):
        removed("X=5 : 0x1=full,\nALL=limited ;\n", 1, 2)


def test_the_default_partition_keeps_every_port() -> None:
    where = PartitionName("Default", None)
    assert removed("Default=0x7fff : ALL=limited, 0x1=full, SELF=full ;\n", 1, where=where) == (
        "Default=0x7fff : ALL=limited, SELF=full ;\n"
    )
    with pytest.raises(UsageError, match="by ALL in line 1"):
        removed("Default=0x7fff : ALL=limited ;\n", 1, where=where)
    assert added("A=1 : ALL ;\n", guid(1, "full"), where=where).endswith(
        f"Default=0x7fff :\n    {item(1, 'full', ' ;')}"
    )


def test_a_port_is_moved_with_its_membership_or_another_one() -> None:
    text = "X=5 : 0x1=full, 0x2=limited, 0x9 ;\nY=6 : 0x8 ;\n"
    moved = move_members(parse_policy(text), X, PartitionName("Y", None), {1: None, 2: "full"}, PORTS)
    assert text_of(moved) == f"X=5 : 0x9 ;\nY=6 : 0x8,\n    {item(1, 'full')}    {item(2, 'full', ' ;')}"
    assert [(each.partition, each.before, each.after) for each in moved.changes] == [
        ("X", "full", None),
        ("X", "limited", None),
        ("Y", None, "full"),
        ("Y", None, "full"),
    ]
    with pytest.raises(UsageError, match=r"no member of partition X: 0x0000000000000003 \(stage3 mlx5_0\)"):
        move_members(parse_policy(text), X, PartitionName("Y", None), {1: None, 3: None}, PORTS)
    with pytest.raises(UsageError, match="the same partition"):
        move_members(parse_policy(text), X, PartitionName(None, 5), {1: None}, PORTS)
    with pytest.raises(UsageError, match="every port stays"):
        move_members(parse_policy(text + "Default : 0x1=full ;"), PartitionName(None, 0x7FFF), X, {1: None}, PORTS)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (
            PartitionName("Z", None),
            "there is no partition Z (to make one, give its P_Key too: Z=0x21); there are X=0x0005, Y=0x0006",
        ),
        (PartitionName("Z", 5), "is called 'X' there"),
        (PartitionName("X", 7), "has the number 0x0005 there"),
        (PartitionName("a:b", 7), "cannot be written so that OpenSM reads it as meant"),
        (PartitionName("a ; b", 7), "cannot be written so that OpenSM reads it as meant"),
        (PartitionName("a\nQ=9 : ALL=full ;\nb", 7), "cannot be written so that OpenSM reads it as meant"),
        (PartitionName("a#", 7), "cannot be written so that OpenSM reads it as meant"),
        (PartitionName("n" * 40, 7), "cannot be written"),
    ],
)
def test_a_partition_that_is_not_there_or_is_another_one(where: PartitionName, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        added("X=5 : ALL ;\nY=6 : ALL ;\n", guid(1, "full"), where=where)


def test_a_name_of_two_partitions_is_no_name() -> None:
    with pytest.raises(UsageError, match="the name of 2 partitions: 0x0005, 0x0006"):
        added("X=5 : 0x9 ;\nX=6 : 0x9 ;\n", guid(1, "full"))


@pytest.mark.parametrize("text", ["", "# nothing\n", "X=5 : 0x1 ;\r\n", "X=5\n: 0x1 ;\n"])
def test_what_opensm_would_refuse_is_not_edited(text: str) -> None:
    with pytest.raises(FileFormatError, match="FULL MEMBER"):
        added(text, guid(1, "full"))


def test_the_name_of_a_port_stays_in_its_comment() -> None:
    ports = KnownPorts({1: "evil\nY=6 : ALL=full ;\r\x1b[2J#"}, {})
    text = text_of(add_members(parse_policy("X=5 : 0x9 ;\n"), X, [guid(1, "full")], ports))
    assert text.count("\n") == 2
    assert text.isprintable() or "\x1b" not in text
    assert [each.name for each in parse_policy(text).partitions] == ["X"]


# --- whatever the policy is -------------------------------------------------------------------------------------------

ITEMS = st.builds(
    "{}{}".format,
    st.sampled_from([*map(hex, GUIDS), "5", "07", "ALL_SWITCHES", "SELF", "NONE", "ALL_CAS"]),
    st.sampled_from(["", "=full", "=limited", " = full", "=both", "=l", "="]),
)
HEADS = st.builds(
    "{}={}{}".format,
    st.sampled_from(["A", "B", "X", ""]),
    st.sampled_from(["1", "0x2", "0x7fff", "0x8003"]),
    st.sampled_from(["", ",indx0", ", ipoib", ", defmember=full", ",sl=2 "]),
)


def bare(text: bytes) -> bytes:
    """What is left of a policy without the separators that an edit may have to move."""
    return re.sub(rb"[ \t\n,;]", b"", text)


def edit(change: Callable[[], EditedPolicy]) -> EditedPolicy:
    """Return an edit; what it refuses is another test's."""
    try:
        return change()
    except UsageError:
        assume(False)
        raise


@given(
    policies(HEADS, ITEMS),
    st.sampled_from([1, 2, 3, 0x44]),
    st.dictionaries(st.sampled_from(GUIDS), st.sampled_from(["full", "limited"]), min_size=1, max_size=3),
)
def test_an_addition_is_the_former_policy_plus_these_members(
    text: str, base: int, wanted: dict[int, MemberWord]
) -> None:
    policy = parse_policy(text)
    assume(policy.accepted)
    name = None if policy.partition(base) else f"P{base}"
    rules = [MemberRule("GUID", port, how) for port, how in wanted.items()]
    edited = edit(lambda: add_members(policy, PartitionName(name, base), rules, PORTS))
    assert parse_policy(text_of(edited)).accepted
    for both in (False, True):
        expected = members(policy, both)
        expected.update({(base, port): (how == "full", how == "limited") for port, how in wanted.items()})
        assert members(edited.after, both) == expected
    assert edited.pending == bool(edited.changes)
    if not any(each.before for each in edited.changes):  # nothing in place: what is new stands in one piece
        was, now = bare(text.encode()), bare(text_of(edited).encode())
        start = next((at for at, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), len(was))
        tail = len(was) - start
        assert now.startswith(was[:start])
        assert b"NONE" in now or now[len(now) - tail :] == was[start:]


@given(policies(HEADS, ITEMS), st.sampled_from([1, 2, 3]), st.sets(st.sampled_from(GUIDS), min_size=1, max_size=4))
def test_a_removal_is_the_former_policy_without_these_members(text: str, base: int, gone: set[int]) -> None:
    policy = parse_policy(text)
    assume(policy.accepted and policy.partition(base))
    edited = edit(lambda: remove_members(policy, PartitionName(None, base), sorted(gone), PORTS))
    after = text_of(edited)
    assert parse_policy(after).accepted
    for both in (False, True):
        kept = {key: how for key, how in members(policy, both).items() if key[0] != base or key[1] not in gone}
        assert members(edited.after, both) == kept
    # Lines from which nothing was taken are there, in order; one of them may have got the semicolon.
    touched = {
        each.line
        for partition in policy.partitions
        if partition.base == base
        for each in partition.rules
        if each.guid in gone
    }
    lines = [line for number, line in enumerate(text.split("\n"), 1) if number not in touched]
    left = iter(after.split("\n"))
    missing = [
        line for line in lines if not any(re.sub(r"[ ,;]+", "", each) == re.sub(r"[ ,;]+", "", line) for each in left)
    ]
    assert missing == []


def comments(data: bytes) -> set[bytes]:
    return {line.partition(b"#")[2] for line in data.split(b"\n")}


@pytest.mark.parametrize("file", corpus.files("policies/*.conf"), ids=corpus.label)
def test_a_port_goes_into_each_partition_of_real_policies_and_out_again(file: object) -> None:
    data = file.read_bytes()  # type: ignore[attr-defined]
    policy = parse_policy(data)
    if not policy.accepted or len(data) > 200_000:
        return
    port, ports = 0xABCDEF0123, KnownPorts({0xABCDEF0123: "new port"}, {})
    for partition in policy.partitions:
        where = PartitionName(None, partition.base)
        put = add_members(policy, where, [guid(port, "limited")], ports)
        assert comments(data) <= comments(put.after.data or b"")
        if put.changes and not any(rule.who.startswith("ALL") for rule in partition.rules):
            if partition.base == 0x7FFF:
                continue
            back = remove_members(put.after, where, [port], ports)
            assert bare(back.after.data or b"").replace(b"NONE", b"") == bare(data).replace(b"NONE", b"")
