"""Which operation `ibkeys resume` and `ibkeys undo` mean, by what the journal has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibkeys.change.open_operations import OperationTarget, find_to_end, find_to_resume, find_to_undo
from ibkeys.errors import IbkeysError, StoreError, UsageError
from ibkeys.store.journal import KEY_COMMANDS, Journal, OperationState
from ibkeys.store.journal.runs import RunOptions, Runs

Found = tuple[int | None, bool, str]
Begin = Callable[[Journal], None]


def interrupted(command: str, plan: str | None = None, state: OperationState = "open") -> Begin:
    def begin(journal: Journal) -> None:
        if plan is not None:
            journal.begin(command, plan, "{}")
        else:
            number = journal.operation(command).put_on_disk()
            if command in KEY_COMMANDS:
                Runs(journal).begin(number, RunOptions(), [])
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
        assert journal.move_stage(operation, "running", "unconfirmed")

    return begin


APPLY, KEYS = interrupted("apply", "plan"), interrupted("mkey-rotate")
PKEY_SET, DONE_APPLY = interrupted("pkey-set"), interrupted("apply", "plan", "done")
HARDEN, DONE_HARDEN = interrupted("harden"), interrupted("harden", state="done")
SM_KEYS, FAILED_SM_KEYS = interrupted("smkey-rotate"), interrupted("smkey-rotate", state="failed")
FAILED_KEYS, DONE_KEYS = interrupted("mkey-rotate", state="failed"), interrupted("mkey-rotate", state="done")


def outcome(find: Callable[[Journal, int | None], OperationTarget], *given: object) -> Found | type[IbkeysError]:
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
    assert (outcome(find_to_resume, journal, None), outcome(find_to_undo, journal, None)) == (on, back)


def test_only_the_last_run_goes_on_or_back() -> None:
    journal = Journal(None)
    for begin in (DONE_KEYS, KEYS):
        begin(journal)
    assert [find_to_undo(journal, number).is_last_run for number in (1, 2)] == [False, True]
    journal.operation("mkey-rotate").put_on_disk()  # one of which only the operation is there
    assert [find_to_undo(journal, number).is_last_run for number in (1, 2, 3)] == [False, True, False]


def test_one_that_is_named_is_meant_whatever_else_is_open() -> None:
    journal = Journal(None)
    for begin in (DONE_APPLY, undo_of(1), KEYS, PKEY_SET):
        begin(journal)
    found = [outcome(find_to_resume, journal, number) for number in (1, 2, 3, 4)]
    assert found == [(1, True, "partitions"), (1, True, "partitions"), (3, False, "keys"), (4, False, "other")]
    found = [outcome(find_to_undo, journal, number) for number in (1, 2, 3, 4)]
    assert found == [(1, True, "partitions"), (2, True, "partitions"), (3, True, "keys"), (4, True, "other")]
    for find in (find_to_resume, find_to_undo):
        with pytest.raises(StoreError, match="no operation 9; `ibkeys journal`"):
            find(journal, 9)


def test_of_failed_runs_only_the_last_one_counts() -> None:
    journal = Journal(None)
    for begin in (FAILED_KEYS, DONE_KEYS):
        begin(journal)
    assert outcome(find_to_resume, journal, None) is StoreError


def test_one_that_has_ended_is_named_in_the_refusal() -> None:
    journal = Journal(None)
    for begin in (DONE_APPLY, interrupted("pkey-set", state="done"), interrupted("mkey-set", state="done")):
        begin(journal)
    with pytest.raises(
        UsageError, match=r"the last one is operation 2 \(pkey-set\), and `ibkeys undo 2` rolls it back"
    ):
        find_to_undo(journal, None)
    assert outcome(find_to_undo, journal, 1) == (1, True, "partitions")


def test_one_that_awaits_its_confirmation_is_named_where_none_is_open() -> None:
    """`ibkeys journal` shows it as open, so "no operation is open" and "make a new plan" would mislead."""
    journal = Journal(None)
    for each in (APPLY, waits(1)):
        each(journal)
    with pytest.raises(StoreError, match=r"operation 1 \(apply\) is not open: `ibkeys confirm 1` finishes it, "):
        find_to_resume(journal, None)


def test_two_that_are_open_are_named() -> None:
    journal = Journal(None)
    for begin in (SM_KEYS, KEYS):
        begin(journal)
    for find in (find_to_resume, find_to_end, find_to_undo):
        with pytest.raises(UsageError, match=r"fits: operation 1 \(smkey-rotate\), operation 2 \(mkey-rotate\): give"):
            find(journal, None)
