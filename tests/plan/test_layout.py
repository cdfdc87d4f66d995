"""Where the planner puts P_Keys: what is there stays where it is; else as OpenSM."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.keys.pkey import PKey
from ibkeys.partitions import opensm_tables as opensm
from ibkeys.plan.tables.layout import PlacedTable, place

ANY = range(0x8000)


def keys(*values: int) -> dict[int, PKey]:
    return {index: PKey(value) for index, value in enumerate(values) if value}


def wanted(*values: int) -> list[PKey]:
    return [PKey(value) for value in values]


@pytest.mark.parametrize(
    ("before", "want", "after"),
    [
        # what stays, stays; holes stay holes; new keys come behind
        (keys(0xFFFF, 0x8001, 0x8002, 0x8003), (0x8002, 0x8004, 0xFFFF), {0: 0xFFFF, 2: 0x8002, 4: 0x8004}),
        # a membership changes in place
        (keys(0xFFFF, 0x8001), (0x0001, 0x7FFF), {0: 0x7FFF, 1: 0x0001}),
        # at the end of the table the gaps are taken, lowest first
        (
            keys(0xFFFF, 0, 0x8002, 0, 0, 0x8005),
            (0x8002, 6, 7, 0x8005, 0xFFFF),
            {0: 0xFFFF, 1: 6, 2: 0x8002, 3: 7, 5: 0x8005},
        ),
        # of two forms the one that is wanted stays where it is
        (keys(0xFFFF, 0x8001, 0x0001), (0x0001, 0xFFFF), {0: 0xFFFF, 2: 0x0001}),
        # both forms
        (keys(0xFFFF, 0x8001), (0x0001, 0x8001, 0xFFFF), {0: 0xFFFF, 1: 0x8001, 2: 0x0001}),
        # the same key twice stays twice
        (keys(0xFFFF, 0x8001, 0x8001), (0x8001, 0xFFFF), {0: 0xFFFF, 1: 0x8001, 2: 0x8001}),
        # but not when another needs the room
        (keys(0xFFFF, 1, 1, 1, 1, 1), (1, 2, 0xFFFF), {0: 0xFFFF, 1: 1, 2: 2}),
        # no index 0 for others, and the default P_Key comes first
        ({}, (1, 2, 3, 4, 5, 6, 7, 0xFFFF), {0: 0xFFFF, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5}),
        (keys(0x8001), (0x8001, 2, 3, 4, 5, 6, 0x7FFF), {0: 0x8001, 1: 0x7FFF, 2: 2, 3: 3, 4: 4, 5: 5}),
        # nothing at all: disconnected
        (keys(0xFFFF, 0x8001), (), {}),
    ],
)
def test_tables(before: dict[int, PKey], want: tuple[int, ...], after: dict[int, int]) -> None:
    assert place(before, wanted(*want), 6).entries == after


def test_what_does_not_fit_is_named() -> None:
    assert place({}, wanted(1, 2, 3, 0xFFFF), 3).dropped == (3,)
    assert place({}, wanted(1, 0xFFFF), 0) == PlacedTable({}, (PKey(1), PKey(0xFFFF)))


@pytest.mark.parametrize(
    ("before", "want", "pin", "misplaced"),
    [
        (keys(0x8001, 0xFFFF), (0x8001, 0xFFFF), None, 0xFFFF),
        (keys(0, 0xFFFF), (0xFFFF,), None, 0xFFFF),
        (keys(0x8001), (0x8001, 0xFFFF), None, 0xFFFF),
        (keys(0xFFFF), (0x8001, 0xFFFF), 0x8001, 0x8001),
        (keys(0xFFFF, 0x8001), (0x8001, 0xFFFF), 0x8001, 0x8001),
        (keys(0xFFFF), (0x8001, 0xFFFF), None, None),
        (keys(0x8002), (0x8001, 0xFFFF), None, None),
    ],
)
def test_index_0_is_not_taken_from_a_key_that_stays(
    before: dict[int, PKey], want: tuple[int, ...], pin: int | None, misplaced: int | None
) -> None:
    placed = place(before, wanted(*want), 8, PKey(pin) if pin else None)
    assert placed.misplaced == misplaced
    assert placed.moves == ()
    assert all(placed.entries[index] == key for index, key in before.items() if key in want)


def test_a_partition_that_may_move_makes_way() -> None:
    before = keys(0x8001, 0xFFFF, 0x8002)
    assert place(before, wanted(0x8001, 0x8002, 0xFFFF), 8, None, {1}).misplaced == 0xFFFF  # the default may not
    placed = place(before, wanted(0x8001, 0x8002, 0xFFFF), 8, None, {1, 0x7FFF})
    assert placed.entries == {0: 0xFFFF, 2: 0x8002, 3: 0x8001}
    assert set(placed.moves) == {(0xFFFF, 1, 0), (0x8001, 0, 3)}


PARTITIONS = [0x7FFF, 1, 2, 3, 4, 5, 0x0100, 0x0201]


@st.composite
def tables(draw: st.DrawFn, capacity: int, allow_both: bool = True) -> dict[int, PKey]:
    values = st.sampled_from(PARTITIONS).flatmap(lambda base: st.sampled_from([base, base | 0x8000]))
    found = draw(st.dictionaries(st.integers(0, capacity - 1), values.map(PKey), max_size=capacity))
    if allow_both:
        return found
    known: set[int] = set()
    return {i: key for i, key in found.items() if key.partition not in known and not known.add(key.partition)}  # type: ignore[func-returns-value]


@st.composite
def wishes(draw: st.DrawFn, allow_both: bool) -> tuple[list[PKey], PKey | None]:
    """P_Keys in OpenSM's order, and one of them that may be pinned."""
    found: list[PKey] = []
    for base in draw(st.lists(st.sampled_from(PARTITIONS), unique=True)):
        forms = [[base], [base | 0x8000], [base, base | 0x8000]][: 3 if allow_both else 2]
        found += wanted(*draw(st.sampled_from(forms)))
    found.sort(key=lambda key: ((key & 0xFF) << 8 | key.partition >> 8, key.is_full))
    return found, draw(st.sampled_from(found)) if found and draw(st.booleans()) else None


@given(data=st.data(), capacity=st.integers(1, 12))
def test_no_key_that_survives_changes_its_index(data: st.DataObject, capacity: int) -> None:
    before = data.draw(tables(capacity))
    want, pin = data.draw(wishes(True))
    placed = place(before, want, capacity, pin)
    for index, key in before.items():
        if key in want and list(before.values()).count(key) == 1:
            assert placed.entries[index] == key
        elif key in want:
            assert any(placed.entries.get(other) == key for other, old in before.items() if old == key)
    assert placed.moves == ()


@given(data=st.data(), capacity=st.integers(1, 12))
def test_the_table_has_what_was_wanted_and_what_it_has_no_room_for_is_named(data: st.DataObject, capacity: int) -> None:
    before = data.draw(tables(capacity))
    want, pin = data.draw(wishes(True))
    placed = place(before, want, capacity, pin, data.draw(st.sets(st.sampled_from(PARTITIONS))))
    assert set(placed.entries.values()) | set(placed.dropped) == set(want)
    assert not set(placed.entries.values()) & set(placed.dropped)
    assert all(0 <= index < capacity for index in placed.entries)
    if placed.dropped:
        assert len(placed.entries) >= capacity - 1  # index 0 is not for everybody
        if any(key.is_default for key in placed.dropped):
            new = set(placed.entries.values()) - {PKey(key ^ bit) for key in before.values() for bit in (0, 0x8000)}
            assert all(key.is_default or key == pin for key in new)


@given(data=st.data())
def test_where_everything_may_move_it_is_opensms_table(data: st.DataObject) -> None:
    before = data.draw(tables(20, allow_both=False))
    want, pin = data.draw(wishes(False))
    placed = place(before, want, 64, pin, ANY)
    reference = opensm.place(before, want, 64, pin, remembered=before)
    if not any(key.is_default for key in want):
        return  # OpenSM empties index 0 then; every port has a default P_Key unless it is disconnected
    assert placed.entries == reference.entries
    assert placed.misplaced is None


@given(data=st.data(), allow_both=st.booleans())
def test_opensm_keeps_a_planned_table(data: st.DataObject, allow_both: bool) -> None:
    """With the same policy OpenSM has nothing to write, except at index 0 where the plan moved nothing."""
    before = data.draw(tables(20, allow_both=False))
    want, pin = data.draw(wishes(allow_both))
    placed = place(before, want, 64, pin)
    if placed.misplaced is None and any(key.is_default for key in want):
        assert opensm.place(placed.entries, want, 64, pin, allow_both=allow_both).entries == placed.entries
