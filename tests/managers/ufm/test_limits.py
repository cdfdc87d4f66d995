"""Memberships as UFM calls them, and tables that are too small for one partition at a time."""

from __future__ import annotations

import pytest

from ibkeys.keys.pkey import PKey
from ibkeys.managers.ufm.answers import membership_of
from ibkeys.managers.ufm.limits import find_full_tables


@pytest.mark.parametrize(
    ("keys", "word"),
    [([], None), ([0x8011], None), ([0x0010], "limited"), ([0x8010], "full"), ([0x0010, 0x8010, 0x8011], "full")],
)
def test_the_membership_of_a_table_in_a_partition(keys: list[int], word: str | None) -> None:
    assert membership_of(map(PKey, keys), 0x10) == word


def test_what_comes_stands_beside_what_goes() -> None:
    a, b, c = (PKey(0x8000 | number) for number in (1, 2, 3))
    before = {1: [a, b], 2: [a], 3: [a, b, c], 4: [a]}
    after = {1: [a, b, c], 2: [a, b], 3: [a, b, c], 4: [a, b, c]}
    rooms = {1: 2, 2: 2, 3: 2}
    assert find_full_tables(before, after, rooms) == [1], (
        "3 has too much already and gets nothing, of 4 nothing is known"
    )
