"""In which steps a fabric gets from one M_Key, level and lease to another: no step may be one that loses a port."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mkeys.opensm.course import Keys, KeyStep, course

A, B = MKey(0xA94F13D02E7C5B68), MKey(0x1D5E83B7469C20FA)
LEVELS, LEASES = st.integers(0, 3), st.sampled_from([0, 60])
OPEN = st.just(KeySetting(NO_MKEY, 0, 0))
WITH_A, WITH_B = (st.builds(KeySetting, st.just(key), LEVELS, LEASES) for key in (A, B))


def settings(now: KeySetting, wanted: KeySetting, steps: list[KeyStep]) -> list[KeySetting]:
    """Return what all ports have before the first step and after each."""
    keys = Keys(now, wanted)
    return [now, *map(keys.setting, steps)]


@given(st.one_of(OPEN, WITH_A), st.one_of(OPEN, WITH_A, WITH_B), st.booleans())
def test_it_arrives_and_no_step_is_one_from_which_a_crash_would_not_heal(
    now: KeySetting, wanted: KeySetting, is_open: bool
) -> None:
    steps = course(now, wanted, is_open)
    on_the_way = settings(now, wanted, steps)
    assert on_the_way[-1] == wanted
    for before, after in pairwise(on_the_way):
        if before.key != after.key:
            assert before.protect == after.protect <= 1
            assert before.protect == 0 or not (before.key.is_zero or after.key.is_zero or is_open)
        if before.protect < 2 <= after.protect:
            assert before.lease == after.lease
            assert before.protect == 1


@given(st.one_of(OPEN, WITH_A), st.one_of(WITH_A, WITH_B))
def test_standbys_are_started_with_the_new_key_before_a_port_hides_it_or_asks_for_it(
    now: KeySetting, wanted: KeySetting
) -> None:
    steps = course(now, wanted)
    on_the_way = settings(now, wanted, steps)
    if now.key != wanted.key or now.protect == 0 < wanted.protect:
        [number] = [number for number, step in enumerate(steps) if step.standbys]
        assert on_the_way[number + 1].key == wanted.key
        assert all(step.protect <= min(now.protect, 1) for step in steps[: number + 1])
    else:
        assert not any(step.standbys for step in steps)
