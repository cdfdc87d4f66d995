"""How numbers are read on the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import EncodeError
from ibkeys.keys.number import parse_number, parse_secret_number


@given(value=st.integers(0, 2**64 - 1))
def test_decimal_and_hex_are_read_back(value: int) -> None:
    assert (
        parse_number(str(value), "GUID")
        == parse_number(hex(value), "GUID")
        == parse_number(f"0x{value:016X}", "GUID")
        == value
    )


@pytest.mark.parametrize(("bits", "largest"), [(1, 1), (8, 255), (16, 0xFFFF), (64, 2**64 - 1)])
def test_border_of_the_width(bits: int, largest: int) -> None:
    assert parse_number(str(largest), "LID", bits) == largest
    for read in (parse_number, parse_secret_number):
        with pytest.raises(EncodeError, match=f"LID .*does not fit {bits} bits"):
            read(str(largest + 1), "LID", bits)


@pytest.mark.parametrize("text", ["010", "00", "0123456789"])
def test_leading_zero_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(EncodeError, match="leading zero means octal"):
        parse_number(text, "LID")


@pytest.mark.parametrize("text", ["9" * 100_000, "0x" + "f" * 100_000, "(" * 100_000, "0" * 99 + "x" * 100_000])
def test_endless_number_is_refused_at_once_and_briefly(text: str) -> None:
    with pytest.raises(EncodeError) as error:
        parse_number(text, "LID")
    assert len(str(error.value)) < 120


@given(text=st.text(max_size=30))
def test_secret_is_never_repeated(text: str) -> None:
    try:
        parse_secret_number(text, "M_Key")
    except EncodeError as error:
        message = str(error).replace("0x", "").replace("64", "")
        assert not any(char in message for char in text if char in "123456789")
