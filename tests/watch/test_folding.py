"""Folding: what is new comes at once, repeats as a count, and memory has a bound whatever comes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ibkeys.watch.event import Event, EventEnd
from ibkeys.watch.folding import FORGOTTEN_AFTER, MOST_FOLDED, MOST_OF_A_PAIR, OTHER_KEYS, OTHERS, Folder

AGAIN = 60.0


def time(seconds: float) -> str:
    return f"2026-11-22T09:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}Z"


def event(sender: int = 2, p_key: int = 0x8123, at: float = 0) -> Event:
    ends = [EventEnd(guid, guid + 1, f"node{guid}", "ca", 1, guid) for guid in (3, sender)]
    return Event(time(at), "report", "bad-p_key", 257, ends[0], ends[1], ends[0], p_key=p_key)


def test_the_first_comes_at_once_and_its_repeats_as_a_count() -> None:
    folder = Folder(AGAIN)
    assert folder.take(event(), 0.0) == event()
    for second in range(1, 31):
        assert folder.take(event(at=second), float(second)) is None
    assert folder.due(59.0) == []
    (count,) = folder.due(60.0)
    assert (count.count, count.since, count.time) == (31, time(0), time(30))
    assert folder.due(61.0) == []
    assert folder.take(event(at=70), 70.0) is None
    assert folder.due(119.0) == []
    (count,) = folder.due(120.0)
    assert (count.count, count.since, count.time) == (32, time(0), time(70))


def test_another_key_or_another_port_is_another_thing() -> None:
    folder = Folder(AGAIN)
    assert [folder.take(each, 0.0) is None for each in (event(), event(5), event(p_key=0x8001), event())] == [
        *(False, False, False, True),
    ]


def test_a_port_that_got_another_lid_or_name_is_the_same() -> None:
    folder = Folder(AGAIN)
    folder.take(event(), 0.0)
    moved = event()
    assert moved.sender is not None
    assert folder.take(replace(moved, sender=replace(moved.sender, lid=99, node_desc="renamed")), 1.0) is None


def test_what_was_long_ago_is_new_again() -> None:
    folder = Folder(AGAIN)
    folder.take(event(), 0.0)
    assert folder.due(FORGOTTEN_AFTER) == []
    assert len(folder) == 0
    assert folder.take(event(), FORGOTTEN_AFTER + 1) == event()


def test_at_the_end_all_counts_are_told() -> None:
    folder = Folder(AGAIN)
    for _ in range(3):
        folder.take(event(), 0.0)
    (count,) = folder.due(1.0, all_of_it=True)
    assert count.count == 3
    assert folder.due(2.0, all_of_it=True) == []


def test_a_search_for_keys_between_two_ports_is_told_as_one() -> None:
    folder = Folder(AGAIN)
    told = [one for key in range(10_000) if (one := folder.take(event(p_key=key), 0.0)) is not None]
    assert len(told) == MOST_OF_A_PAIR + 1
    assert (told[-1].p_key, told[-1].detail) == (None, OTHER_KEYS)
    (count,) = folder.due(AGAIN)
    assert count.count == 10_000 - MOST_OF_A_PAIR
    assert len(folder) == MOST_OF_A_PAIR + 1


def test_more_kinds_than_are_told_apart_fall_together() -> None:
    folder = Folder(AGAIN)
    told = [one for guid in range(50_000) if (one := folder.take(event(guid), 0.0)) is not None]
    assert len(told) == MOST_FOLDED + 1
    assert (told[-1].at, told[-1].detail) == (EventEnd(), OTHERS)
    assert len(folder) == MOST_FOLDED + 1
    (count,) = folder.due(AGAIN)
    assert count.count == 50_000 - MOST_FOLDED


def test_when_it_is_quiet_the_oldest_makes_room() -> None:
    folder = Folder(AGAIN)
    for guid in range(MOST_FOLDED):
        folder.take(event(guid), 0.0)
    new = folder.take(event(MOST_FOLDED + 1), AGAIN)
    assert new is not None
    assert new.at != EventEnd()
    assert len(folder) == MOST_FOLDED


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 30), st.sampled_from([0.0, 1.0, 30.0, 61.0, FORGOTTEN_AFTER])),
        max_size=200,
    )
)
def test_nothing_is_lost_and_nothing_counted_twice(steps: list[tuple[int, int, float]]) -> None:
    folder = Folder(AGAIN)
    now = 0.0
    counts: dict[tuple[object, ...], int] = {}
    for sender, key, pause in steps:
        now += pause
        for one in [folder.take(event(sender, key, now % 3600), now), *folder.due(now)]:
            if one is not None:
                counts[one.sender, one.p_key, one.since or one.time, one.detail] = one.count
    for one in folder.due(now, all_of_it=True):
        counts[one.sender, one.p_key, one.since, one.detail] = one.count
    assert sum(counts.values()) <= len(steps)
    if all(pause < 61 for _, _, pause in steps):
        assert sum(counts.values()) == len(steps)
