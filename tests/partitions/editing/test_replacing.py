"""Memberships of replaced ports: what is written, every other byte, and that the policy means the same for the new."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, Refused, UsageError
from ibkeys.partitions.editing.changes import EditedPolicy, KnownPorts
from ibkeys.partitions.editing.replacing import replace_guids
from ibkeys.partitions.model import Definition, MemberRule
from ibkeys.partitions.reader import parse_policy
from tests import corpus
from tests.partitions.editing.generated import GUIDS, members, policies, text_of

NEW: Final = 0x2C903000A9991
OLD: Final = 0x2C903000A1021
KNOWN: Final = KnownPorts({NEW: "node02 mlx4_0"}, {NEW: "ca"})


def replaced(text: str, guids: dict[int, int] | None = None) -> EditedPolicy:
    return replace_guids(parse_policy(text), guids or {OLD: NEW}, KNOWN)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("X=5 : 0x2c903000a1021=full ;\n", "X=5 : 0x2c903000a9991=full ;\n"),
        ("X=5 : 0x0002c903000a1021 = full ;  # two\n", "X=5 : 0x0002c903000a9991 = full ;  # two\n"),
        ("X=5 : 0X2C903000A1021 ;", "X=5 : 0x2c903000a9991 ;"),
        ("X=5 : 783676632895521=full ;\n", "X=5 : 0x0002c903000a9991=full ;\n"),
        ("X=5 : ALL, 0x2c903000a1021=full ; # 0x2c903000a1021", "X=5 : ALL, 0x2c903000a9991=full ; # 0x2c903000a1021"),
        (
            "A=1 : 0x2c903000a1021, 0x9, 0x2c903000a1021=full ; B=2, indx0 :\n 0x2c903000a1021=both ;\n",
            "A=1 : 0x2c903000a9991, 0x9, 0x2c903000a9991=full ; B=2, indx0 :\n 0x2c903000a9991=both ;\n",
        ),
        ("X=5, ipoib : mgid=ff12::1,sl=1\n 0x2c903000a1021", "X=5, ipoib : mgid=ff12::1,sl=1\n 0x2c903000a9991"),
    ],
)
def test_each_item_names_the_new_port_and_every_other_byte_stays(before: str, after: str) -> None:
    before = before.replace("783676632895521", str(OLD))
    assert text_of(replaced(before)) == after
    assert replaced(after, {NEW: OLD}).after.definitions == parse_policy(before).definitions


def test_the_changes_are_those_of_items_and_keywords_stay_as_they_are() -> None:
    edited = replaced("A=1 : ALL=limited, 0x2c903000a1021=full ;\nB=2 : 0x2c903000a1021, ALL ;\nC=3 : ALL=full ;\n")
    found = [(each.base, each.rule.guid, each.before, each.after) for each in edited.changes]
    assert found == [(1, OLD, "full", "limited"), (1, NEW, "limited", "full")]
    assert edited.notes == ()


def test_a_port_that_the_policy_does_not_name_is_noted() -> None:
    edited = replaced("A=1 : ALL=full ;\n")
    assert (edited.pending, edited.changes) == (False, ())
    assert edited.notes == ("<text> does not name 0x0002c903000a1021, so nothing is taken over from there",)


def test_two_ports_of_an_adapter_change_their_places_at_once() -> None:
    edited = replaced("A=1 : 0x1=full, 0x2 ;\nB=2 : 0x2=full ;\n", {1: 3, 2: 4})
    assert text_of(edited) == "A=1 : 0x3=full, 0x4 ;\nB=2 : 0x4=full ;\n"


@pytest.mark.parametrize(
    ("text", "guids", "message"),
    [
        ("A=1 : 0x2c903000a1021, 0x2c903000a9991 ;\n", {OLD: NEW}, "names 0x0002c903000a9991 (node02 mlx4_0) already"),
        ("A=1 : 0x2c903000a1021 ;\nB=2 : 0x2c903000a9991=full ;\n", {OLD: NEW}, "so that port is no new one"),
        ("A=1 : 0x1, 0x2 ;\n", {1: 2}, "names 0x0000000000000002 already"),
    ],
)
def test_a_member_of_the_policy_is_no_new_port(text: str, guids: dict[int, int], message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)) as caught:
        replaced(text, guids)
    assert caught.value.interlock == "new-is-member"


def test_one_port_takes_over_from_one_port() -> None:
    with pytest.raises(UsageError, match="each port takes over from one port only"):
        replaced("A=1 : 0x1, 0x2 ;\n", {1: 3, 2: 3})


def test_what_opensm_would_refuse_is_not_edited() -> None:
    with pytest.raises(FileFormatError):
        replaced("A=1 : 0x2c903000a1021\n;\n")


# --- whatever the policy is -------------------------------------------------------------------------------------------

_ITEMS: Final = st.builds(
    "{}{}".format,
    st.sampled_from([*map(hex, GUIDS), "5", "07", "+3", "ALL_SWITCHES", "SELF", "NONE", "ALL_CAS", "ALL"]),
    st.sampled_from(["", "=full", "=limited", " = full", "=both", "=l", "="]),
)
_HEADS: Final = st.builds(
    "{}{}{}".format,
    st.sampled_from(["A", "B", "X", "Default"]),
    st.sampled_from(["=1", "=0x2", "=0x7fff", ""]),
    st.sampled_from(["", ",indx0", ", ipoib", ", defmember=full", ",sl=2 "]),
)


def bare(data: bytes | None, guids: set[int]) -> list[str]:
    """Return the parts of a policy between numbers that are one of *guids*."""
    pieces = re.split(r"([+]?\b(?:0[xX][0-9a-fA-F]+|[0-9]+)\b)", (data or b"").decode())
    return [each for each in pieces if not re.fullmatch(r"[+]?\w+", each) or int_of(each) not in guids]


def int_of(word: str) -> int | None:
    try:
        return int(word, 0)
    except ValueError:
        return int(word, 8) if word.isdigit() and word.startswith("0") else None


@given(policies(_HEADS, _ITEMS), st.dictionaries(st.sampled_from(GUIDS), st.integers(8, 12), min_size=1))
def test_new_ports_mean_what_the_former_ones_meant_and_the_way_back_too(text: str, guids: dict[int, int]) -> None:
    policy = parse_policy(text)
    assume(policy.accepted and len({*guids.values()}) == len(guids))
    edited = replace_guids(policy, guids, KnownPorts())
    rename = {**guids, **{new: old for old, new in guids.items()}}
    for both in (False, True):
        ports = [*GUIDS, *guids.values()]
        had, has = members(policy, both, ports), members(edited.after, both, ports)
        assert has == {(base, rename.get(port, port)): how for (base, port), how in had.items()}
    assert edited.pending == bool(guids.keys() & policy.named_guids)
    parts = {*guids, *guids.values()}
    assert bare(edited.after.data, parts) == bare(policy.data, parts)
    back = replace_guids(edited.after, {new: old for old, new in guids.items()}, KnownPorts())
    assert back.after.definitions == policy.definitions


def test_every_policy_of_the_corpus_keeps_its_meaning_when_all_its_ports_are_replaced() -> None:
    found = [parse_policy(path.read_bytes(), str(path)) for path in corpus.files("policies/*.conf")]
    accepted = [policy for policy in found if policy.accepted]
    assert len(accepted) > 10
    for policy in accepted:
        guids = {guid: 0xDEAD_0000_0000_0000 + number for number, guid in enumerate(sorted(policy.named_guids))}
        after = replace_guids(policy, guids, KnownPorts()).after
        assert after.definitions == tuple(_renamed(each, guids) for each in policy.definitions)
        assert (after.data or b"").count(b"\n") == (policy.data or b"").count(b"\n")


def _renamed(definition: Definition, guids: dict[int, int]) -> Definition:
    rules: list[MemberRule] = [replace(rule, guid=guids.get(rule.guid, rule.guid)) for rule in definition.rules]
    return replace(definition, rules=tuple(rules))
