"""GUIDs in the forms that they are met in."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis.strategies import integers, sampled_from, text

from ibkeys.errors import EncodeError
from ibkeys.keys.guid import is_spelled_as_guid, parse_guid, parse_guids


def grouped(number: int) -> str:
    """*number* as sysfs writes node_guid."""
    digits = f"{number:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


@given(integers(1, (1 << 64) - 1), sampled_from(["0x{0:016x}", "{0:016X}", "0x{0:x}"]))
def test_every_form_means_the_same_number(number: int, form: str) -> None:
    assert parse_guid(form.format(number)) == number
    assert parse_guid(grouped(number)) == parse_guid(grouped(number).upper()) == number
    assert parse_guid(f"fe80:0000:0000:0000:{grouped(number)}") == number
    assert is_spelled_as_guid(grouped(number))


@pytest.mark.parametrize(
    "word",
    ["leaf1:3", "0x0002c903004e22a1:3", "0002:c903:004e:22a1:3", "0002:c903:004e", "0,1,4", "0x21", "gpu-a03", "", "7"],
)
def test_what_stands_where_a_guid_may_stand_is_told_apart(word: str) -> None:
    assert not is_spelled_as_guid(word)


@pytest.mark.parametrize(
    "word",
    [
        "0",
        "0x0",
        "0000:0000:0000:0000",
        "fe80:0000:0000:0000:0000:0000:0000:0000",
        "ff12:401b:ffff:0000:0000:0000:ffff:ffff",  # the IPoIB broadcast group, which is no port
        "0x1ffffffffffffffff",
        "0002:c903:004e",
        "24be:5ff:ff98:aba1",
        "node",
        "",
    ],
)
def test_what_is_no_guid_is_refused(word: str) -> None:
    with pytest.raises(EncodeError):
        parse_guid(word)


@given(text("0123456789abcdefx:", max_size=45))
def test_any_text_is_a_guid_or_one_documented_error(word: str) -> None:
    with contextlib.suppress(EncodeError):
        assert 0 < parse_guid(word) < 1 << 64


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("0x0002c903000[48208,4823c]", [0x0002C90300048208, 0x0002C9030004823C]),
        ("0x78e7d1030022[9794,977c],0x0002c90300048208", [0x78E7D10300229794, 0x78E7D1030022977C, 0x0002C90300048208]),
        ("0x0002c90300048208,0x0002c90300048208", [0x0002C90300048208]),
        ("0002:c903:0004:8208", [0x0002C90300048208]),
    ],
)
def test_guids_are_read_as_they_are_printed(word: str, meant: list[int]) -> None:
    assert parse_guids(word) == meant


@pytest.mark.parametrize(
    "word",
    [
        *("0x0002c903000[48208,4823]", "0x0002c903000[48208-4823c]", "0x0002c903000[48208", "0x0002c903000[]"),
        *("0x0002c90300[0-9]48208", "0002c903000[48208,4823c]", "0x0002c90300048208,", ",", "gpu[1-2]"),
    ],
)
def test_a_set_that_leaves_anything_open_is_refused(word: str) -> None:
    with pytest.raises(EncodeError):
        parse_guids(word)
