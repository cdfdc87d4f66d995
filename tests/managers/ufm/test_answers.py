"""What UFM's answers mean: each trap of its facts is a row."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys import jsonfile
from ibkeys.errors import EncodeError, FileFormatError
from ibkeys.managers.ufm.answers import (
    Member,
    UfmJob,
    UfmPartition,
    guid_number,
    p_key_base,
    parse_job,
    parse_job_id,
    parse_partition,
    parse_partitions,
    parse_single_answer,
)
from ibkeys.managers.ufm.sm_settings import states_of

A, B = 0x0002C903000A1011, 0x248A07030000000A
FULL = {"guid": "0002c903000a1011", "membership": "full", "index0": True}
KNOWN = {A: Member("full", True)}


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("0x7fff", 0x7FFF),
        ("0x2fb", 0x2FB),
        ("0x02fb", 0x2FB),
        ("0x82fb", 0x2FB),
        ("0X2FB", 0x2FB),
        ("2fb", 0x2FB),
        ("0x1", 1),
    ],
)
def test_a_p_key_is_a_partition_in_any_spelling(text: str, base: int) -> None:
    assert p_key_base(text) == base


@pytest.mark.parametrize("text", ["0x0", "0x8000", "", "0x", "0x12345", "-1", "x", 5, None, ["0x1"], "0x1\n"])
def test_what_is_no_p_key(text: object) -> None:
    with pytest.raises(EncodeError):
        p_key_base(text)


@given(st.integers(1, (1 << 64) - 1), st.sampled_from(["{:016x}", "{:x}", "{:016X}", "0x{:x}", "0x{:016x}", "0X{:X}"]))
def test_a_guid_is_a_number_in_any_spelling(number: int, form: str) -> None:
    assert guid_number(form.format(number)) == number


@pytest.mark.parametrize("text", ["", "0", "0x", "0" * 17, "g" * 16, None, 5, {}])
def test_what_is_no_guid(text: object) -> None:
    with pytest.raises(EncodeError):
        guid_number(text)


@pytest.mark.parametrize(
    ("what", "entry", "members"),
    [
        ("members", {"guids": [FULL]}, KNOWN),
        ("an empty list is unknown", {"guids": []}, None),
        ("no list", {}, None),
        ("null", {"guids": None}, None),
        ("bare GUIDs have no membership", {"guids": ["0002c903000a1011"]}, None),
        ("a membership is missing", {"guids": [FULL, {"guid": f"{B:x}"}]}, None),
        ("upper case", {"guids": [{"guid": "0002C903000A1011", "membership": "Full", "index0": "true"}]}, KNOWN),
        ("unpadded", {"guids": [{"guid": "0x2c903000a1011", "membership": "full", "index0": True}]}, KNOWN),
        ("index0 not said", {"guids": [{"guid": "2c903000a1011", "membership": "limited"}]}, {A: Member("limited")}),
        ("twice the same", {"guids": [FULL, FULL]}, KNOWN),
        ("twice, spelled otherwise", {"guids": [FULL, {**FULL, "guid": "0x2C903000A1011"}]}, KNOWN),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_members(what: str, entry: dict[str, Any], members: object) -> None:
    assert parse_partition(0x10, entry).members == members


@pytest.mark.parametrize(
    ("guids", "lacks_memberships"),
    [
        ([], False),
        (None, False),
        ([FULL], False),
        (["0002c903000a1011"], True),
        ([FULL, {"guid": f"{B:x}"}], True),
    ],
)
def test_members_without_a_membership_are_no_empty_list(guids: object, lacks_memberships: bool) -> None:
    """Who takes them for nobody would take them out by a PUT, or make them full by a POST."""
    assert parse_partition(0x10, {"guids": guids}).lacks_memberships is lacks_memberships


@pytest.mark.parametrize("depth", range(940, 1000, 3))
@pytest.mark.parametrize("opens", ["[]", '{"a":}'])
def test_an_answer_that_is_nested_deeply_is_an_error_and_no_traceback(depth: int, opens: str) -> None:
    with suppress(FileFormatError):
        document = jsonfile.loads((opens[:-1] * depth + "1" + opens[-1] * depth).encode())
        for parse in (
            parse_partitions,
            lambda each: parse_single_answer(0x10, {"guids": [each]}),
            lambda each: parse_job_id(None, each),
        ):
            with suppress(EncodeError):
                parse(document)
        assert parse_job("1", {"Status": document}).state == "failed"
        with pytest.raises(EncodeError):
            parse_job_id(None, {"ID": document})


@pytest.mark.parametrize(
    "number", ["1e999", "-1e999", "1" * 4000, "1" * 5000, "NaN", "Infinity", "0.5", "true", "null"]
)
@pytest.mark.parametrize("where", ['{{"{0}": {1}}}', '{{"0x10": {{"guids": [{{"guid": {1}}}]}}}}', "[{1}]"])
def test_numbers_where_there_are_none(number: str, where: str) -> None:
    with pytest.raises((EncodeError, FileFormatError)):
        parse_partitions(jsonfile.loads(where.format("0x10", number).encode()))


def test_the_default_partition_is_never_known_whatever_is_listed() -> None:
    assert parse_partition(0x7FFF, {"guids": [FULL], "partition": "management"}).members is None


@pytest.mark.parametrize(
    "entry",
    [
        "text",
        {"guids": "text"},
        {"guids": [5]},
        {"guids": [{"guid": "xyz", "membership": "full"}]},
        {"guids": [{"guid": "1", "membership": "both"}]},
        {"guids": [{"guid": "1", "membership": 1}]},
        {"guids": [{"guid": "1", "membership": "full"}, {"guid": "0x01", "membership": "limited"}]},
    ],
)
def test_an_entry_that_makes_no_sense_is_an_error(entry: object) -> None:
    with pytest.raises(EncodeError):
        parse_partition(0x10, entry)


@pytest.mark.parametrize(
    ("document", "bases", "complete"),
    [
        ({"0x10": {"guids": [FULL]}, "0x7fff": {"guids": []}}, {0x10, 0x7FFF}, True),
        (["0x10", "0x7fff"], {0x10, 0x7FFF}, False),
        ([{"pkey": "0x10", "guids": [FULL]}], {0x10}, True),
        ({"0x10": {"guids": [FULL]}, "0x11": {}}, {0x10}, True),
        ({}, set(), True),
        ([], set(), False),
    ],
)
def test_the_list_of_all_partitions(document: object, bases: set[int], complete: bool) -> None:
    found = parse_partitions(document)
    assert (set(found.by_base), found.complete) == (bases, complete)
    if complete and 0x10 in bases:
        assert found.by_base[0x10].members == KNOWN
    if not complete:
        assert all(each.members is None for each in found.by_base.values())


@pytest.mark.parametrize("document", ["text", 5, None, [5], [{"pkey": None}], {"0x10": "text"}])
def test_what_is_no_list_of_partitions(document: object) -> None:
    with pytest.raises(EncodeError):
        parse_partitions(document)


def test_one_partition_in_two_spellings_that_differ_is_an_error() -> None:
    with pytest.raises(EncodeError, match="twice"):
        parse_partitions({"0x678": {"guids": [FULL]}, "0x0678": {"guids": []}})


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({}, None),
        ({"guids": [FULL]}, UfmPartition(0x678, members=KNOWN)),
        ({"0x678": {"guids": [FULL]}}, UfmPartition(0x678, members=KNOWN)),
        ({"0x8678": {"guids": [FULL]}}, UfmPartition(0x678, members=KNOWN)),
        (
            {"partition": "a\x1b[2Jb", "ip_over_ib": False, "guids": [FULL]},
            UfmPartition(0x678, "a\\x1b[2Jb", KNOWN, False),
        ),
    ],
)
def test_one_partition_flat_nested_or_absent(document: object, found: UfmPartition | None) -> None:
    assert parse_single_answer(0x678, document) == found


def test_the_answer_for_another_partition_is_an_error() -> None:
    with pytest.raises(EncodeError, match="0x679"):
        parse_single_answer(0x678, {"0x679": {"guids": [FULL]}})


@pytest.mark.parametrize(
    ("document", "state"),
    [
        ({"ID": "5", "Status": "Completed"}, "done"),
        ({"id": "5", "status": "completed"}, "done"),
        ({"ID": "5", "Status": "Running"}, "running"),
        ({"ID": "5"}, "running"),
        ({"ID": "5", "Status": None}, "running"),
        ({"ID": "5", "Status": "Completed With Errors"}, "failed"),
        ({"ID": "5", "Status": "Aborted"}, "failed"),
        ({"ID": "5", "Status": "a word that nobody knows"}, "failed"),
    ],
)
def test_jobs(document: object, state: str) -> None:
    assert parse_job("5", document).state == state


def test_a_failed_job_says_why() -> None:
    assert parse_job("5", {"Status": "Failed", "Summary": "disk full"}) == UfmJob("5", "failed", "Failed: disk full")


@pytest.mark.parametrize(
    ("location", "document", "found"),
    [
        ("http://elsewhere.invalid/ufmRest/jobs/17", None, "17"),
        ("/ufmRest/jobs/17/", {"ID": "18"}, "17"),
        (None, {"ID": "18"}, "18"),
        (None, {"job_id": 19}, "19"),
        (None, None, None),
    ],
)
def test_which_job_was_begun(location: str | None, document: object, found: str | None) -> None:
    assert parse_job_id(location, document) == found


@pytest.mark.parametrize(
    "location", ["/jobs/a b", "/jobs/" + "1" * 65, "/jobs/?x=1", "/jobs/..", "/jobs/../", "/jobs/..%2f..%2fapp"]
)
def test_an_id_that_is_none_is_not_asked_for(location: str) -> None:
    with pytest.raises(EncodeError):
        parse_job_id(location, None)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda each: (
        st.lists(each, max_size=4)
        | st.dictionaries(st.sampled_from(["0x10", "guids", "guid", "membership", "pkey"]) | st.text(max_size=5), each)
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_json_is_read_or_refused(document: object) -> None:
    for parse in (parse_partitions, lambda each: parse_single_answer(0x10, each), lambda each: parse_job("1", each)):
        with suppress(EncodeError):
            parse(document)


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("0x0000000000000000", "unset"),
        (0, "unset"),
        ("0x0000000000000001", "default"),
        ("1", "default"),
        ("0x00000000beef0003", "set"),
        ("not to be told", "unknown"),
        (None, "unknown"),
        (True, "unknown"),
    ],
)
def test_keys_of_the_subnet_manager_are_states(value: object, state: str) -> None:
    found = states_of("https://ufm", {"m_key": value, "sm_key": value, "sa_key": value})
    assert (found.sm_key, found.sa_key) == (state, state)
    assert found.m_key == ("set" if state == "default" else state)
    assert "beef" not in repr(found)


@pytest.mark.parametrize(("value", "is_on"), [("True", True), ("FALSE", False), (True, True), ("", None), (None, None)])
def test_m_key_per_port(value: object, is_on: bool | None) -> None:
    assert states_of("https://ufm", {"m_key_per_port": value}).m_key_per_port is is_on
