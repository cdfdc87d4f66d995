"""Courses: which step comes next, whatever the steps before it came to."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ibkeys.change.course import Course, EndedStep
from ibkeys.errors import Incomplete
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mkeys.opensm.course import RunKeys, plan_steps
from ibkeys.mkeys.opensm.key_proof import PortReadings
from ibkeys.mkeys.opensm.record import Part, RunRecord
from ibkeys.mkeys.opensm.standbys import Standby

A, B = MKey(0xA94F13D02E7C5B68), MKey(0x17C4E5906F2BD38A)
SETTINGS = st.builds(KeySetting, st.sampled_from((NO_MKEY, A, B)), st.integers(0, 3), st.sampled_from((0, 60)))
STANDBYS = [Standby(f"sm{guid}", guid, "", "opensm", Path("/conf"), Path("/cache"), 0) for guid in (1, 2, 3)]
FORTH, BACK = ("one", "two", "three", "four"), ("back", "further back")

outcomes = st.lists(st.sampled_from(("proven", "not proven", "error")), min_size=6, max_size=6)
courses = st.builds(
    lambda forth, back: Course(FORTH[:forth], lambda failed: [f"{failed.step}: {each}" for each in BACK[:back]]),
    st.integers(0, len(FORTH)),
    st.integers(0, len(BACK)),
)


def ended_as(step: str, outcome: str) -> EndedStep[str]:
    return EndedStep(step, outcome == "proven", error=Incomplete("stopped") if outcome == "error" else None)


def followed(course: Course[str], outcomes: Sequence[str]) -> list[EndedStep[str]]:
    """Follow a course whose steps end as *outcomes* say."""
    ended: list[EndedStep[str]] = []
    while (step := course.next(ended)) is not None:
        ended.append(ended_as(step, outcomes[len(ended)]))
    return ended


@given(courses, outcomes)
def test_a_course_ends_whatever_its_steps_come_to(course: Course[str], outcomes: list[str]) -> None:
    fails = next((at for at, outcome in enumerate(outcomes[: len(course.forward_steps)]) if outcome != "proven"), None)
    wanted = [*course.forward_steps]
    if fails is not None:
        wanted[fails + 1 :] = course.rollback_steps(ended_as(wanted[fails], outcomes[fails]))
    assert [each.step for each in followed(course, outcomes)] == [*wanted]


@given(courses, outcomes)
def test_which_step_comes_next_depends_only_on_what_is_given(course: Course[str], outcomes: list[str]) -> None:
    ended = followed(course, outcomes)
    for number in range(len(ended) + 1):
        prefix = tuple(ended[:number])
        wanted = ended[number].step if number < len(ended) else None
        assert course.next(prefix) == course.next(prefix) == wanted
        assert Course([*course.forward_steps], course.rollback_steps).next(deepcopy(prefix)) == wanted


@st.composite
def records(draw: st.DrawFn) -> RunRecord:
    now, wanted = draw(SETTINGS), draw(SETTINGS)
    record = RunRecord(RunKeys(now, wanted), plan_steps(now, wanted, draw(st.booleans())), [])
    record.at = draw(st.integers(0, len(record.steps)))
    record.stopped = STANDBYS[: draw(st.integers(0, 2))]
    return record


@given(records(), st.integers(0, 1))
def test_a_run_through_opensm_changes_the_key_while_every_standby_stands_still(record: RunRecord, apart: int) -> None:
    """Each step is made once; each standby that is stopped is started again, and stopped before in case it runs."""
    before = replace(record, steps=[*record.steps], stopped=[*record.stopped])
    running = STANDBYS[len(record.stopped) + apart :]
    parts = record.course(running).forward_steps
    assert record == before
    assert parts == record.course(running).forward_steps
    assert [part.number for part in parts if part.what == "set"] == list(range(record.at, len(record.steps)))
    runs = {each.guid for each in running}
    for part, former in zip(parts, [None, *parts], strict=False):
        if part.standby is None:
            assert record.steps[part.number].kind != "key" or record.steps[part.number].key == "none" or not runs
        elif part.what == "stop":
            runs.discard(part.standby.guid)
        else:
            assert former is not None
            assert (former.what, former.standby) == ("stop", part.standby)
            runs.add(part.standby.guid)
    if record.at < len(record.steps):
        assert runs == {each.guid for each in [*record.stopped, *running]}


@given(records())
def test_up_to_a_step_no_standby_is_started_at_the_end(record: RunRecord) -> None:
    for until in range(record.at, len(record.steps)):
        parts = record.course(STANDBYS[2:], until).forward_steps
        assert [part.number for part in parts if part.what == "set"] == list(range(record.at, until))
        starts = {part.number for part in parts if part.what == "start"}
        assert all(record.steps[number].standbys for number in starts)


@given(records(), st.integers(0, 3), st.integers(0, 3))
def test_what_no_port_takes_is_restored_in_the_files_but_a_lowered_level_stays(
    record: RunRecord, wrong: int, right: int
) -> None:
    """Some ports may take it later: then the new values are the ones that they have to find in the files."""
    seen = PortReadings(dict.fromkeys(range(wrong), "wrong"), infos=dict.fromkeys(range(wrong + right), PortInfo()))
    for part in (each for each in record.course([]).forward_steps if each.what == "set"):
        step, before = record.steps[part.number], record.keys.before(record.steps, part.number)
        changes = before != record.keys.setting(step)
        back = [Part(part.number, "restore")] if wrong and not right and changes else []
        course = record.course([])
        assert course.rollback_steps(EndedStep(part, False, seen)) == back
        assert not course.rollback_steps(EndedStep(part, False, error=Incomplete("stopped")))
        record.steps[part.number] = replace(step, kind="lowered")
        assert not course.rollback_steps(EndedStep(part, False, seen))
        record.steps[part.number] = step
