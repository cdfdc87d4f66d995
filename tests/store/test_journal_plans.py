"""Operations that follow a plan or have to be confirmed: resumed, undone, and by whom."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ibkeys.errors import NoReply, StoreError
from ibkeys.store.journal import Journal, PlanRecord, RunningOperation
from ibkeys.store.journal.schema import JOURNAL_SCHEMA
from ibkeys.store.origin import Origin
from tests.store.journaled import record, ticking


def test_an_operation_with_a_plan_is_on_disk_before_its_first_entry_and_stays_open_after_an_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"

    def run(journal: Journal) -> None:
        with journal.begin("apply", "the plan", "{}") as operation:
            other = Journal(path, create=False)
            assert (operation.id, other.plan_of(1)) == (1, PlanRecord("the plan", "{}"))
            record(operation).done()
            raise NoReply("silent")

    with Journal(path) as journal, pytest.raises(NoReply):
        run(journal)
    assert Journal(path).find(1).state == "open"


def test_a_reopened_operation_goes_on_where_it_stopped(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")

    def run() -> None:
        with journal.begin("apply", "plan", "{}") as operation:
            record(operation).done()
            record(operation, port=2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    with journal.reopen(1) as operation:
        record(operation, port=2).done()
    assert [(entry.sequence, entry.status) for entry in journal.entries(1)] == [
        (0, "done"),
        (1, "pending"),
        (2, "done"),
    ]
    assert (journal.find(1).state, journal.find(1).unproven) == ("done", 1)
    with journal.reopen(1) as operation:
        assert journal.find(1).state == "open"
        assert journal.find(1).finished is None
        operation.outcome = "undone"
    assert journal.find(1).state == "undone"


def test_of_several_who_move_a_stage_one_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal, other = Journal(path), Journal(path)
    journal.begin("apply", "plan", "{}")
    assert journal.move_stage(1, "running", "unconfirmed")
    assert other.move_stage(1, "unconfirmed", "confirmed")
    assert not journal.move_stage(1, "unconfirmed", "going-back")
    assert (journal.plan_of(1), journal.find(1).stage) == (PlanRecord("plan", "{}"), "confirmed")
    assert not journal.move_stage(2, "running", "unconfirmed")


def test_who_finds_another_stage_than_it_left_writes_nothing() -> None:
    journal = Journal(None)
    journal.begin("apply", "plan", "{}")

    def end() -> None:
        with journal.in_one_transaction():
            journal.set_state(1, "done")
            journal.leave_stage(1, "unconfirmed", "confirmed")

    with pytest.raises(StoreError):
        end()
    assert (journal.find(1).state, journal.find(1).stage) == ("open", "running")
    with journal.operation("pkey-set") as operation:
        assert operation.put_on_disk() == 2
        journal.leave_stage(2, "running", "confirmed")
    assert journal.find(2).stage is None


def test_an_operation_without_a_plan_may_have_to_be_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal, journal.operation("mkey-deploy") as operation:
        assert operation.put_on_disk() == 1
        journal.await_confirmation(1, '{"hosts": []}')
        with Journal.read(path) as other:
            [found] = other.list_operations()
            assert (found.state, found.stage, found.goes_back) == ("open", "running", True)
            assert (other.plan_of(1), other.options_of(1)) == (None, {"hosts": []})
        record(operation).done()
    with Journal.read(path) as journal:
        assert (journal.find(1).state, journal.find(1).goes_back) == ("done", True), "not confirmed it yet"


def test_what_an_operation_is_resumed_with_is_kept_from_its_first_record_on_and_an_error_leaves_it_open() -> None:
    def fail(operation: RunningOperation) -> None:
        with operation:
            record(operation)
            raise NoReply("silent")

    journal = Journal(None)
    with journal.operation("harden", kept={"hosts": ["sm2"]}, resumable=True):
        pass
    assert journal.list_operations() == []
    with pytest.raises(NoReply):
        fail(journal.operation("harden", kept={"hosts": ["sm2"]}, resumable=True))
    found = journal.find(1)
    assert (found.state, found.stage, found.is_of_plan) == ("open", None, False)
    assert (journal.plan_of(1), journal.options_of(1)) == (None, {"hosts": ["sm2"]})


def test_stages_of_an_earlier_version_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    steps = JOURNAL_SCHEMA.steps[:8]  # that of runs came later
    with closing(sqlite3.connect(path)) as connection:
        for step in steps[:-1]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(steps) - 1}")
        connection.execute(f"PRAGMA application_id = {JOURNAL_SCHEMA.application_id}")
        connection.execute(
            "INSERT INTO operations (command, state, started) VALUES ('apply', 'open', '2026-01-01T00:00:00Z')"
        )
        connection.execute(
            "INSERT INTO operations (command, state, started) SELECT 'pkey-set', state, started FROM operations"
        )
        connection.execute("INSERT INTO plans VALUES (1, 'plan', '{}', 'going-back')")
        connection.commit()
    path.chmod(0o600)
    with Journal(path) as journal:
        assert [each.stage for each in journal.list_operations()] == ["going-back", None]
        assert (journal.plan_of(1), journal.plan_of(2)) == (PlanRecord("plan", "{}"), None)


def test_operations_without_a_plan_have_none() -> None:
    journal = Journal(None)
    with journal.operation("pkey-set") as operation:
        record(operation).done()
    assert journal.plan_of(1) is None


ALICE = Origin("root (login alice)", "head1", ("active-sm", "index-0"), ("--first 3", "--m_key"))
BOB = Origin("bob", "head2")


def states(journal: Journal) -> list[str]:
    return [line.state for line in journal.list_operations()]


def undo(journal: Journal, operation: int) -> int:
    with journal.undo_of(operation, BOB) as undoing:
        record(undoing).done()
        undoing.outcome = "done"
    assert undoing.id is not None
    return undoing.id


def cut_off_undo(journal: Journal, origin: Origin) -> None:
    """An undo of operation 1 that is interrupted after its first Set."""
    with suppress(KeyboardInterrupt), journal.undo_of(1, origin) as undoing:
        record(undoing).done()
        raise KeyboardInterrupt


def test_an_operation_says_who_began_it_and_who_went_on(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", clock=ticking()) as journal:
        with journal.begin("apply", "plan", "{}", ALICE) as operation:
            operation.outcome = "open"
        with journal.reopen(1, BOB) as operation:
            operation.outcome = "done"
        with journal.operation("pkey-set", BOB) as operation:
            record(operation).done()
    with Journal.read(tmp_path / "j") as journal:
        apply, pkey_set = journal.list_operations()
    assert [start.origin for start in apply.starts] == [ALICE, BOB]
    assert [start.started[-3:] for start in apply.starts] == ["00Z", "01Z"]
    assert [start.origin for start in pkey_set.starts] == [BOB]


def test_an_undo_is_an_operation_of_its_own_and_leaves_the_time_of_what_it_undid(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", clock=ticking())
    with journal.operation("pkey-set") as operation:
        record(operation).done()
    before = journal.find(1)
    assert undo(journal, 1) == 2
    first, second = journal.list_operations()
    assert (first.state, first.started, first.finished) == ("undone", before.started, before.finished)
    assert (second.command, second.state, second.undoes, first.undone_by) == ("undo", "done", 1, 2)
    assert second.starts[0].origin == BOB
    assert second.started > first.finished  # type: ignore[operator]


def test_to_undo_an_undo_is_to_redo_and_so_on() -> None:
    journal = Journal(None)
    with journal.operation("pkey-set") as operation:
        record(operation).done()
    for undone, expected in (
        (1, ["undone", "done"]),
        (2, ["done", "undone", "done"]),
        (3, ["undone", "done", "undone", "done"]),
        (4, ["done", "undone", "done", "undone", "done"]),
        (1, ["undone", "undone", "done", "undone", "done", "done"]),
    ):
        undo(journal, undone)
        assert states(journal) == expected
    assert journal.find(1).undone_by == 6
    assert journal.relatives(3) == [1, 2, 4, 5, 6]
    assert journal.relatives(1) == [2, 3, 4, 5, 6]
    with journal.operation("pkey-set") as operation:
        record(operation).done()
    assert [journal.find(number) for number in range(1, 8)] == journal.list_operations()


def test_a_redo_gives_an_operation_the_state_that_it_had() -> None:
    journal = Journal(None)
    with journal.begin("apply", "plan", "{}") as operation:
        operation.outcome = "open"
    undo(journal, 1)
    assert (states(journal), journal.find(1).stage) == (["undone", "done"], "going-back")
    undo(journal, 2)
    assert (states(journal), journal.find(1).stage) == (["open", "undone", "done"], "running")


def test_an_undo_that_was_cut_off_is_gone_on_with_and_shows_at_what_it_undoes() -> None:
    journal = Journal(None)
    with journal.begin("apply", "plan", "{}") as operation:
        operation.outcome = "done"
    cut_off_undo(journal, ALICE)
    first, second = journal.list_operations()
    assert (first.state, first.is_unfinished, first.is_going_back, second.state) == ("done", True, True, "open")
    with journal.undo_of(1, BOB) as undoing:
        assert (undoing.id, undoing.undoes) == (2, 1)
        record(undoing).done()
        undoing.outcome = "done"
    first, second = journal.list_operations()
    assert (first.state, first.is_unfinished, first.is_going_back, second.state) == ("undone", False, False, "done")
    assert [start.origin for start in second.starts] == [ALICE, BOB]
    assert [entry.sequence for entry in journal.entries(2)] == [0, 1]


def test_an_undo_that_was_cut_off_ends_when_what_it_undid_is_finished_after_all() -> None:
    journal = Journal(None)
    with journal.begin("apply", "plan", "{}") as operation:
        operation.outcome = "done"
    cut_off_undo(journal, ALICE)
    with journal.reopen(1) as operation:
        operation.outcome = "done"
    assert states(journal) == ["done", "undone"]
    assert not journal.find(1).is_unfinished


def test_options_that_are_damaged_are_not_replaced_by_the_added_ones() -> None:
    journal = Journal(None)
    journal.begin("apply", "{}", "{damaged")
    with pytest.raises(StoreError, match="the options of operation 1 cannot be read"):
        journal.add_options(1, {"late": ["a"]})


def test_sets_without_a_key_name_no_key() -> None:
    journal = Journal(None)
    with journal.operation("pkey-set") as operation:
        record(operation)
    assert journal.key_names() == set()


def test_a_damaged_number_of_the_operation_that_is_undone_is_no_sql() -> None:
    journal = Journal(None)
    with journal.operation("pkey-set") as operation:
        record(operation).done()
    journal.database.query("PRAGMA foreign_keys = OFF")
    journal.database.execute("UPDATE operations SET undoes = '1) OR no_such_function('")
    with pytest.raises(StoreError, match="id has an impossible value"):
        journal.find(1)
