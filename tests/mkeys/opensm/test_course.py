"""The steps from one M_Key, level and lease to another: what OpenSM and each port can follow without losing a port."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ibkeys.errors import StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey, check_m_key
from ibkeys.mad.const import AttributeID, Method
from ibkeys.mkeys.opensm.course import KeyStep, RunKeys, describe_step, plan_steps
from ibkeys.mkeys.opensm.key_proof import key_for_gets

A, B = MKey(0xA94F13D02E7C5B68), MKey(0x17C4E5906F2BD38A)
settings = st.builds(KeySetting, st.sampled_from((NO_MKEY, A, B)), st.integers(0, 3), st.sampled_from((0, 15, 60)))
CLOSED = KeySetting(A, 2, 60)


def wanted_of(setting: KeySetting) -> KeySetting:
    """What a run can want: without a key there is no level and no lease."""
    return KeySetting(NO_MKEY, 0, 0) if setting.key.is_zero else setting


def way(now: KeySetting, wanted: KeySetting, open_while_rotating: bool = False) -> list[KeySetting]:
    """What all ports have before the first step, and after each."""
    keys = RunKeys(now, wanted)
    return [now, *(keys.setting(step) for step in plan_steps(now, wanted, open_while_rotating))]


def level(setting: KeySetting) -> int:
    """The level that a port with this is at: without a key it is open."""
    return 0 if setting.key.is_zero else setting.protect


@given(settings, settings.map(wanted_of), st.booleans())
def test_it_ends_where_it_shall_and_each_step_changes_something(
    now: KeySetting, wanted: KeySetting, open_while_rotating: bool
) -> None:
    """One that starts the standbys anew need not: they learn the key that the ports have."""
    states, steps = way(now, wanted, open_while_rotating), plan_steps(now, wanted, open_while_rotating)
    assert states[-1] == wanted
    for step, (one, other) in zip(steps, pairwise(states), strict=True):
        assert one != other or step.standbys


@given(settings, settings.map(wanted_of), st.booleans())
def test_the_key_changes_only_at_level_0_or_1_and_only_once(
    now: KeySetting, wanted: KeySetting, open_while_rotating: bool
) -> None:
    changes = [(one, other) for one, other in pairwise(way(now, wanted, open_while_rotating)) if one.key != other.key]
    assert len(changes) == (now.key != wanted.key)
    highest = 0 if open_while_rotating else 1
    for one, other in changes:
        assert max(level(one), level(other)) <= highest
        if one.key.is_zero or other.key.is_zero:
            assert level(one) == level(other) == 0


@given(settings, settings.map(wanted_of), st.booleans())
def test_the_lease_runs_before_level_2(now: KeySetting, wanted: KeySetting, open_while_rotating: bool) -> None:
    for one, other in pairwise(way(now, wanted, open_while_rotating)):
        if level(one) < 2 <= level(other):
            assert other.lease == one.lease == wanted.lease


@given(settings, settings.map(wanted_of), st.booleans())
def test_standbys_start_when_the_key_is_new_and_the_level_low(
    now: KeySetting, wanted: KeySetting, open_while_rotating: bool
) -> None:
    assume(not wanted.key.is_zero)
    for step in plan_steps(now, wanted, open_while_rotating):
        assert step.standbys == (step.kind == "key")
        assert step.protect <= 1 or not step.standbys


@given(settings, settings.map(wanted_of), st.booleans())
def test_while_a_step_is_made_no_port_refuses_the_key_that_it_is_asked_with(
    now: KeySetting, wanted: KeySetting, open_while_rotating: bool
) -> None:
    for before, after in pairwise(way(now, wanted, open_while_rotating)):
        if before.key.is_zero and before.protect:
            continue  # it is open, and nobody's own doing
        key = key_for_gets(after, before).reveal()
        for has in (before, after):
            verdict = check_m_key(Method.GET, AttributeID.PORT_INFO, has.protect, has.key.reveal(), key)
            assert verdict.accepted
            assert not verdict.count_violation
            assert has != after or verdict.m_key_shown == after.key.reveal()


def test_a_rotation_goes_down_to_level_1_and_up_again() -> None:
    steps = plan_steps(CLOSED, KeySetting(B, 2, 60))
    assert [describe_step(step) for step in steps] == ["level 1", "the new M_Key at level 1", "level 2"]
    assert describe_step(steps[1], goes_back=True) == "the former M_Key at level 1"


def test_the_first_key_comes_at_level_0_and_the_last_one_goes_there() -> None:
    none = KeySetting(NO_MKEY, 0, 0)
    up = [describe_step(step) for step in plan_steps(none, CLOSED)]
    assert up == ["the new M_Key at level 0", "level 1", "lease 60 s at level 1", "level 2"]
    assert [describe_step(step) for step in plan_steps(CLOSED, none)] == ["level 0", "M_Key 0 on every port"]


@given(settings, settings.map(wanted_of), st.booleans())
def test_a_step_is_read_as_it_was_kept(now: KeySetting, wanted: KeySetting, open_while_rotating: bool) -> None:
    for step in plan_steps(now, wanted, open_while_rotating):
        assert KeyStep.of_json(step.to_json()) == step


@pytest.mark.parametrize("wrong", [{"kind": "policy"}, {"key": "other"}, {"protect": 4}, {"lease": None}])
def test_what_is_no_step_is_a_damaged_store(wrong: dict[str, object]) -> None:
    [step] = plan_steps(CLOSED, KeySetting(A, 1, 60))
    with pytest.raises(StoreError, match="damaged"):
        KeyStep.of_json({**step.to_json(), **wrong})


levels, leases = st.integers(0, 3), st.sampled_from((0, 60))
of_a = st.one_of(st.just(KeySetting(NO_MKEY, 0, 0)), st.builds(KeySetting, st.just(A), levels, leases))
of_a_or_b = st.builds(KeySetting, st.sampled_from((A, B)), levels, leases)


@given(of_a, of_a_or_b)
def test_standbys_are_started_with_the_new_key_before_a_port_hides_it_or_asks_for_it(
    now: KeySetting, wanted: KeySetting
) -> None:
    steps = plan_steps(now, wanted)
    on_the_way = way(now, wanted)
    if now.key != wanted.key or now.protect == 0 < wanted.protect:
        [number] = [number for number, step in enumerate(steps) if step.standbys]
        assert on_the_way[number + 1].key == wanted.key
        assert all(step.protect <= min(now.protect, 1) for step in steps[: number + 1])
    else:
        assert not any(step.standbys for step in steps)
