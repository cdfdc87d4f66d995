"""The journal: what was overwritten, on disk before it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import EncodeError, NoReply, StoreError
from ibkeys.store.journal import Entry, Image, Journal, Operation, OperationRecord, PlanRecord
from ibkeys.store.journal.schema import JOURNAL_SCHEMA
from ibkeys.store.origin import Origin, this_process
from ibkeys.store.sqlite import Clock

BEFORE, AFTER = bytes(range(64)), bytes(64)
DAY = "2026-11-20T09:00:00Z"


def image(**changes: Any) -> Image:
    values: dict[str, Any] = {
        "node_guid": 0x0002C90300A1B2C3,
        "port_guid": 0xFFFF_FFFF_FFFF_FFFE,
        "node_desc": "node-ü HCA-1",
        "node_type": "ca",
        "port": 1,
        "lid": 7,
        "attribute": "P_KeyTable",
        "attribute_modifier": 0xFFFF_0001,
        "before": BEFORE,
        "after": AFTER,
    }
    return Image(**(values | changes))


def record(operation: Operation, **changes: Any) -> Entry:
    [entry] = operation.record_all([image(**changes)])
    return entry


def run_until(journal: Journal, error: BaseException) -> None:
    """An operation whose only entry is done when *error* comes."""
    with journal.operation("pkey-set") as operation:
        record(operation).done()
        raise error


def ticking(start: datetime = datetime(2026, 11, 20, 9, 0, 0, tzinfo=UTC)) -> Clock:
    def times() -> Iterator[datetime]:
        now = start
        while True:
            yield now
            now += timedelta(seconds=1)

    source = times()
    return lambda: next(source)


def test_operation_is_recorded_before_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(path, clock=ticking()) as journal, journal.operation("pkey-set") as operation:
        [entry] = operation.record_all([Image(1, 2, "sw", "switch", 3, 4, "P_KeyTable", 0x30000, BEFORE, AFTER)])
        other = Journal(path, create=False)
        assert [replace(line, starts=()) for line in other.list_operations()] == [
            OperationRecord(1, "pkey-set", "open", "2026-11-20T09:00:00Z", None, 1, 1, None)
        ]
        [kept] = other.entries(1)
        assert kept.status == "pending"
        assert kept.image == Image(1, 2, "sw", "switch", 3, 4, "P_KeyTable", 0x30000, BEFORE, AFTER)
        entry.done()
        assert entry.status == "done"
        assert other.entries(1)[0].status == "done"
    assert [replace(line, starts=()) for line in Journal(path).list_operations()] == [
        OperationRecord(1, "pkey-set", "done", "2026-11-20T09:00:00Z", "2026-11-20T09:00:01Z", 1, 0, None)
    ]


def test_everything_of_an_image_survives_the_file(tmp_path: Path) -> None:
    images = [
        image(),
        image(port=2, key_name="0123456789abcdef" * 2),
        image(attribute="PortInfo", before=AFTER, after=bytes(8) + bytes(56)),
    ]
    with Journal(tmp_path / "j") as journal, journal.operation("mkey-set") as operation:
        operation.record_all(images[:2])
        operation.record_all([])
        operation.record_all(images[2:])
    kept = Journal(tmp_path / "j").entries(1)
    assert [entry.image for entry in kept] == images
    assert [(entry.operation, entry.sequence) for entry in kept] == [(1, 0), (1, 1), (1, 2)]


def test_operation_that_changed_nothing_leaves_no_trace() -> None:
    journal = Journal(None)
    with journal.operation("pkey-add") as operation:
        assert operation.record_all([]) == []
    assert operation.id is None
    assert journal.list_operations() == []


def test_operation_is_done_only_when_all_its_entries_are() -> None:
    journal = Journal(None)
    with journal.operation("counters-clear") as operation:
        first, second, _ = operation.record_all([image(port=port) for port in (1, 2, 3)])
        assert operation.record_all([], [first], [second]) == []
        journal.set_status([first, second], "done")
    with journal.operation("counters-clear") as operation:
        record(operation).failed()
    with journal.operation("counters-clear") as operation:
        journal.set_status(operation.record_all([image(), image()]), "done")
    assert [(line.id, line.state, line.ports) for line in journal.list_operations()] == [
        (1, "failed", 3),
        (2, "failed", 1),
        (3, "done", 1),
    ]


def test_error_in_the_command_makes_the_operation_failed() -> None:
    journal = Journal(None)
    with pytest.raises(TimeoutError):
        run_until(journal, TimeoutError())
    assert journal.list_operations()[0].state == "failed"


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_interrupted_operation_stays_open_to_be_resumed_or_undone(interrupt: type[BaseException]) -> None:
    journal = Journal(None)
    with pytest.raises(interrupt):
        run_until(journal, interrupt())
    [line] = journal.list_operations()
    assert (line.state, line.finished) == ("open", None)


def test_undone_is_a_state_of_its_own() -> None:
    journal = Journal(None, clock=ticking())
    with journal.operation("pkey-set") as operation:
        record(operation).done()
    assert operation.id is not None
    journal.set_state(operation.id, "undone")
    assert journal.list_operations()[0].state == "undone"
    assert journal.list_operations()[0].finished == "2026-11-20T09:00:02Z"


def test_unknown_operation_is_one_line() -> None:
    for ask in (lambda: Journal(None).entries(9), lambda: Journal(None).set_state(9, "undone")):
        with pytest.raises(StoreError, match="no operation 9"):
            ask()


@pytest.mark.parametrize("blob", ["before", "after"])
@pytest.mark.parametrize("at", range(8))
def test_port_info_with_an_m_key_is_refused(blob: str, at: int) -> None:
    with pytest.raises(EncodeError) as error:
        image(
            attribute="PortInfo", **({"before": AFTER, "after": AFTER} | {blob: bytes(at) + b"\xa7" + bytes(63 - at)})
        )
    assert "a7" not in str(error.value)
    assert "167" not in str(error.value)


def test_m_key_bytes_are_no_secret_in_a_p_key_table() -> None:
    assert image(before=b"\xff" * 64).before[:8] == b"\xff" * 8


@pytest.mark.parametrize("attribute", ["portinfo", "SMInfo", "Notice", ""])
def test_attribute_that_no_command_writes_is_refused(attribute: str) -> None:
    with pytest.raises(EncodeError):
        image(attribute=attribute)


@pytest.mark.parametrize("size", [0, 63, 65, 256])
def test_blob_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(EncodeError, match=f"{size} given"):
        image(before=bytes(size))


def test_failure_to_close_the_operation_does_not_hide_what_went_wrong_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")

    def run(error: Exception | None) -> None:
        journal.database.query("PRAGMA query_only = OFF")
        with journal.operation("pkey-set") as operation:
            record(operation)
            journal.database.query("PRAGMA query_only = ON")
            if error:
                raise error

    with pytest.raises(KeyError):
        run(KeyError())
    with pytest.raises(StoreError, match="read-only"):
        run(None)


def test_a_journal_that_is_moved_away_while_it_is_in_use_is_not_said_to_be_read_only(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.begin_operation("apply", this_process())
        (tmp_path / "j").rename(tmp_path / "gone")
        with pytest.raises(StoreError, match="was moved or removed while it was in use"):
            journal.begin_operation("apply", this_process())


def test_an_entry_says_what_it_is() -> None:
    journal = Journal(None)
    with journal.operation("pkey-set") as operation:
        assert repr(record(operation)) == "<Entry 1.0 P_KeyTable of 0x0002c90300a1b2c3 port 1: pending>"


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


def test_an_operation_without_a_plan_may_have_to_be_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal, journal.operation("mkey-deploy") as operation:
        assert operation.await_confirmation('{"hosts": []}') == 1
        with Journal.read(path) as other:
            [found] = other.list_operations()
            assert (found.state, found.stage, found.goes_back) == ("open", "running", True)
            assert (other.plan_of(1), other.options_of(1)) == (None, {"hosts": []})
        record(operation).done()
    with Journal.read(path) as journal:
        assert (journal.find(1).state, journal.find(1).goes_back) == ("done", True), "nobody confirmed it yet"


def test_stages_of_an_earlier_version_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    steps = JOURNAL_SCHEMA.steps
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


# --- who did it, and undoing ------------------------------------------------------------------------------------------

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


def test_an_operation_that_could_not_be_written_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StoreError("no space left")

    journal = Journal(None)
    with journal.operation("pkey-set") as operation:
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "record", full)
            with pytest.raises(StoreError):
                record(operation)
        assert operation.id is None
        record(operation).done()
    assert states(journal) == ["done"]


def test_the_nodes_have_the_names_that_were_recorded_last() -> None:
    with Journal(None) as journal:
        for name, guid in (("old", 1), ("other", 2), ("new", 1), ("", 1)):
            with journal.operation("pkey-set") as operation:
                record(operation, port_guid=guid, node_desc=name, node_type="switch" if guid == 2 else "ca")
        assert journal.nodes() == {1: ("new", "ca"), 2: ("other", "switch")}


def test_a_journal_has_an_identity_that_stays(tmp_path: Path) -> None:
    found = set()
    for name in ("a", "b"):
        with Journal(tmp_path / name) as journal:
            found.add(journal.identity())
        with Journal.read(tmp_path / name) as journal:
            assert journal.identity() in found
    assert len(found) == 2
    with sqlite3.connect(tmp_path / "a") as connection:
        connection.execute("DELETE FROM identities")
    connection.close()
    with Journal(tmp_path / "a") as journal, pytest.raises(StoreError, match="no identity"):
        journal.identity()


def test_an_earlier_journal_keeps_the_numbers_of_its_keys(tmp_path: Path) -> None:
    """They lead only to rows that the key store had when it was upgraded: see tests/host/conf/test_references.py."""
    path = tmp_path / "journal.db"
    path.touch(0o600)
    earlier = sqlite3.connect(path)
    steps = JOURNAL_SCHEMA.steps[:4]
    for statement in (statement for step in steps for statement in step):
        earlier.execute(statement)
    earlier.execute("INSERT INTO operations (command, state, started) VALUES ('mkey-set', 'open', ?)", (DAY,))
    for number, ref in enumerate((41, None)):
        earlier.execute(
            "INSERT INTO entries VALUES (1, ?, ?, ?, '', 'ca', 1, 1, 'PortInfo', 1, ?, ?, ?, 'done')",
            (number, f"0x{1:016x}", f"0x{2:016x}", bytes(64), bytes(64), ref),
        )
    earlier.execute(f"PRAGMA application_id = {JOURNAL_SCHEMA.application_id}")
    earlier.execute(f"PRAGMA user_version = {len(steps)}")
    earlier.commit()
    earlier.close()
    identities = set()
    for _ in range(2):  # read as it is, then upgraded
        with Journal.read(path) as journal:
            assert [entry.image.key_name for entry in journal.entries(1)] == ["41", None]
        with Journal(path) as journal:
            assert [entry.status for entry in journal.entries(1)] == ["done", "done"]
            identities.add(journal.identity())
    assert len(identities) == 1
