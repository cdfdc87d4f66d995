"""The journal: what was overwritten, on disk before it is."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.errors import EncodeError, StoreError
from ibkeys.store.journal import Image, Journal, OperationRecord
from ibkeys.store.journal.schema import JOURNAL_SCHEMA
from ibkeys.store.origin import this_process
from tests.store.journaled import AFTER, BEFORE, DAY, image, record, run_until, ticking


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
    assert [line.state for line in journal.list_operations()] == ["done"]


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
