"""Whether a file was read since it changed: every answer that times can give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.host.file_access import FileFact, stat_file
from ibkeys.managers.reading import CHANGED, WORDS, judge, judge_absent

FACT = stat_file(Path("/"))


def written(at: float | None, changed: float | None = None) -> FileFact:
    return replace(FACT, written=at, changed=changed if changed is not None else at)


@pytest.mark.parametrize(
    ("fact", "started", "last_sweep", "reading"),
    [
        (None, 100.0, None, "absent"),
        (written(90.0), 100.0, None, "as-at-start"),
        (written(90.0), 100.0, 110.0, "as-at-start"),
        (written(90.0, 120.0), 100.0, None, "changed"),  # another file was renamed over it
        (written(90.0, 120.0), 100.0, 110.0, "not-read"),
        (written(120.0), 100.0, 130.0, "may-have-been-read"),
        (written(120.0), 100.0, 110.0, "not-read"),
        (written(100.0), 100.0, None, "unknown"),
        (written(100.05), 100.0, 110.0, "unknown"),
        (written(120.0), None, 130.0, "unknown"),
        (written(None), 100.0, None, "unknown"),
    ],
)
def test_each_answer(fact: FileFact | None, started: float | None, last_sweep: float | None, reading: str) -> None:
    assert judge(fact, started, 0.01, last_sweep) == reading
    assert reading in WORDS


def test_a_file_that_is_not_there_was_not_there_at_the_start_if_its_directory_did_not_change_since() -> None:
    assert judge_absent(written(90.0), 100.0, 0.01) == "absent-since-start"
    assert judge_absent(written(110.0), 100.0, 0.01) == "absent"
    assert judge_absent(None, 100.0, 0.01) == "absent"
    assert judge_absent(written(90.0), None, 0.01) == "absent"


TIMES = st.floats(0, 1000)


@given(TIMES, TIMES, st.none() | TIMES, st.floats(0, 5))
def test_only_a_file_older_than_the_process_is_said_to_be_as_it_was_read(
    changed: float, started: float, last_sweep: float | None, start_precision: float
) -> None:
    found = judge(written(changed), started, start_precision, last_sweep)
    assert found in CHANGED or changed < started
    assert found != "not-read" or changed > (last_sweep or 0)


def test_a_directory_whose_time_was_set_back_tells_nothing() -> None:
    assert judge_absent(replace(written(90.0), written=90.0, changed=110.0), 100.0, 0.01) == "absent"
