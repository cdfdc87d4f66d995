"""Q_Key classes (IBA 3.5.3, 10.2.5): the ranges and their borders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import EncodeError
from ibkeys.keys.qkey import IPOIB_DEFAULT_Q_KEY, classify
from ibkeys.mad.const import QP1_Q_KEY


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, "unprivileged"),
        (0x0B1B, "unprivileged"),
        (0x7FFFFFFF, "unprivileged"),
        (0x80000000, "general use"),
        (0x8000FFFF, "general use"),
        (0x80010000, "management"),
        (0x80010001, "reserved"),
        (0x8FFFFFFF, "reserved"),
        (0x90000000, "privileged"),
        (0xFFFFFFFF, "privileged"),
    ],
)
def test_borders_of_the_classes(value: int, kind: str) -> None:
    assert classify(value).kind == kind


@given(value=st.integers(0, 2**32 - 1))
def test_every_value_has_one_class_and_bit_31_makes_it_privileged(value: int) -> None:
    meaning = classify(value)
    assert meaning.privileged == (value >= 2**31)
    assert meaning.text


@pytest.mark.parametrize("value", [-1, 2**32])
def test_more_than_32_bits_is_refused(value: int) -> None:
    with pytest.raises(EncodeError, match="32 bits"):
        classify(value)


def test_well_known_values_are_named() -> None:
    assert "QP1" in classify(QP1_Q_KEY).text
    assert "IPoIB" in classify(IPOIB_DEFAULT_Q_KEY).text
