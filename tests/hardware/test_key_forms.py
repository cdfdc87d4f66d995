"""Where a key hides: its forms are found in texts, numbers and bytes, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.hardware.archive.key_forms import LONG, KeyForms
from tests.hardware.looking import forms

KEY = 0x9C4E21D7B05A63F8
LONG_KEYS = st.integers(LONG, (1 << 64) - 1).filter(lambda key: int.from_bytes(key.to_bytes(8), "little") >= LONG)


@given(key=LONG_KEYS, before=st.binary(max_size=20), after=st.binary(max_size=20))
def test_every_form_is_found_among_any_bytes(key: int, before: bytes, after: bytes) -> None:
    keys = KeyForms([key])
    for form in forms(key):
        if b":" not in form:  # a file of the report holds no bytes with anything between them
            assert keys.in_bytes(before + form + after)
        assert keys.in_text((b"a " + form + b" z").decode("latin-1"))
        assert keys.in_text((b"a " + form + b" z").decode("utf-8", "surrogateescape"))


@given(key=LONG_KEYS)
def test_escaped_bytes_are_found(key: int) -> None:
    keys = KeyForms([key])
    for order in ("big", "little"):
        raw = key.to_bytes(8, order)  # type: ignore[arg-type]
        assert keys.in_text("".join(f"\\x{byte:02x}" for byte in raw))
        assert keys.in_text("".join(f"\\u00{byte:02x}" for byte in raw))
        assert keys.in_text(raw.decode("latin-1").encode("unicode_escape").decode())


@pytest.mark.parametrize("between", [" ", ":", "-", "_", ", 0x", "\n"])
def test_digits_with_something_between_them_are_found(between: str) -> None:
    text = between.join(f"{byte:02x}" for byte in KEY.to_bytes(8))
    assert KeyForms([KEY]).in_text(f"node {text} of the fabric")


def test_numbers_are_found_with_bytes_turned_and_signed() -> None:
    keys = KeyForms([KEY])
    turned = int.from_bytes(KEY.to_bytes(8), "little")
    assert all(map(keys.in_number, (KEY, turned, KEY - (1 << 64))))
    assert not keys.in_number(KEY + 1)


@given(text=st.text(max_size=60))
def test_a_text_without_a_key_is_left_alone(text: str) -> None:
    assert not KeyForms([KEY]).in_text(text)
    assert not KeyForms([]).in_text(text)


def test_a_short_key_is_found_by_its_16_digits_only() -> None:
    keys = KeyForms([1, 0x7FFF])
    assert (keys.count, keys.short) == (2, 2)
    assert keys.in_text("0x0000000000000001")
    assert not keys.in_text("1 port, LID 32767")
    assert not keys.in_number(1)
