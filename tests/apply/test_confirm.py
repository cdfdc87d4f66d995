"""Waiting for a confirmation: what the journal says at every moment decides whether a change stays."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.apply.apply_plan import FinishedApply
from ibkeys.apply.confirm import confirm_or_go_back
from ibkeys.change.confirming.confirmation import block_confirmation, confirm, is_unconfirmed
from ibkeys.errors import StoreError
from ibkeys.store.journal import Image, Journal


def nobody(kept: Any) -> None:
    """No guard waits on another host."""


class Died(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("method", ["set_state", "leave_stage"])
def test_a_crash_on_the_way_to_waiting_never_looks_like_a_confirmed_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        operation = journal.begin("apply", "{}", "{}")
        operation.record_all([Image(1, 2, "n", "ca", 1, 1, "P_KeyTable", 0, bytes(64), b"\xff" * 64)])
        assert operation.id is not None
        operation.outcome = "done"
        real = getattr(Journal, method)

        def dies_afterwards(self: Journal, *arguments: Any) -> None:
            real(self, *arguments)
            raise Died

        monkeypatch.setattr(Journal, method, dies_afterwards)
        run = cast(FinishedApply, SimpleNamespace(operation=operation, error=None))
        with pytest.raises(Died):
            confirm_or_go_back(run, 60, lambda: 0.0, lambda _: False, lambda _: None)
        monkeypatch.undo()
    with Journal(path) as journal:
        record = journal.find(operation.id)
        assert record.awaits_confirmation or record.state == "open"


@pytest.fixture
def waiting(tmp_path: Path) -> tuple[Path, int]:
    """A journal with an operation that waits for its confirmation."""
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        operation = journal.begin("apply", "{}", "{}")
        operation.record_all([Image(1, 2, "n", "ca", 1, 1, "P_KeyTable", 0, bytes(64), b"\xff" * 64)])
        assert operation.id is not None
        assert journal.move_stage(operation.id, "running", "unconfirmed")
        journal.set_state(operation.id, "done")
    return path, operation.id


def test_who_goes_back_takes_the_confirmation_away_first(waiting: tuple[Path, int]) -> None:
    path, operation = waiting
    assert is_unconfirmed(path, operation)
    assert block_confirmation(path, operation)
    with Journal(path) as journal, pytest.raises(StoreError, match="too late"):
        confirm(journal, operation, nobody)
    assert block_confirmation(path, operation), "and may try again"


def test_a_run_that_was_killed_half_way_is_said_to_go_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        assert journal.begin("apply", "{}", "{}").id == 1
    assert block_confirmation(path, 1)
    with Journal(path) as journal:
        assert journal.find(1).rollback == "unfinished"


def test_what_was_confirmed_in_the_last_moment_stays(
    waiting: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, operation = waiting
    real = Journal.move_stage

    def confirmed_just_before(self: Journal, *arguments: Any) -> bool:
        assert real(self, operation, "unconfirmed", "confirmed")
        return real(self, *arguments)

    monkeypatch.setattr(Journal, "move_stage", confirmed_just_before)
    assert not block_confirmation(path, operation)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()])
def test_a_run_whose_stage_somebody_else_moved_neither_waits_nor_goes_back(
    tmp_path: Path, error: BaseException | None
) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        operation = journal.begin("apply", "{}", "{}")
        assert operation.id is not None
        assert journal.move_stage(operation.id, "running", "confirmed")
        run = cast(FinishedApply, SimpleNamespace(operation=operation, error=error))
        with pytest.raises(StoreError):
            confirm_or_go_back(run, 60, lambda: 0.0, lambda _: pytest.fail("waits"), lambda _: None)
        assert (journal.find(operation.id).stage, journal.find(operation.id).state) == ("confirmed", "open")


@pytest.mark.parametrize("look", [0, 1, 2])
def test_nobody_resumes_it_between_the_question_and_the_answer(
    waiting: tuple[Path, int], monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    path, operation = waiting
    find, looks = Journal.find, iter(range(10))
    monkeypatch.setattr("ibkeys.store.sqlite.BUSY_SECONDS", 0.0)

    def resumed_meanwhile(self: Journal, number: int) -> Any:
        record = find(self, number)
        if next(looks) == look:
            with suppress(StoreError), Journal(path) as other:
                other.reopen(number)
        return record

    monkeypatch.setattr(Journal, "find", resumed_meanwhile)
    block_confirmation(path, operation, 1)
    with Journal(path) as journal:
        record = find(journal, operation)
        assert (record.stage, len(record.starts)) in (("going-back", 1), ("running", 2))


def test_a_journal_that_cannot_be_read_confirms_nothing(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"no database")
    assert block_confirmation(tmp_path / "journal.db", 1)


def test_a_later_start_of_it_is_not_rolled_back_by_who_looks_after_an_earlier_one(waiting: tuple[Path, int]) -> None:
    path, operation = waiting
    assert is_unconfirmed(path, operation, 1)
    with Journal(path) as journal:
        journal.reopen(operation)  # it is resumed
        assert (is_unconfirmed(path, operation, 1), block_confirmation(path, operation, 1)) == (False, False)
        assert journal.find(operation).stage == "running"
    assert is_unconfirmed(path, operation, 2)
    assert block_confirmation(path, operation, 2)
