"""Runs in the key store: what one is, and what became of its ports."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ibkeys.errors import StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import NewRunPort, RunOperation, RunOptions, RunPort, Runs, shared_key_ref
from ibkeys.store.keys.schema import KEYSTORE_SCHEMA

OPTIONS = RunOptions(same=True, protect=2, lease=60, at_once=7, first=1, max_failures=3)
PORTS = [NewRunPort(0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 1), NewRunPort(3, 4, 0, skipped="hidden")]


def test_a_run_comes_back_as_it_was_begun(tmp_path: Path) -> None:
    with KeyStore(tmp_path / "keys.db") as store:
        assert Runs(store).last() is None
        number = Runs(store).begin("mkey-deploy", OPTIONS, PORTS)
    with KeyStore(tmp_path / "keys.db") as store:
        last = Runs(store).last()
        assert last is not None
        assert (last.id, last.command, last.state, last.options, last.finished) == (
            number,
            "mkey-deploy",
            "open",
            OPTIONS,
            None,
        )
        assert Runs(store).ports(number) == [
            RunPort(0, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 1, "waiting", None, None, None, None, ""),
            RunPort(1, 3, 4, 0, "skipped", None, None, None, None, "hidden"),
        ]


def test_what_became_of_a_port() -> None:
    store = KeyStore(None)
    runs = Runs(store)
    number = runs.begin("mkey-rotate", RunOptions(), PORTS[:1])
    assert shared_key_ref(runs.ports(number)) is None
    ref = store.put_pending(1, PORTS[0].port_guid, 1, KeySetting(MKey(2), 2, 60), KeySetting(MKey(1), 2, 60))
    runs.note_key(number, 0, ref, store.get(ref).replaces, 1, 30)
    assert not runs.ports(number)[0].is_begun
    runs.mark(number, 0, "sent")
    [port] = runs.ports(number)
    assert port.is_begun
    assert (port.key_ref, port.old_protect_bits, port.old_lease_period) == (ref, 1, 30)
    assert port.old_ref is not None
    assert store.get(port.old_ref).m_key == MKey(1)
    assert shared_key_ref([port]) == ref
    runs.mark(number, 0, "failed", "no reply")
    assert (runs.ports(number)[0].state, runs.ports(number)[0].reason) == ("failed", "no reply")


def test_a_run_ends_and_is_taken_up_again() -> None:
    store = KeyStore(None)
    runs = Runs(store)
    runs.begin("mkey-deploy", RunOptions(), [])
    number = runs.begin("mkey-rotate", OPTIONS, PORTS)
    runs.finish(number, "ended")
    last = runs.last()
    assert last is not None
    assert (last.id, last.state, last.finished is None) == (number, "ended", False)
    runs.reopen(number, RunOptions(at_once=1, first=None, max_failures=9))
    last = runs.last()
    assert last is not None
    assert (last.state, last.finished) == ("open", None)
    assert last.options == RunOptions(True, 2, 60, 1, None, 9)


def test_a_run_and_its_keys_are_stored_together_or_not_at_all() -> None:
    store = KeyStore(None)

    def fail() -> None:
        with store.in_one_transaction():
            number = Runs(store).begin("mkey-deploy", OPTIONS, PORTS)
            store.put_pending(1, PORTS[0].port_guid, 1, KeySetting(MKey(2), 2, 60), None)
            Runs(store).note_key(number, 0, 999, None, 0, 0)  # there is no such key

    with pytest.raises(StoreError):
        fail()
    assert Runs(store).last() is None
    assert store.rows() == []


def test_a_store_of_before_gets_the_tables_and_keeps_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    path.touch(0o600)
    connection = sqlite3.connect(path)
    for step in KEYSTORE_SCHEMA.steps[:-1]:
        for statement in step:
            connection.execute(statement)
    connection.execute(
        "INSERT INTO keys (port_guid, m_key, state, since) VALUES ('0x0000000000000001', X'0000000000000007', "
        "'current', '2026-01-01T00:00:00Z')"
    )
    connection.execute(f"PRAGMA application_id = {KEYSTORE_SCHEMA.application_id}")
    connection.execute(f"PRAGMA user_version = {KEYSTORE_SCHEMA.version - 1}")
    connection.commit()
    connection.close()
    with KeyStore(path) as store:
        assert store.current() == {1: MKey(7)}
        row = store.current_of(1)
        assert row is not None
        assert row.m_key == MKey(7)
        assert store.current_of(2) is None
        assert Runs(store).last() is None


def test_a_run_knows_its_operation() -> None:
    runs = Runs(KeyStore(None))
    first = runs.begin("mkey-deploy", OPTIONS, PORTS)
    last = runs.last()
    assert last is not None
    assert last.operation is None
    runs.note_operation(first, RunOperation("f" * 32, 7))
    runs.note_operation(first, RunOperation("e" * 32, 8))  # the journal was lost
    last = runs.last()
    assert last is not None
    assert last.operation == RunOperation("e" * 32, 8)
