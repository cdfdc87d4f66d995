"""Which operation `ibkeys resume` and `ibkeys undo` mean, by what the journal and the key store have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ibkeys.change.open_operations import Target, to_end, to_resume, to_undo
from ibkeys.errors import IbkeysError, StoreError, UsageError
from ibkeys.store.journal import Journal, OperationState
from ibkeys.store.keys.runs import Run, RunOperation, RunOptions, RunState

Found = tuple[int | None, bool, str]
Begin = Callable[[Journal], None]
ELSEWHERE = "f" * 32


def interrupted(command: str, plan: str | None = None, state: OperationState = "open") -> Begin:
    def begin(journal: Journal) -> None:
        if plan is not None:
            journal.begin(command, plan, "{}")
        else:
            journal.operation(command).put_on_disk()
        if state != "open":
            journal.set_state(len(journal.list_operations()), state)

    return begin


def undo_of(operation: int, state: OperationState = "open") -> Begin:
    def begin(journal: Journal) -> None:
        undo = journal.undo_of(operation)
        assert undo.id is not None
        journal.set_state(undo.id, state)

    return begin


def waits(operation: int) -> Begin:
    def begin(journal: Journal) -> None:
        journal.set_state(operation, "done")
        journal.set_stage(operation, "unconfirmed")

    return begin


def run(journal: Journal, operation: int | None, state: RunState = "open", identity: str = "") -> Run:
    of = None if operation is None else RunOperation(identity or journal.identity(), operation)
    return Run(1, "mkey-rotate", state, RunOptions(), "2026-01-01T00:00:00Z", None, None, of)


APPLY, KEYS = interrupted("apply", "plan"), interrupted("mkey-rotate")
PKEY_SET, DONE_APPLY = interrupted("pkey-set"), interrupted("apply", "plan", "done")
HARDEN, DONE_HARDEN = interrupted("harden"), interrupted("harden", state="done")
SM_KEYS, FAILED_SM_KEYS = interrupted("smkey-rotate"), interrupted("smkey-rotate", state="failed")
FAILED_KEYS, DONE_KEYS = interrupted("mkey-rotate", state="failed"), interrupted("mkey-rotate", state="done")


def outcome(find: Callable[..., Target], *given: object) -> Found | type[IbkeysError]:
    try:
        target = find(*given)
    except IbkeysError as error:
        return type(error)
    return target.id, target.goes_back, target.kind


@pytest.mark.parametrize(
    ("begun", "on", "back"),
    [
        ([], StoreError, StoreError),
        ([APPLY], (1, False, "partitions"), (1, True, "partitions")),
        ([DONE_APPLY], StoreError, UsageError),
        ([APPLY, undo_of(1)], (1, True, "partitions"), (1, True, "partitions")),
        ([DONE_APPLY, undo_of(1, "done"), undo_of(2)], (2, True, "partitions"), (2, True, "partitions")),
        ([DONE_APPLY, undo_of(1, "done")], StoreError, StoreError),
        ([APPLY, waits(1)], StoreError, (1, True, "partitions")),
        ([PKEY_SET], (1, False, "other"), (1, True, "other")),
        ([PKEY_SET, undo_of(1)], (1, True, "other"), (1, True, "other")),
        ([KEYS], (1, False, "keys"), (1, True, "keys")),
        ([KEYS, undo_of(1)], (1, True, "keys"), (1, True, "keys")),
        ([FAILED_KEYS], (1, False, "keys"), (1, True, "keys")),
        ([DONE_KEYS], StoreError, UsageError),
        ([DONE_APPLY, KEYS], (2, False, "keys"), (2, True, "keys")),
        ([KEYS, DONE_APPLY], (1, False, "keys"), (1, True, "keys")),
        ([DONE_KEYS, DONE_APPLY], StoreError, UsageError),
        ([DONE_APPLY, DONE_KEYS], StoreError, UsageError),
        ([APPLY, KEYS], UsageError, UsageError),
        ([SM_KEYS], (1, False, "sm-keys"), (1, True, "sm-keys")),
        ([DONE_APPLY, SM_KEYS], (2, False, "sm-keys"), (2, True, "sm-keys")),
        ([KEYS, SM_KEYS], UsageError, UsageError),
        ([FAILED_SM_KEYS], (1, False, "sm-keys"), (1, True, "sm-keys")),
        ([HARDEN], (1, False, "enforcement"), (1, True, "enforcement")),
        ([HARDEN, undo_of(1)], (1, True, "enforcement"), (1, True, "enforcement")),
        ([DONE_HARDEN, undo_of(1)], (1, True, "enforcement"), (1, True, "enforcement")),
        ([DONE_HARDEN], StoreError, UsageError),
        ([DONE_HARDEN, undo_of(1, "done")], StoreError, StoreError),
        ([interrupted("smkey-rotate", state="done")], StoreError, StoreError),
        ([DONE_APPLY, APPLY], (2, False, "partitions"), (2, True, "partitions")),
        ([APPLY, DONE_APPLY], (1, False, "partitions"), (1, True, "partitions")),
        ([interrupted("harden --abort")], (1, False, "enforcement"), (1, True, "enforcement")),
    ],
)
def test_the_only_open_operation_is_meant(
    begun: list[Begin], on: Found | type[IbkeysError], back: Found | type[IbkeysError]
) -> None:
    journal = Journal(None)
    for begin in begun:
        begin(journal)
    of_keys = [each.id for each in journal.list_operations() if each.is_of_keys and each.undoes is None]
    states: dict[OperationState, RunState] = {"open": "open"}
    last = run(journal, of_keys[-1], states.get(journal.find(of_keys[-1]).state, "ended")) if of_keys else None
    assert (outcome(to_resume, journal, last, None), outcome(to_undo, journal, last, None)) == (on, back)


@pytest.mark.parametrize(
    ("operation", "identity", "state", "is_found"),
    [
        (None, "", "open", True),
        (1, ELSEWHERE, "open", True),
        (1, ELSEWHERE, "undone", False),
        (1, "", "open", True),  # a journal that was restored from an older backup
    ],
)
def test_an_open_run_that_the_journal_does_not_have_is_found_by_the_key_store(
    operation: int | None, identity: str, state: RunState, is_found: bool
) -> None:
    journal = Journal(None)
    last = run(journal, operation, state, identity)
    for find, goes_back in ((to_resume, False), (to_undo, True)):
        assert outcome(find, journal, last, None) == ((None, goes_back, "keys") if is_found else StoreError)
    PKEY_SET(journal)
    journal.set_state(1, "done")
    assert outcome(to_undo, journal, last, None) == ((None, True, "keys") if is_found else UsageError)


def test_a_finished_run_that_the_journal_does_not_have_goes_back_where_nothing_else_may_be_meant() -> None:
    journal = Journal(None)
    last = run(journal, 1, "ended", ELSEWHERE)
    assert outcome(to_resume, journal, last, None) is StoreError
    assert outcome(to_undo, journal, last, None) == (None, True, "keys")
    PKEY_SET(journal)
    journal.set_state(1, "done")
    assert outcome(to_undo, journal, last, None) is UsageError


def test_one_that_has_ended_is_named_in_the_refusal() -> None:
    journal = Journal(None)
    for begin in (DONE_APPLY, interrupted("pkey-set", state="done"), interrupted("mkey-set", state="done")):
        begin(journal)
    with pytest.raises(
        UsageError, match=r"the last one is operation 2 \(pkey-set\), and `ibkeys undo 2` rolls it back"
    ):
        to_undo(journal, None, None)
    assert outcome(to_undo, journal, None, 1) == (1, True, "partitions")


def test_keys_of_subnet_managers_that_are_pending_are_those_of_the_operation_or_of_none() -> None:
    journal = Journal(None)
    for find, goes_back in ((to_resume, False), (to_end, False), (to_undo, True)):
        assert outcome(find, journal, None, None, True) == (None, goes_back, "sm-keys")
    SM_KEYS(journal)
    for find, goes_back in ((to_resume, False), (to_end, False), (to_undo, True)):
        assert outcome(find, journal, None, None, True) == (1, goes_back, "sm-keys")
    KEYS(journal)
    with pytest.raises(UsageError, match=r"operation 1 \(smkey-rotate\), operation 2 \(mkey-rotate\) may be meant"):
        to_resume(journal, run(journal, 2), None, True)


def test_only_the_last_run_of_the_key_store_goes_on_or_back() -> None:
    journal = Journal(None)
    for begin in (DONE_KEYS, KEYS):
        begin(journal)
    started = journal.find(2).started
    older = Run(1, "mkey-rotate", "open", RunOptions(), started, None)
    for last, is_last in (
        (run(journal, 2), [False, True]),
        (run(journal, 1, "open", ELSEWHERE), [False, False]),
        (older, [False, True]),
        (replace(older, command="mkey-deploy"), [False, False]),
        (replace(older, started="2999-01-01T00:00:00Z"), [False, False]),
        (None, [True, True]),
    ):
        assert [to_undo(journal, last, number).is_last_run for number in (1, 2)] == is_last


def test_one_that_is_named_is_meant_whatever_else_is_open() -> None:
    journal = Journal(None)
    for begin in (DONE_APPLY, undo_of(1), KEYS, PKEY_SET):
        begin(journal)
    found = [outcome(to_resume, journal, None, number) for number in (1, 2, 3, 4)]
    assert found == [(1, True, "partitions"), (1, True, "partitions"), (3, False, "keys"), (4, False, "other")]
    found = [outcome(to_undo, journal, None, number) for number in (1, 2, 3, 4)]
    assert found == [(1, True, "partitions"), (2, True, "partitions"), (3, True, "keys"), (4, True, "other")]
    for find in (to_resume, to_undo):
        with pytest.raises(StoreError, match="no operation 9; `ibkeys journal`"):
            find(journal, None, 9)


def test_of_failed_runs_only_the_last_one_counts() -> None:
    journal = Journal(None)
    for begin in (FAILED_KEYS, DONE_KEYS):
        begin(journal)
    assert outcome(to_resume, journal, run(journal, 2, "ended"), None) is StoreError
