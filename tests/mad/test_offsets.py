"""The places of fields in a MAD, against the bytes that the standard gives (IBA 13.4.3, 13.6.2.1, 14.2.1.2)."""

from __future__ import annotations

import pytest

from ibkeys.mad import offsets

PLACES = {
    "BASE_VERSION": 0,
    "MGMT_CLASS": 1,
    "CLASS_VERSION": 2,
    "METHOD": 3,
    "STATUS": slice(4, 6),
    "D": 4,
    "HOP_POINTER": 6,
    "HOP_COUNT": 7,
    "TRANSACTION_ID": slice(8, 16),
    "AGENT": slice(8, 12),
    "TID": slice(12, 16),
    "ATTRIBUTE_ID": slice(16, 18),
    "ATTRIBUTE_MODIFIER": slice(20, 24),
    "ASKED": slice(16, 24),
    "M_KEY": slice(24, 32),
    "DR_SLID": slice(32, 34),
    "DR_DLID": slice(34, 36),
    "DATA": slice(64, 128),
    "INITIAL_PATH": slice(128, 192),
    "RETURN_PATH": slice(192, 256),
    "RMPP_FLAGS": 26,
}


@pytest.mark.parametrize(("name", "place"), PLACES.items())
def test_a_place_is_that_of_the_standard(name: str, place: int | slice) -> None:
    assert getattr(offsets, name) == place


def test_every_place_is_listed_here() -> None:
    named = {name for name, value in vars(offsets).items() if name.isupper() and isinstance(value, int | slice)}
    assert named - {"RESPONSE"} == PLACES.keys()
