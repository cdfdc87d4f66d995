"""The encrypted key store: every key is sealed, whoever writes it; the rest is readable; nothing shows a passphrase."""

from __future__ import annotations

import pickle
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.errors import StoreError, StoreSealed
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import SEALED_BYTES, Cost, Passphrase, Seal
from ibkeys.store.sqlite import utc_now

PORT = 0xE002C90300A1B2C3
A, B, C = MKey(0xA1A2A3A4A5A6A7A8), MKey(0xB1B2B3B4B5B6B7B8), MKey(0xC1C2C3C4C5C6C7C8)
CHEAP = Cost(n=4)
WORDS = "correct horse battery staple"


def phrase(text: str = WORDS) -> Passphrase:
    return Passphrase(lambda: text)


def files(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three keys of a port, the key of the subnet, a link and a LID, encrypted."""
    path = tmp_path / "keys.db"
    with KeyStore(path) as store:
        store.promote(store.put_pending(1, PORT, 1, KeySetting(A, 2, 60), None))
        store.put_pending(1, PORT, 1, KeySetting(B, 2, 60), KeySetting(A, 2, 60))
        store.put_imported(2, C)
        store.put_subnet_key(C, "from opensm.conf")
        store.put_links([(1, 1, 2, 2)])
        store.put_lids({PORT: (7, 7)})
        assert A.reveal().to_bytes(8) in files(path)
        store.encrypt(phrase(), CHEAP)
    return path


def test_keys_are_read_with_the_passphrase_and_written_with_it(path: Path) -> None:
    with KeyStore(path, passphrase=phrase()) as store:
        assert store.is_encrypted
        assert store.all_keys().get(PORT, []) == [A, B]
        assert store.all_keys() == {2: [C], PORT: [A, B]}
        assert store.subnet_keys() == [C]
        added = MKey(0xD1D2D3D4D5D6D7D8)
        store.promote(store.put_pending(1, PORT, 1, KeySetting(added, 2, 60), KeySetting(A, 2, 60)))
        store.put_all_imported({3: added}, utc_now())
        store.put_subnet_key(added)
        assert (store.current()[PORT], store.subnet_keys()) == (added, [added, C])
    assert added.reveal().to_bytes(8) not in files(path)


def test_no_key_is_left_in_the_file(path: Path) -> None:
    for key in (A, B, C):
        assert key.reveal().to_bytes(8) not in files(path)
        assert key.hex()[2:].encode() not in files(path).lower()
    assert path.stat().st_mode & 0o077 == 0


def test_what_holds_no_key_is_read_without_the_passphrase(path: Path) -> None:
    with KeyStore(path, create=False) as store:
        assert [(row.port_guid, row.state) for row in store.outline()] == [
            (2, "imported"),
            (PORT, "current"),
            (PORT, "pending"),
        ]
        assert [note for _, note in store.subnet_key_outline()] == ["from opensm.conf"]
        assert (store.links(), store.lids()) == ({(1, 1): (2, 2), (2, 2): (1, 1)}, {PORT: (7, 7)})
        store.put_links([(3, 1, 4, 1)])
        store.promote(2)  # a state is no secret
        store.abandon(1)


@pytest.mark.parametrize("passphrase", [None, phrase("correct horse"), phrase("")])
def test_without_it_or_with_another_there_is_no_key_and_one_line(path: Path, passphrase: Passphrase | None) -> None:
    with KeyStore(path, passphrase=passphrase) as store:
        asks: list[Callable[[], object]] = [
            store.rows,
            store.current,
            store.all_keys,
            store.subnet_keys,
            lambda: store.all_keys().get(PORT, []),
            lambda: store.get(1),
            lambda: store.put_imported(5, A),
            lambda: store.put_pending(1, 5, 1, KeySetting(A, 2, 60), None),
            lambda: store.put_subnet_key(A),
            store.decrypt,
            lambda: store.encrypt(phrase("mine"), CHEAP),
        ]
        for ask in asks:
            with pytest.raises(StoreSealed) as error:
                ask()
            assert "\n" not in str(error.value)
            assert WORDS not in str(error.value)
        assert len(store.outline()) == 3
    with KeyStore(path, passphrase=phrase()) as store:
        assert store.all_keys().get(PORT, []) == [A, B]


def test_another_passphrase_and_back_to_clear(path: Path) -> None:
    with KeyStore(path, passphrase=phrase()) as store:
        store.encrypt(phrase("another"), CHEAP)
        assert store.all_keys().get(PORT, []) == [A, B]
    with KeyStore(path, passphrase=phrase("another")) as store:
        store.decrypt()
        assert store.all_keys().get(PORT, []) == [A, B]
    with KeyStore(path) as store:
        assert (store.is_encrypted, store.all_keys().get(PORT, []), store.subnet_keys()) == (False, [A, B], [C])


def test_a_store_without_keys_does_not_take_another_passphrase_for_the_present_one(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    with KeyStore(path) as store:
        store.encrypt(phrase(), CHEAP)
    with KeyStore(path, passphrase=phrase("wrong")) as store:
        with pytest.raises(StoreSealed, match="not the passphrase"):
            store.encrypt(phrase("new"), CHEAP)
        with pytest.raises(StoreSealed, match="not the passphrase"):
            store.decrypt()
    with KeyStore(path, passphrase=phrase()) as store:
        store.put_imported(PORT, A)


def test_it_is_asked_for_once_and_only_when_needed(path: Path) -> None:
    asked = []

    def ask() -> str:
        asked.append(1)
        return WORDS

    one = Passphrase(ask)
    for _ in range(3):
        with KeyStore(path, passphrase=one) as store:
            store.outline()
    assert not asked
    for _ in range(3):
        with KeyStore(path, passphrase=one) as store:
            store.all_keys().get(PORT, [])
    assert len(asked) == 1
    with KeyStore(path.with_name("clear.db"), passphrase=Passphrase(ask)) as store:
        store.put_imported(1, A)
    assert len(asked) == 1


def test_a_key_in_clear_is_kept_out_whoever_writes_it(path: Path, tmp_path: Path) -> None:
    """The database itself refuses: also an older program, or a hand with sqlite3."""
    by_hand = sqlite3.connect(path)
    row = "(NULL, NULL, '0x0000000000000009', NULL, ?, NULL, NULL, 'imported', '', '', NULL, NULL)"
    for statement in (
        f"INSERT INTO keys VALUES {row}",
        "UPDATE keys SET m_key = ?",
        "INSERT INTO subnet_keys VALUES (NULL, ?, '', '', '')",
        "UPDATE subnet_keys SET m_key = ?",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="encrypted"):
            by_hand.execute(statement, (bytes(8),))
    by_hand.close()
    with KeyStore(tmp_path / "clear.db"):
        by_hand = sqlite3.connect(tmp_path / "clear.db")
        with pytest.raises(sqlite3.IntegrityError, match="encrypted"):
            by_hand.execute(f"INSERT INTO keys VALUES {row}", (bytes(SEALED_BYTES),))
        by_hand.close()


def test_a_sealed_key_is_not_taken_for_another_ports(path: Path) -> None:
    by_hand = sqlite3.connect(path)
    by_hand.execute("UPDATE keys SET m_key = (SELECT m_key FROM keys WHERE id = 1) WHERE port_guid LIKE '%2'")
    by_hand.commit()
    by_hand.close()
    with KeyStore(path, passphrase=phrase()) as store:
        assert [store.get(ref).m_key for ref in (1, 2)] == [A, B]
        with pytest.raises(StoreSealed):
            store.get(3)


def test_a_damaged_cost_does_not_take_all_memory(path: Path) -> None:
    by_hand = sqlite3.connect(path)
    by_hand.execute("UPDATE encryption SET n = 1 << 40")
    by_hand.commit()
    by_hand.close()
    with KeyStore(path, passphrase=phrase()) as store, pytest.raises(StoreError, match="damaged"):
        store.rows()


def test_the_default_cost_is_what_the_man_page_says() -> None:
    assert (Cost().n, Cost().r, Cost().p, Cost().memory) == (131072, 8, 1, 128 << 20)


def test_the_same_key_is_sealed_differently_each_time() -> None:
    seal = Seal(bytes(32))
    assert seal.seal(A, "x") != seal.seal(A, "x")
    assert len(seal.seal(A, "x")) == SEALED_BYTES
    assert seal.open(seal.seal(A, "x"), "x", MKey) == A


def test_passphrase_masks_itself() -> None:
    secret = phrase()
    secret.secret(b"salt", CHEAP)
    assert WORDS not in f"{secret} {secret!r}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_without_the_library_the_line_says_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with KeyStore(path, passphrase=phrase()) as store:
        assert len(store.outline()) == 3
        with pytest.raises(StoreSealed, match=r"install cryptography"):
            store.rows()
