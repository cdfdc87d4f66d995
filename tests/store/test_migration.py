"""A key store that an earlier version made opens with everything that was in it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ibkeys.errors import StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import Cost, Passphrase
from ibkeys.store.keystore.sm_keys import SmKeys
from tests.corpus import DATA

A, B, C = MKey(0xA1A2A3A4A5A6A7A8), MKey(0xB1B2B3B4B5B6B7B8), MKey(0xFFFFFFFFFFFFFFFF)
PORT, SWITCH = 0xE002C90300A1B2C3, 0x20
NOON = "2026-11-20T12:00:00Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.db"
    path.touch(0o600)
    connection = sqlite3.connect(path)
    connection.executescript((DATA / "stores" / "keystore-1.sql").read_text())
    connection.close()
    return path


def test_rows_links_and_references_come_along(path: Path) -> None:
    with KeyStore(path) as store:
        assert [
            (row.ref, row.port_guid, row.m_key, row.state, row.m_key_protect_bits, row.replaces) for row in store.rows()
        ] == [
            (4, 0x10, A, "imported", None, None),
            (5, SWITCH, MKey(0), "current", 0, None),
            (6, SWITCH, B, "pending", 1, 5),
            (1, PORT, A, "former", 2, None),
            (2, PORT, B, "current", 2, 1),
            (3, PORT, C, "pending", 3, 2),
        ]
        assert {row.since for row in store.rows()} == {NOON}
        assert store.get(4).note == "guid2mkey"
        assert store.links() == {(SWITCH, 1): (PORT, 1), (PORT, 1): (SWITCH, 1), (SWITCH, 3): (SWITCH, 3)}
        assert store.topology_seen() == (NOON, NOON)
        assert (store.lids(), store.subnet_keys(), store.is_encrypted) == ({}, [], False)


def test_the_migrated_store_works_on_and_is_what_a_new_one_is(path: Path, tmp_path: Path) -> None:
    with KeyStore(path) as store:
        ref = store.put_pending(1, PORT, 1, KeySetting(A, 2, 60), KeySetting(C, 2, 60))
        assert ref == 8  # the former current key got 7: no number is used twice
        store.promote(ref)
        assert store.all_keys().get(PORT, []) == [A, C, B]
        store.encrypt(Passphrase(lambda: "x"), Cost(n=4))
        assert store.all_keys().get(PORT, []) == [A, C, B]
    with KeyStore(tmp_path / "new.db"):
        pass

    def schema(file: Path) -> list[tuple[str, str, str]]:
        connection = sqlite3.connect(file)
        rows = connection.execute("SELECT type, name, replace(sql, '\"', '') FROM sqlite_master ORDER BY 1, 2")
        found = [row for row in rows if row[2]]
        connection.close()
        return found

    assert schema(path) == schema(tmp_path / "new.db")


def test_a_crash_in_the_middle_leaves_the_old_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = KeyStore.schema.steps
    broken = type(KeyStore.schema)(
        KeyStore.schema.what, KeyStore.schema.application_id, (*steps[:-1], (*steps[-1], "no statement"))
    )
    monkeypatch.setattr(KeyStore, "schema", broken)
    with pytest.raises(StoreError):
        KeyStore(path)
    monkeypatch.undo()
    with KeyStore(path) as store:
        assert len(store.rows()) == 6


def test_a_store_that_others_may_read_is_refused_before_anything_is_read(path: Path) -> None:
    path.chmod(0o640)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="other users may read"):
        KeyStore(path)
    assert path.read_bytes() == before


def test_the_table_of_keys_of_subnet_managers_is_added(path: Path) -> None:
    key = SMKey(0xA1A2A3A4A5A6A7A8)
    with KeyStore(path) as store:
        assert SmKeys(store).rows() == []
        SmKeys(store).promote(SmKeys(store).put_pending("sm_key", key))
    with KeyStore(path) as store:
        assert [(row.kind, row.state, row.sm_key) for row in SmKeys(store).rows()] == [("sm_key", "current", key)]
        assert len(store.rows()) == 6
