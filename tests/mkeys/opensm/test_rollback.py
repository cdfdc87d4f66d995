"""A run that turns back, wherever it was stopped."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibkeys.errors import Refused
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey, check_m_key
from ibkeys.mad.const import AttributeID, Method
from ibkeys.mkeys.opensm.course import RunKeys, plan_steps
from ibkeys.mkeys.opensm.key_proof import key_for_gets
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.mkeys.opensm.rollback import plan_rollback, refuse_mixed_keys

A, B = MKey(0xA94F13D02E7C5B68), MKey(0x17C4E5906F2BD38A)
NONE, CLOSED, OTHER = KeySetting(NO_MKEY, 0, 0), KeySetting(A, 2, 60), KeySetting(B, 2, 60)
RUNS = ((NONE, CLOSED), (CLOSED, OTHER), (CLOSED, NONE), (KeySetting(A, 1, 0), KeySetting(A, 2, 60)))


@st.composite
def stopped(draw: st.DrawFn) -> tuple[RunRecord, KeySetting, KeySetting]:
    """A run that stopped in a step: its record, what all ports had before the step, and what they have after it."""
    former, wanted = draw(st.sampled_from(RUNS))
    keys, steps = RunKeys(former, wanted), plan_steps(former, wanted, draw(st.booleans()))
    at = draw(st.integers(0, len(steps) - 1))
    return RunRecord(keys, steps, [], at, has_written=True), keys.before(steps, at), keys.setting(steps[at])


LOWERED = plan_steps(CLOSED, OTHER, True)
"""The first step lets the level fall to 0: while it is made some ports are at 2 yet, and the key stays."""


@example(
    (RunRecord(RunKeys(CLOSED, OTHER), LOWERED, [], 0, has_written=True), CLOSED, KeySetting(A, 0, 60)),
    "between",
    False,
    (),
)
@given(stopped(), st.sampled_from(("before", "after", "between")), st.booleans(), st.sampled_from(((), (OTHER,))))
def test_it_ends_at_the_former_setting_and_no_port_refuses_what_it_is_asked(
    case: tuple[RunRecord, KeySetting, KeySetting], where: str, is_told: bool, of_standbys: tuple[KeySetting, ...]
) -> None:
    record, before, after = case
    former = record.keys.former
    settings = {"before": {before}, "after": {after}, "between": {before, after}}[where]
    said = after if is_told or where != "before" else before
    if len({each.key for each in settings}) > 1:
        with pytest.raises(Refused, match="can only be finished"):
            refuse_mixed_keys(record, settings)
        return
    refuse_mixed_keys(record, settings)
    plan_rollback(record, settings, said, of_standbys)
    assert record.goes_back
    assert record.at == 0
    states = [record.keys.former, *(record.keys.setting(step) for step in record.steps)]
    assert states[-1] == former
    on_ports = {*settings, said} if said.key == record.keys.former.key else settings
    for one, other in pairwise(states):
        key = key_for_gets(other, one).reveal()
        for has in {*on_ports, other}:
            verdict = check_m_key(Method.GET, AttributeID.PORT_INFO, has.protect, has.key.reveal(), key)
            assert not verdict.count_violation
        on_ports = {other}


def test_a_standby_with_another_key_than_the_ports_have_again_is_started_anew() -> None:
    """Somebody's OpenSM has set the former key since: to go back nothing is left but that."""
    record = RunRecord(RunKeys(CLOSED, OTHER), plan_steps(CLOSED, OTHER), [], 1, has_written=True)
    plan_rollback(record, [CLOSED], CLOSED, [OTHER])
    [step] = record.steps
    assert (record.keys.setting(step), step.standbys) == (CLOSED, True)


@given(stopped(), st.sampled_from(("former", "one has the new key", "as it was left")), st.integers(0, 3))
def test_a_run_whose_former_key_somebody_set_again_changes_it_in_the_step_for_it(
    case: tuple[RunRecord, KeySetting, KeySetting], what: str, level: int
) -> None:
    record, before, _ = case
    at, former, wanted = record.at, record.keys.former, record.keys.wanted
    again = replace(former, protect=0 if former.key.is_zero else level)
    settings = {"former": {again}, "one has the new key": {again, wanted}, "as it was left": {before}}[what]
    record.rewind(settings)
    begins = record.keys.before(record.steps, record.at)
    if former.key == wanted.key or what != "former":
        assert record.at == at
        return
    assert record.at <= at
    assert begins.key == former.key
    assert record.at == 0 or begins.protect >= again.protect
    later = [record.keys.before(record.steps, number) for number in range(record.at + 1, at + 1)]
    assert all(each.key != former.key or each.protect < again.protect for each in later), "no step is made for nothing"


def test_a_run_that_is_done_waits_for_ports_that_were_away() -> None:
    steps = plan_steps(CLOSED, OTHER)
    record = RunRecord(RunKeys(CLOSED, OTHER), steps, [], len(steps), has_written=True)
    record.rewind({CLOSED})
    assert record.at == len(steps)


@given(stopped())
def test_one_that_goes_back_already_goes_on_there(case: tuple[RunRecord, KeySetting, KeySetting]) -> None:
    record, before, _ = case
    plan_rollback(record, [before], before)
    kept = (record.keys, record.steps, record.at)
    refuse_mixed_keys(record, [CLOSED, OTHER])
    plan_rollback(record, [OTHER], OTHER)
    assert (record.keys, record.steps, record.at) == kept
