"""Keys of other management classes in the key store: the newest counts, sealed or not, and into the ring."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from ibkeys.doctor.host_facts import check_key_files
from ibkeys.errors import FileFormatError, StoreError, StoreSealed
from ibkeys.keys.classkey import ClassKey
from ibkeys.managers.host_facts import key_files_in
from ibkeys.managers.key_files import import_key_files
from ibkeys.mkeys.key_sources import Keys, load_ring
from ibkeys.store.keystore.class_keys import ClassKeyStore
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import Cost, Passphrase
from ibkeys.store.paths import StorePaths

A, B = ClassKey(0xA1A2A3A4A5A6A7A8), ClassKey(0xB1B2B3B4B5B6B7B8)
PORT, OTHER = 0x0002C9030000ABCD, 0x0002C9030000ABCE


def test_the_newest_key_of_a_port_and_class_counts() -> None:
    with KeyStore(None) as store:
        keys = ClassKeyStore(store)
        assert keys.put_all_imported("cc", {PORT: A, OTHER: A}) == 2
        assert keys.put_all_imported("cc", {PORT: A}) == 0
        assert keys.put_all_imported("cc", {PORT: B}) == 1
        assert keys.put_all_imported("vs", {PORT: A}) == 1
        assert keys.all_keys() == {"cc": {PORT: B, OTHER: A}, "vs": {PORT: A}}
        assert keys.put_all_imported("cc", {PORT: A}) == 1, "an older key that is the newest again"
        assert keys.all_keys()["cc"][PORT] == A
        assert keys.count() == {"cc": 2, "vs": 1}


def test_they_are_sealed_with_the_store_and_none_is_left_in_clear(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with KeyStore(path) as store:
        ClassKeyStore(store).put_all_imported("n2n", {PORT: A})
        assert A.reveal().to_bytes(8) in path.read_bytes()
        store.encrypt(Passphrase(lambda: "words"), Cost(n=4))
        assert A.reveal().to_bytes(8) not in path.read_bytes()
        ClassKeyStore(store).put_all_imported("n2n", {OTHER: B})
    assert B.reveal().to_bytes(8) not in path.read_bytes()
    with KeyStore(path) as closed:
        assert ClassKeyStore(closed).count() == {"n2n": 2}
        with pytest.raises(StoreSealed):
            ClassKeyStore(closed).all_keys()
    with KeyStore(path, passphrase=Passphrase(lambda: "words")) as opened:
        assert ClassKeyStore(opened).all_keys() == {"n2n": {PORT: A, OTHER: B}}
        opened.decrypt()
        assert ClassKeyStore(opened).all_keys() == {"n2n": {PORT: A, OTHER: B}}


def test_a_sealed_key_is_that_of_its_port_and_class_only(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with KeyStore(path) as store:
        store.encrypt(Passphrase(lambda: "words"), Cost(n=4))
        ClassKeyStore(store).put_all_imported("cc", {PORT: A, OTHER: B})
    by_hand = sqlite3.connect(path)
    by_hand.execute("UPDATE class_keys SET key_class = 'vs' WHERE id = 1")
    by_hand.commit()
    by_hand.close()
    with KeyStore(path, passphrase=Passphrase(lambda: "words")) as store, pytest.raises(StoreError):
        ClassKeyStore(store).all_keys()


def key_files(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, key in (("guid2cckey", A), ("guid2_m2n_key", B)):
        (folder / name).write_text(f"0x{PORT:016x} {key.hex()}\n\n")
        (folder / name).chmod(0o600)


def test_mkey_import_takes_the_files_and_says_how_many(shared: Path) -> None:
    key_files(shared / "keys")
    (shared / "keys" / "guid2cckey").chmod(0o644)
    with KeyStore(None) as store:
        done = import_key_files(store, shared / "keys")
        assert done.class_keys == {"cc": 1, "n2n": 1}
        (warning,) = done.warnings
        assert "guid2cckey: other users may read these keys" in warning
        assert ClassKeyStore(store).all_keys() == {"cc": {PORT: A}, "n2n": {PORT: B}}


def test_a_directory_without_any_key_file_is_refused(tmp_path: Path) -> None:
    with KeyStore(None) as store, pytest.raises(FileFormatError):
        import_key_files(store, tmp_path)
    with pytest.raises(FileFormatError):
        load_ring(Keys(security_keys=tmp_path), StorePaths(None, None))


def test_the_ring_has_those_of_the_files_before_those_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with KeyStore(path) as store:
        ClassKeyStore(store).put_all_imported("cc", {PORT: B, OTHER: B})
        ClassKeyStore(store).put_all_imported("vs", {PORT: B})
    key_files(tmp_path / "keys")
    ring, warnings = load_ring(Keys(security_keys=tmp_path / "keys"), StorePaths(path, None))
    assert warnings == []
    assert ring.class_keys == {"cc": {PORT: A, OTHER: B}, "n2n": {PORT: B}, "vs": {PORT: B}}
    assert not ring.has_keys
    assert "a1a2" not in repr(ring).lower() + json.dumps(str(ring)).lower()


def test_doctor_and_kf_rules_see_the_files(shared: Path) -> None:
    key_files(shared)
    (shared / "guid2vskey").write_text(f"0x{PORT:016x} 0x0\n")
    found = {each.kind: each.holds_key for each in key_files_in([shared])}
    assert found == {"guid2cckey": True, "guid2_m2n_key": True, "guid2vskey": False}
    (shared / "guid2cckey").chmod(0o644)
    (open_file,) = [each for each in check_key_files(key_files_in([shared])) if not each.ok]
    assert open_file.name == "guid2cckey"
    assert "other users may read it (mode 0644)" in open_file.detail
