"""The last run that an earlier version kept in the key store moves to the journal, once, whatever ends the move."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import StoreError, UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import NewRunPort, RunOptions, Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.run_tables import RUN_TO_MOVE
from ibkeys.store.keystore.schema import KEYSTORE_SCHEMA
from ibkeys.store.moving_runs import has_run_to_move, move_run, move_run_between

BEGUN = "2026-01-01T00:00:00Z"
VIA = {
    "name": "opensm",
    "former": {"key_ref": None, "protect": 0, "lease": 0},
    "wanted": {"key_ref": 1, "protect": 2, "lease": 60},
    "earlier": [{"key_ref": 1, "protect": 1, "lease": 60}],
}


def earlier_store(path: Path, run: dict[str, Any]) -> Path:
    """Make a key store of before the move, with a run of two ports, one of them begun."""
    steps = KEYSTORE_SCHEMA.steps[: KEYSTORE_SCHEMA.steps.index(RUN_TO_MOVE)]
    values = {"command": "mkey-rotate", "state": "open", "journal": None, "operation": None, "via": None, **run}
    path.touch(0o600)
    with closing(sqlite3.connect(path)) as connection:
        for step in steps:
            for statement in step:
                connection.execute(statement)
        connection.execute(
            "INSERT INTO keys (port_guid, m_key, state, since, name) "
            f"VALUES ('0x0000000000000004', X'0000000000000007', 'pending', '{BEGUN}', '{'a' * 32}')"
        )
        connection.execute(f"INSERT INTO subnet_keys VALUES (1, X'0000000000000009', '{BEGUN}', '', '{'c' * 32}')")
        for number, started in ((1, "2025-01-01T00:00:00Z"), (2, BEGUN)):
            connection.execute(
                "INSERT INTO runs VALUES (:number, :command, :state, 1, 2, 60, 64, NULL, 5, :started, NULL, :via, "
                ":journal, :operation)",
                {**values, "number": number, "started": started},
            )
        connection.execute(
            "INSERT INTO run_ports VALUES "
            "(2, 0, '0x0000000000000003', '0x0000000000000004', 1, 'sent', 1, NULL, 0, 0, ''), "
            "(2, 1, '0x0000000000000005', '0x0000000000000006', 1, 'waiting', NULL, NULL, NULL, NULL, '')"
        )
        connection.execute(f"PRAGMA application_id = {KEYSTORE_SCHEMA.application_id}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.commit()
    return path


def moved(folder: Path) -> Journal:
    move_run_between(folder / "keys.db", folder / "journal.db", dry_run=False)
    return Journal(folder / "journal.db")


def test_the_last_run_moves_with_its_ports_and_the_names_of_its_keys(tmp_path: Path) -> None:
    earlier_store(tmp_path / "keys.db", {"via": json.dumps(VIA)})
    with moved(tmp_path) as journal:
        last = Runs(journal).last()
        assert last is not None
        assert (last.command, last.started, last.is_open) == ("mkey-rotate", BEGUN, True)
        assert (last.options.same, last.options.protect, last.options.lease, last.options.first) == (True, 2, 60, None)
        assert last.via is not None
        assert [last.via[name]["key_name"] for name in ("former", "wanted")] == [None, "c" * 32]
        assert last.via["earlier"] == [{"key_name": "c" * 32, "protect": 1, "lease": 60}]
        ports = Runs(journal).ports(last.id)
        assert [(port.port_guid, port.state, port.key_name) for port in ports] == [
            (4, "sent", "a" * 32),
            (6, "waiting", None),
        ]
    with KeyStore(tmp_path / "keys.db") as store:
        assert not has_run_to_move(store)
        assert store.named("a" * 32).m_key == MKey(7)


@pytest.mark.parametrize(("state", "becomes"), [("open", "open"), ("ended", "done"), ("undone", "undone")])
@pytest.mark.parametrize("is_known", [True, False])
def test_it_is_the_operation_that_the_journal_has_or_a_new_one(
    tmp_path: Path, state: str, becomes: str, is_known: bool
) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        number = journal.operation("mkey-rotate").put_on_disk()
        journal.set_state(number, "done")
        identity = journal.identity() if is_known else "e" * 32
    earlier_store(tmp_path / "keys.db", {"state": state, "journal": identity, "operation": number})
    with moved(tmp_path) as journal:
        last = Runs(journal).last()
        assert last is not None
        assert (last.id == number, last.operation.state) == (is_known, becomes)


def test_killed_between_the_two_stores_it_is_moved_once(tmp_path: Path) -> None:
    with KeyStore(earlier_store(tmp_path / "keys.db", {})) as store, Journal(tmp_path / "journal.db") as journal:
        [(document,)] = store.database.query("SELECT document FROM run_to_move")
        move_run(store, journal)
        with store.database.transaction() as connection:
            connection.execute("INSERT INTO run_to_move VALUES (?)", (document,))  # as if that part had not come
        move_run(store, journal)
        assert not has_run_to_move(store)
        assert [each.command for each in journal.list_operations()] == ["mkey-rotate"]


def test_nothing_is_moved_without_a_run_or_in_a_dry_run(tmp_path: Path) -> None:
    move_run_between(tmp_path / "keys.db", tmp_path / "journal.db", dry_run=False)
    assert list(tmp_path.iterdir()) == []
    before = earlier_store(tmp_path / "keys.db", {}).read_bytes()
    with pytest.raises(UsageError, match="the next command that changes anything moves it to the journal first"):
        move_run_between(tmp_path / "keys.db", tmp_path / "journal.db", dry_run=True)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [before]


def test_one_that_cannot_be_read_stays_where_it_is(tmp_path: Path) -> None:
    with KeyStore(earlier_store(tmp_path / "keys.db", {"via": "{"})) as store, Journal(None) as journal:
        with pytest.raises(StoreError, match="the run of an earlier version cannot be read"):
            move_run(store, journal)
        assert has_run_to_move(store)
        assert journal.list_operations() == []


def test_a_newer_run_of_another_key_store_in_the_same_journal_does_not_make_it_disappear(tmp_path: Path) -> None:
    earlier_store(tmp_path / "keys.db", {})
    with Journal(tmp_path / "journal.db") as journal:
        number = journal.operation("mkey-deploy").put_on_disk()
        Runs(journal).begin(number, RunOptions(), [NewRunPort(7, 8, 1)])
        journal.set_state(number, "done")
    with moved(tmp_path) as journal:
        assert [(each.command, each.state) for each in journal.list_operations()] == [
            ("mkey-deploy", "done"),
            ("mkey-rotate", "open"),
        ]
        last = Runs(journal).last()
        assert last is not None
        assert (last.id, len(Runs(journal).ports(2))) == (1, 2)


def test_its_earlier_starts_have_ended_with_its_last_one(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        for _ in range(2):
            journal.operation("mkey-rotate").put_on_disk()
    earlier_store(tmp_path / "keys.db", {})
    with moved(tmp_path) as journal:
        assert [each.state for each in journal.list_operations()] == ["done", "open"]


def test_one_that_was_being_rolled_back_goes_on_as_an_undo(tmp_path: Path) -> None:
    earlier_store(tmp_path / "keys.db", {"via": json.dumps({**VIA, "goes_back": True})})
    with moved(tmp_path) as journal:
        last = Runs(journal).last()
        assert last is not None
        assert last.operation.is_half_undone
        assert [(each.command, each.state, each.undoes) for each in journal.list_operations()] == [
            ("mkey-rotate", "open", None),
            ("undo", "open", last.id),
        ]
