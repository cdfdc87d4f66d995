"""SM_Keys are secrets of their own kind."""

from __future__ import annotations

import pickle

import pytest

from ibkeys.errors import EncodeError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import NO_SM_KEY, SMKey

KEY = SMKey(0xFEED_FACE_0000_0001)


def test_it_never_shows_itself() -> None:
    for text in (str(KEY), repr(KEY), f"{KEY}", f"{KEY:>30}", repr([KEY])):
        assert "<SM_Key not shown>" in text
        assert "feed" not in text.lower()
    with pytest.raises(TypeError):
        pickle.dumps(KEY)


def test_it_is_no_m_key() -> None:
    assert SMKey(0xFEED_FACE_0000_0001) == KEY
    assert MKey(0xFEED_FACE_0000_0001) != KEY
    assert len({KEY, MKey(KEY.reveal()), SMKey(KEY.reveal())}) == 2
    assert NO_SM_KEY.is_zero


def test_a_bad_one_is_refused_without_showing_it() -> None:
    with pytest.raises(EncodeError, match="SM_Key does not fit 64 bits"):
        SMKey.parse("0x1feedface00000001")
