"""The places of fields in a MAD, against the bytes that the standard gives (IBA 13.4.3, 13.6.2.1, 14.2.1.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.mad import offsets
from ibkeys.mad.smp import DirectedRouteSmp

PLACES = {
    "BASE_VERSION": 0,
    "MGMT_CLASS": 1,
    "CLASS_VERSION": 2,
    "METHOD": 3,
    "STATUS": slice(4, 6),
    "HOP_POINTER": 6,
    "HOP_COUNT": 7,
    "TRANSACTION_ID": slice(8, 16),
    "AGENT": slice(8, 12),
    "LOWER_TID": slice(12, 16),
    "ATTRIBUTE_ID": slice(16, 18),
    "ATTRIBUTE_MODIFIER": slice(20, 24),
    "M_KEY": slice(24, 32),
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


@given(st.binary(min_size=256, max_size=256))
def test_a_reader_reads_what_a_view_reads(raw: bytes) -> None:
    rows = "method", "hop_count", "transaction_id", "attribute_id", "attribute_modifier", "dr_dlid"
    read = offsets.reader(*(DirectedRouteSmp.rows[row] for row in rows))
    smp = DirectedRouteSmp(raw)
    assert read.unpack_from(raw) == tuple(getattr(smp, row) for row in rows)


def test_a_reader_gives_the_whole_byte_of_a_bit_and_what_comes_before_the_mad() -> None:
    read = offsets.reader(DirectedRouteSmp.d, DirectedRouteSmp.hop_pointer, before="2s2x")
    assert read.unpack_from(b"ab\0\0" + bytes(range(256))) == (b"ab", 4, 6)
