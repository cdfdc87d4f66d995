"""The calls that change one partition of UFM, and what the journal keeps of it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.apply.ufm.stored_partition import Flags, Memberships, StoredPartition, changes_in, flags_in, host_of
from ibkeys.errors import StoreError, UsageError
from ibkeys.managers.ufm.answers import Member, UfmPartition
from ibkeys.managers.ufm.rest import Call
from ibkeys.partitions.reader import parse_policy
from ibkeys.store.journal import FileImage
from tests.managers.ufm.mock import Mock

URL = "https://ufm.example/ufmRestV3"
MEMBERS = st.dictionaries(st.integers(1, 6), st.sampled_from(["full", "limited"]), max_size=5)


@pytest.mark.parametrize(
    ("before", "after", "methods"),
    [
        ({}, {1: "full"}, ["POST"]),
        ({1: "full"}, {1: "full", 2: "full"}, ["POST"]),
        ({1: "limited"}, {1: "limited", 2: "full"}, ["PUT"]),
        ({}, {1: "limited"}, ["PUT"]),
        ({1: "full"}, {1: "limited"}, ["PUT"]),
        ({1: "limited"}, {1: "full"}, ["PUT"]),
        ({1: "full", 2: "limited"}, {2: "limited"}, ["DELETE"]),
        ({1: "full"}, {}, ["DELETE"]),
        ({1: "full"}, {2: "full"}, ["PUT"]),
        ({1: "full"}, {1: "full"}, []),
        ({}, {}, []),
        (dict.fromkeys(range(1, 251), "full"), {}, ["DELETE"] * 3),
    ],
)
def test_which_calls(before: Memberships, after: Memberships, methods: list[str]) -> None:
    assert [call.method for call in StoredPartition(0x10, before, bool(before)).calls_to(after)] == methods


@given(MEMBERS, MEMBERS, st.booleans(), st.booleans(), st.booleans())
def test_after_the_calls_ufm_has_what_is_wanted_and_its_flags(
    before: Memberships, after: Memberships, ignores: bool, index0: bool, ip_over_ib: bool
) -> None:
    mock = Mock(post_ignores_memberships=ignores)
    mock.store(0x10, **{f"g{guid:x}": word for guid, word in before.items()})
    found = mock.partitions[0x10]
    found.ip_over_ib = ip_over_ib
    found.members = {guid: (word, index0) for guid, (word, _) in found.members.items()}
    members = {guid: Member(word, index0) for guid, word in before.items()}
    stored = StoredPartition.of(0x10, UfmPartition(0x10, members=members or None, ip_over_ib=ip_over_ib), Flags())
    for call in stored.calls_to(after):
        ask(mock, call)
    assert mock.words(0x10) == after
    assert found.ip_over_ib == ip_over_ib
    if before:
        assert {flag for _, flag in found.members.values()} <= {index0}


def ask(mock: Mock, call: Call) -> None:
    status, _ = mock.change(call.method, call.path, dict(call.body or {}))
    assert status == 200
    for guid in (call.body or {}).get("guids", ()):
        assert len(guid) == 16


def test_members_of_two_kinds_are_not_made_one_kind() -> None:
    members = {1: Member("full", True), 2: Member("full", False)}
    stored = StoredPartition.of(0x10, UfmPartition(0x10, members=members, ip_over_ib=True), Flags())
    assert [call.method for call in stored.calls_to({1: "full"})] == ["DELETE"]
    with pytest.raises(UsageError, match="with and without index0"):
        stored.calls_to({1: "limited", 2: "full"})


@pytest.mark.parametrize(
    ("text", "flags"), [("a=0x10, ipoib", (True, False)), ("a=0x10, indx0", (False, True)), ("b=0x11", (True, False))]
)
def test_a_new_partition_has_the_flags_of_the_policy(text: str, flags: tuple[bool, bool]) -> None:
    made = StoredPartition.of(0x10, None, Flags.planned(0x10, parse_policy(f"{text} : 0x1=full ;\n".encode())))
    assert (made.ip_over_ib, made.index0) == flags
    [call] = made.calls_to({1: "full"})
    assert call.body is not None
    assert (call.body["ip_over_ib"], call.body["index0"]) == flags


@pytest.mark.parametrize("entry", [None, UfmPartition(0x10), UfmPartition(0x10, members={})])
def test_an_empty_partition_and_none_are_the_same_when_read_again(entry: UfmPartition | None) -> None:
    assert StoredPartition(0x10, {}, True).has_members_of(entry)
    assert not StoredPartition(0x10, {1: "full"}, True).has_members_of(entry)


def test_members_whose_membership_is_not_said_are_no_empty_partition() -> None:
    assert not StoredPartition(0x10, {}, True).has_members_of(UfmPartition(0x10, lacks_memberships=True))


@given(st.lists(MEMBERS, min_size=2, max_size=5))
def test_the_journal_gives_back_what_every_changed_member_had(ways: list[dict[int, str]]) -> None:
    images = [
        StoredPartition(0x10, before, True).image(URL, after)  # type: ignore[arg-type]
        for before, after in itertools.pairwise(ways)
    ]
    pairs = changes_in(images, URL).get(0x10, {})
    assert {guid: was for guid, (was, _) in pairs.items()} == {
        guid: ways[0].get(guid) for guid in range(1, 7) if len({words.get(guid) for words in ways}) > 1
    }
    assert all(known == {words.get(guid) for words in ways} for guid, (_, known) in pairs.items())
    assert changes_in(images, "https://another.example") == {}


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"members": []}', b'{"members": {"x": "full"}}'])
def test_a_damaged_image_is_an_error(text: bytes) -> None:
    image = FileImage("/resources/pkeys/0x10", text, b'{"members": {"1": "full"}}', host=host_of(URL))
    with pytest.raises(StoreError):
        changes_in([image], URL)


# --- what else UFM has of a partition ---------------------------------------------------------------------------------

LUSTRE = UfmPartition(0x10, "lustre", {1: Member("full", True)}, False, qos={"mtu_limit": "4"})


def test_the_journal_keeps_flags_and_name_of_before_the_first_change() -> None:
    had = StoredPartition.of(0x10, LUSTRE, Flags())
    images = [
        had.image(URL, {2: "full"}),
        StoredPartition(0x10, {2: "full"}, True).image(URL, {}),
        StoredPartition(0x11, {}, False).image(URL, {}),
    ]
    assert flags_in(images, URL) == {0x10: Flags(False, True, "lustre")}
    assert flags_in(images, "https://another.example") == {}
    older = FileImage("/resources/pkeys/0x10", b'{"members": {}}', b'{"members": {}}', host=host_of(URL))
    assert flags_in([older], URL) == {}, "an earlier version of ibkeys kept none"


def test_a_partition_that_is_made_again_gets_what_it_had() -> None:
    made = StoredPartition.of(0x10, None, Flags(False, True, "lustre")).with_name()
    [call] = made.calls_to({1: "full"})
    assert (call.method, call.body) == (
        "POST",
        {
            "pkey": "0x10",
            "guids": ["0000000000000001"],
            "index0": True,
            "ip_over_ib": False,
            "partition_name": "lustre",
            "membership": "full",
        },
    )


@pytest.mark.parametrize(
    ("name", "sent"), [("lustre", "lustre"), ("a b", None), ("a\\x1b", None), ("", None), (None, None)]
)
def test_only_what_can_be_a_name_is_sent_as_one(name: str | None, sent: str | None) -> None:
    stored = StoredPartition.of(0x10, UfmPartition(0x10, name, {1: Member("full")}), Flags()).with_name()
    [call] = stored.calls_to({1: "limited"})
    assert call.body is not None
    assert call.body.get("partition_name") == sent


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        (LUSTRE, []),
        (replace(LUSTRE, members=None), []),
        (replace(LUSTRE, name="api_pkey_0x10"), ["name api_pkey_0x10 instead of lustre"]),
        (replace(LUSTRE, name=None), ["name no longer listed instead of lustre"]),
        (replace(LUSTRE, ip_over_ib=True), ["ip_over_ib true instead of false"]),
        (replace(LUSTRE, qos={"mtu_limit": "2", "rate_limit": "2.5"}), ["mtu_limit 2 instead of 4"]),
    ],
)
def test_what_was_lost_is_named(now: UfmPartition, lost: list[str]) -> None:
    assert StoredPartition.of(0x10, LUSTRE, Flags()).lost_settings(now) == lost
