"""P_Keys: spellings, membership, and who may talk to whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import EncodeError
from ibkeys.keys.pkey import (
    DEFAULT_FULL,
    DEFAULT_LIMITED,
    EMPTY,
    PKey,
    explain,
    explain_match,
    match_in_table,
    match_inbound,
    may_talk,
)

values = st.integers(0, 0xFFFF)
partitions = st.integers(1, 0x7FFF)


def spec(a: int, b: int) -> bool:
    """IBA 10.9.3 in other words: written from the text, bit by bit, without the code's masks."""
    partition_a, partition_b = a % 0x8000, b % 0x8000
    full_a, full_b = a // 0x8000 == 1, b // 0x8000 == 1
    return partition_a == partition_b and partition_a != 0 and (full_a or full_b)


#           full   full, full   limited, limited full, limited limited
TRUTH = {(True, True): True, (True, False): True, (False, True): True, (False, False): False}


@pytest.mark.parametrize("partition", [1, 0x10, 0x7FFE, 0x7FFF])
@pytest.mark.parametrize(("a_full", "b_full"), TRUTH)
def test_truth_table_of_two_members_of_one_partition(partition: int, a_full: bool, b_full: bool) -> None:
    a, b = PKey(partition | a_full << 15), PKey(partition | b_full << 15)
    expected = TRUTH[a_full, b_full]
    assert may_talk(a, b) is expected
    assert a.matches(b) is expected
    assert explain_match(a, b).startswith("yes" if expected else "no")


@pytest.mark.parametrize("invalid", [0x0000, 0x8000])
@given(other=values)
def test_invalid_key_matches_nothing(invalid: int, other: int) -> None:
    assert not may_talk(invalid, other)
    assert not may_talk(other, invalid)
    assert explain_match(PKey(invalid), PKey(other)).startswith("no")


def test_every_key_against_every_kind_of_other() -> None:
    for a in range(0x10000):
        for b in (a, a ^ 0x8000, a ^ 1, a ^ 0x8001, 0x0000, 0x8000, 0x7FFF, 0xFFFF):
            assert may_talk(a, b) == spec(a, b), (hex(a), hex(b))


@given(a=values, b=values)
def test_matching_is_symmetric_and_what_the_standard_says(a: int, b: int) -> None:
    assert may_talk(a, b) == may_talk(b, a) == spec(a, b)
    assert explain_match(PKey(a), PKey(b)).startswith("yes" if spec(a, b) else "no")


@given(key=values, table=st.lists(values, max_size=40))
def test_match_in_a_table_is_the_first_entry_that_matches(key: int, table: list[int]) -> None:
    index = match_in_table(key, table)
    if index is None:
        assert not any(spec(key, entry) for entry in table)
    else:
        assert spec(key, table[index])
        assert not any(spec(key, entry) for entry in table[:index])


@given(value=values)
def test_parts_of_a_key(value: int) -> None:
    key = PKey(value)
    assert key == value
    assert key.partition + (0x8000 if key.is_full else 0) == value
    assert key.is_valid == (value not in (0, 0x8000))
    assert key.is_default == (value in (0x7FFF, 0xFFFF))
    assert key.membership == ("full" if value >= 0x8000 else "limited")
    assert str(key) == f"0x{value:04x}" == f"{key}"
    assert repr(key) == f"PKey(0x{value:04x})"
    assert explain(key)


@given(value=values)
def test_number_is_read_back(value: int) -> None:
    assert PKey.parse(str(PKey(value))) == PKey.parse(f"{value}") == value


@given(partition=partitions, word=st.sampled_from(["full", "limited"]))
def test_partition_with_a_word_is_read_back(partition: int, word: str) -> None:
    key = PKey.parse(f"0x{partition:x}:{word}")
    assert (key.partition, key.membership) == (partition, word)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x8001", 0x8001),
        ("0X8001", 0x8001),
        ("32769", 0x8001),
        ("0x1:full", 0x8001),
        ("0x1:limited", 0x0001),
        ("1:full", 0x8001),
        (" 0xffff ", 0xFFFF),
        ("0x7fff:full", 0xFFFF),
        ("0", 0),
        ("0x0000", 0),
    ],
)
def test_both_spellings(text: str, value: int) -> None:
    assert PKey.parse(text) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("010", "leading zero"),
        ("010:full", "leading zero"),
        ("00", "leading zero"),
        ("0x10000", "does not fit 16 bits"),
        ("65536", "does not fit 16 bits"),
        ("-1", "not a number"),
        ("0x1:both", "neither full nor limited"),
        ("0x1:Full", "neither full nor limited"),
        ("0x1:", "neither full nor limited"),
        ("0x1:full:full", "neither full nor limited"),
        ("0x8001:full", "not in 0x1..0x7fff"),
        ("0x8001:limited", "not in 0x1..0x7fff"),
        ("0xffff:full", "not in 0x1..0x7fff"),
        ("0x0:full", "not in 0x1..0x7fff"),
        (":full", "not a number"),
        ("", "not a number"),
        ("0x", "not a number"),
        ("0b1", "not a number"),
        ("0o17", "not a number"),
        ("1_000", "not a number"),
        ("0x1 0x2", "not a number"),
        ("٣", "not a number"),
        ("1.0", "not a number"),
        ("default", "not a number"),
    ],
)
def test_what_is_no_p_key_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        PKey.parse(text)


@pytest.mark.parametrize("value", [-1, 0x10000])
def test_number_of_more_than_16_bits_is_no_p_key(value: int) -> None:
    with pytest.raises(EncodeError, match="16 bits"):
        PKey(value)


def test_hint_for_a_leading_zero_gives_both_readings() -> None:
    with pytest.raises(EncodeError, match="write 10 or 0x10"):
        PKey.parse("010")


def test_well_known_keys() -> None:
    assert (DEFAULT_FULL, DEFAULT_LIMITED, EMPTY) == (0xFFFF, 0x7FFF, 0)
    assert "default partition" in explain(DEFAULT_FULL)
    assert "reaches the SA only if the SM's port is a full member" in explain(DEFAULT_LIMITED)
    assert "write the empty entry as 0x0000" in explain(PKey(0x8000))


@given(text=st.text(max_size=20))
def test_any_text_is_a_key_or_an_encode_error(text: str) -> None:
    try:
        assert 0 <= PKey.parse(text) <= 0xFFFF
    except EncodeError as error:
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("key", "table", "by_partition", "by_membership"),
    [
        (0x7FFF, [0x7FFF], 0, None),  # a limited member sends its own key: the one case in which the readings differ
        (0x7FFF, [0, 0x7FFF, 0xFFFF], 1, 2),
        (0xFFFF, [0x7FFF], 0, 0),
        (0x7FFF, [0x8001, 0xFFFF], 1, 1),
        (0x8001, [0xFFFF], None, None),
        (0x8001, [], None, None),
        (0x0000, [0x0000], None, None),
        (0x8000, [0x0000, 0x8000], None, None),
    ],
)
def test_by_which_entry_inbound_enforcement_takes_a_packet(
    key: int, table: list[int], by_partition: int | None, by_membership: int | None
) -> None:
    assert match_inbound(key, table) == match_inbound(key, table, "partition") == by_partition
    assert match_inbound(key, table, "membership") == by_membership


@given(key=st.integers(0, 0xFFFF), table=st.lists(st.sampled_from([0, 0x8000, 0x7FFF, 0xFFFF, 1, 0x8001]), max_size=4))
def test_what_passes_by_membership_passes_by_partition(key: int, table: list[int]) -> None:
    for each in (key, *table):
        if match_inbound(each, table, "membership") is not None:
            assert match_inbound(each, table, "partition") is not None
