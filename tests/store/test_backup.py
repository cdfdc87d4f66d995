"""Key store and journal in one backup, and back: nothing is lost on the way, and nothing replaced that has more."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ibkeys.errors import Refused, StoreError, StoreLocked
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.store import backup
from ibkeys.store.backup import back_up, last_backup, restore
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import Cost, Passphrase
from ibkeys.store.keystore.sm_keys import SmKeys
from ibkeys.store.lock import exclusive
from ibkeys.store.origin import this_process
from ibkeys.store.paths import StorePaths

A, B, C = MKey(0xA1A2A3A4A5A6A7A8), MKey(0xB1B2B3B4B5B6B7B8), MKey(0xC1C2C3C4C5C6C7C8)


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    paths = StorePaths(tmp_path / "keys.db", tmp_path / "journal.db")
    add(paths, 0x10, A)
    with KeyStore(paths.keystore) as store:
        SmKeys(store).put_imported("sm_key", SMKey(0x7172737475767778))
    Journal(paths.journal).close()
    return paths


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "saved"


def add(paths: StorePaths, guid: int, key: MKey) -> None:
    with KeyStore(paths.keystore) as store:
        store.put_imported(guid, key)


def keys(paths: StorePaths) -> dict[int, list[MKey]]:
    with KeyStore(paths.keystore) as store:
        return store.all_keys()


def begin(paths: StorePaths) -> None:
    with Journal(paths.journal) as journal:
        journal.begin_operation("pkey-set", this_process())


def operations(paths: StorePaths) -> int:
    with Journal(paths.journal) as journal:
        return len(journal.list_operations())


def lose(*lost: Path | None) -> None:
    for path in lost:
        assert path is not None
        path.unlink()


@pytest.mark.parametrize("which", ["key store", "journal", "both"])
def test_what_was_lost_comes_back(paths: StorePaths, file: Path, which: str) -> None:
    begin(paths)
    saved = back_up(paths, file)
    assert (saved.keys, saved.operations) == (2, 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with KeyStore(paths.keystore) as store:
        names = SmKeys(store).names()
    lose(*{"key store": (paths.keystore,), "journal": (paths.journal,)}.get(which, (paths.keystore, paths.journal)))
    assert (restore(paths, file).kept, keys(paths), operations(paths)) == ((), {0x10: [A]}, 1)
    with KeyStore(paths.keystore) as store:
        assert SmKeys(store).names() == names
    assert restore(paths, file).kept == ()  # again: it changes nothing


def test_stores_with_more_are_not_replaced(paths: StorePaths, file: Path) -> None:
    back_up(paths, file)
    add(paths, 0x20, B)
    begin(paths)
    before = [path.read_bytes() for path in (paths.keystore, paths.journal) if path is not None]
    with pytest.raises(Refused, match="1 key and 1 operation that this backup lacks") as refused:
        restore(paths, file)
    assert refused.value.interlock == "lost-keys"
    assert [path.read_bytes() for path in (paths.keystore, paths.journal) if path is not None] == before
    kept = restore(paths, file, overridden=True).kept
    assert keys(paths) == {0x10: [A]}
    assert keys(StorePaths(kept[0], None)) == {0x10: [A], 0x20: [B]}
    assert operations(StorePaths(None, kept[1])) == 1


def test_what_is_replaced_twice_within_a_second_is_kept_twice(paths: StorePaths, file: Path) -> None:
    back_up(paths, file)
    kept = []
    for key in (B, C):
        add(paths, 0x20, key)
        [copy] = restore(paths, file, overridden=True, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)).kept[:1]
        kept.append(copy)
    assert [keys(StorePaths(copy, None)) for copy in kept] == [{0x10: [A], 0x20: [B]}, {0x10: [A], 0x20: [C]}]


def test_a_backup_that_is_replaced_twice_within_a_second_is_kept_twice(paths: StorePaths, file: Path) -> None:
    def now() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    saved, kept = [], []
    for key in (B, C):
        add(paths, 0x20, key)
        back_up(paths, file)
        saved.append(file.read_bytes())
        lose(paths.keystore)
        kept += back_up(paths, file, overridden=True, clock=now).kept
    assert [copy.read_bytes() for copy in kept] == saved


def test_a_backup_with_more_is_not_replaced_by_that_of_an_empty_store(paths: StorePaths, file: Path) -> None:
    """As a nightly command would, after the key store was lost."""
    back_up(paths, file)
    before = file.read_bytes()
    lose(paths.keystore)
    with pytest.raises(Refused, match="lost-keys"):
        back_up(paths, file)
    assert file.read_bytes() == before
    [kept] = back_up(paths, file, overridden=True).kept
    assert kept.read_bytes() == before


def test_a_later_backup_replaces_an_earlier_one(paths: StorePaths, file: Path) -> None:
    back_up(paths, file)
    add(paths, 0x10, B)
    assert (back_up(paths, file).keys, back_up(paths, file).kept) == (3, ())


def test_a_sealed_store_is_sealed_in_its_backup(paths: StorePaths, file: Path) -> None:
    phrase = Passphrase(lambda: "words")
    with KeyStore(paths.keystore) as store:
        store.encrypt(phrase, Cost(n=4))
    back_up(paths, file)
    assert A.reveal().to_bytes(8) not in file.read_bytes()
    lose(paths.keystore)
    restore(paths, file)
    with KeyStore(paths.keystore, passphrase=phrase) as store:
        assert store.all_keys() == {0x10: [A]}


def test_a_later_backup_of_a_sealed_store_replaces_an_earlier_one(paths: StorePaths, file: Path) -> None:
    """Rows that change their state keep their sealed key, so none seems to be lost."""
    phrase = Passphrase(lambda: "words")
    with KeyStore(paths.keystore) as store:
        store.encrypt(phrase, Cost(n=4))
    with KeyStore(paths.keystore, passphrase=phrase) as store:
        store.promote(store.put_pending(1, 0x10, 1, KeySetting(A, 2, 60), KeySetting(B, 2, 60)))
        back_up(paths, file)
        store.promote(store.put_pending(1, 0x10, 1, KeySetting(B, 2, 60), KeySetting(A, 2, 60)))
    assert back_up(paths, file).kept == ()


def test_deleted_keys_are_not_in_the_free_space_of_a_backup(paths: StorePaths, file: Path) -> None:
    with KeyStore(paths.keystore) as store:
        store.encrypt(Passphrase(lambda: "words"), Cost(n=4))
        store.decrypt()
        store.encrypt(Passphrase(lambda: "more"), Cost(n=4))
    back_up(paths, file)
    assert A.reveal().to_bytes(8) not in file.read_bytes()


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_restore_that_is_cut_off_is_finished_by_the_same_command(
    paths: StorePaths, file: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the key store, between both, and before the record of it."""
    begin(paths)
    back_up(paths, file)
    lose(paths.keystore, paths.journal)
    real, calls = backup.replace_private_file, iter(range(1, 9))

    def cut_off(path: Path, data: bytes) -> None:
        if next(calls) == step:
            raise KeyboardInterrupt
        real(path, data)

    monkeypatch.setattr(backup, "replace_private_file", cut_off)
    with pytest.raises(KeyboardInterrupt):
        restore(paths, file)
    monkeypatch.undo()
    restore(paths, file)
    assert (keys(paths), operations(paths)) == ({0x10: [A]}, 1)


def test_a_left_over_of_the_lost_store_is_not_played_into_the_restored_one(paths: StorePaths, file: Path) -> None:
    back_up(paths, file)
    lose(paths.keystore)
    assert paths.keystore is not None
    left_over = paths.keystore.with_name("keys.db-journal")
    left_over.write_bytes(os.urandom(4096))
    left_over.chmod(0o600)
    restore(paths, file)
    assert not left_over.exists()
    assert keys(paths) == {0x10: [A]}


def test_a_damaged_store_is_replaced_only_with_consent_and_kept(paths: StorePaths, file: Path) -> None:
    back_up(paths, file)
    assert paths.keystore is not None
    paths.keystore.write_bytes(b"damaged " * 1000)
    with pytest.raises(Refused, match="cannot be read"):
        restore(paths, file)
    kept = restore(paths, file, overridden=True).kept
    assert (kept[0].read_bytes(), keys(paths)) == (b"damaged " * 1000, {0x10: [A]})


@pytest.mark.parametrize("harm", ["cut off", "a byte", "other"])
def test_a_damaged_backup_changes_nothing(paths: StorePaths, file: Path, harm: str) -> None:
    back_up(paths, file)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes({"cut off": data[:-9], "a byte": bytes(data), "other": b"SQLite"}[harm])
    before = keys(paths)
    with pytest.raises(StoreError, match=r"damaged or cut off|is not a backup"):
        restore(paths, file)
    assert keys(paths) == before


def test_a_backup_does_not_replace_what_is_none(paths: StorePaths, file: Path) -> None:
    file.touch(0o600)
    file.write_text("a letter")
    for path in (file, paths.keystore, paths.journal):
        assert path is not None
        before = path.read_bytes()
        with pytest.raises(StoreError, match="name another"):
            back_up(paths, path)
        assert path.read_bytes() == before


def test_neither_runs_beside_a_changing_command(paths: StorePaths, file: Path) -> None:
    back_up(paths, file)
    with exclusive(paths.keystore, command="mkey-rotate"):
        for command in (back_up, restore):
            with pytest.raises(StoreLocked, match="mkey-rotate"):
                command(paths, file)


def test_the_record_says_whether_something_changed_since(paths: StorePaths, file: Path) -> None:
    assert last_backup(paths) == (None, False)
    back_up(paths, file)
    last, is_new = last_backup(paths)
    assert last is not None
    assert (last.file, last.keys, is_new) == (str(file), 2, True)
    begin(paths)
    assert last_backup(paths)[1] is False
    restore(paths, file, overridden=True)
    assert last_backup(paths)[1] is True
    add(paths, 0x20, B)
    assert last_backup(paths)[1] is False
