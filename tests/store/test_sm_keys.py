"""Keys of subnet managers in the key store: their states, sealed or not, and in damaged stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import StoreError, StoreSealed
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import SEALED_BYTES, Cost, Passphrase
from ibkeys.store.keystore.sm_keys import SmKeyKind, SmKeys

A, B, C = SMKey(0xA1A2A3A4A5A6A7A8), SMKey(0xB1B2B3B4B5B6B7B8), SMKey(0xC1C2C3C4C5C6C7C8)
CHEAP = Cost(n=4)


def words() -> Passphrase:
    return Passphrase(lambda: "words")


@pytest.fixture
def keys() -> SmKeys:
    return SmKeys(KeyStore(None))


def states(keys: SmKeys) -> list[tuple[str, str, SMKey]]:
    return [(row.kind, row.state, row.sm_key) for row in keys.rows()]


def test_a_key_is_pending_then_current_then_former(keys: SmKeys) -> None:
    first = keys.put_pending("sa_key", A, "by hand")
    keys.promote(first)
    keys.promote(first)
    second = keys.put_pending("sa_key", B)
    other = keys.put_pending("sm_key", B)
    assert states(keys) == [("sa_key", "current", A), ("sa_key", "pending", B), ("sm_key", "pending", B)]
    keys.promote(second)
    assert states(keys) == [("sa_key", "former", A), ("sa_key", "current", B), ("sm_key", "pending", B)]
    keys.promote(first)  # a change that went back
    assert states(keys) == [("sa_key", "current", A), ("sa_key", "former", B), ("sm_key", "pending", B)]
    assert keys.get(other).kind == "sm_key"


def test_a_pending_key_that_was_never_confirmed_is_kept(keys: SmKeys) -> None:
    keys.put_pending("sm_key", A)
    ref = keys.put_pending("sm_key", B)
    assert states(keys) == [("sm_key", "former", A), ("sm_key", "pending", B)]
    keys.abandon(ref, "went back")
    assert [(row.state, row.note) for row in keys.outline()] == [
        ("former", "its change was never confirmed"),
        ("former", "went back"),
    ]


def test_the_keys_of_other_subnets_are_neither_listed_nor_changed() -> None:
    store = KeyStore(None)
    keys = SmKeys(store)
    refs = [keys.put_pending("sm_key", A), keys.put_pending("sa_key", B)]
    keys.promote(refs[1])
    here = SmKeys(store, [keys.names()[ref] for ref in refs])
    assert here.rows() == here.outline() == []
    own = [here.put_pending("sm_key", B), here.put_pending("sa_key", C)]
    here.promote(own[1])
    mine = [("sm_key", "pending", B), ("sa_key", "current", C)]
    assert states(here) == mine
    assert states(keys) == [("sm_key", "pending", A), ("sa_key", "current", B), *mine]
    assert here.put_imported("sm_key", A) not in refs  # a file has it here too
    here.promote(here.put_pending("sa_key", A))
    assert [row.state for row in keys.rows()] == ["pending", "current", "pending", "former", "imported", "current"]


def test_a_key_of_a_file_is_stored_once_for_each_kind(keys: SmKeys) -> None:
    refs = [keys.put_imported("sm_key", A), keys.put_imported("sm_key", A), keys.put_imported("sa_key", A)]
    assert refs == [1, 1, 2]
    keys.promote(1)
    assert keys.put_imported("sm_key", A) == 1
    assert states(keys) == [("sm_key", "current", A), ("sa_key", "imported", A)]


def test_a_row_that_is_not_there_is_an_error(keys: SmKeys) -> None:
    for ask in (keys.get, keys.promote, keys.abandon):
        with pytest.raises(StoreError, match="no SM_Key 7"):
            ask(7)


def test_nothing_shows_a_key(keys: SmKeys) -> None:
    ref = keys.put_pending("sm_key", A)
    shown = f"{keys.rows()} {keys.get(ref)!r}"
    assert A.hex()[2:] not in shown
    assert str(A.reveal()) not in shown
    assert "SM_Key not shown" in shown


KIND = st.sampled_from(["sm_key", "sa_key", "other"])
STEPS = st.lists(st.tuples(st.sampled_from(["pending", "imported", "promote", "abandon"]), KIND, st.integers(0, 5)))


@given(STEPS)
def test_whatever_is_done_no_key_is_lost_and_each_kind_has_one_current_and_one_pending_key(
    steps: list[tuple[str, SmKeyKind, int]],
) -> None:
    with KeyStore(None) as store:
        keys = SmKeys(store)
        put: set[tuple[str, SMKey]] = set()
        refs = []
        for step, kind, number in steps:
            key = SMKey(number)
            if step in ("pending", "imported"):
                refs.append(keys.put_pending(kind, key) if step == "pending" else keys.put_imported(kind, key))
                put.add((kind, key))
                assert keys.get(refs[-1]).sm_key == key
            elif refs:
                (keys.promote if step == "promote" else keys.abandon)(refs[number % len(refs)])
            rows = keys.rows()
            assert {(row.kind, row.sm_key) for row in rows} == put
            unique = [(row.kind, row.state) for row in rows if row.state in ("current", "pending")]
            assert len(unique) == len({*unique})


# --- sealed -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    path = tmp_path / "keys.db"
    with KeyStore(path) as store:
        keys = SmKeys(store)
        keys.promote(keys.put_pending("sa_key", A))
        keys.put_pending("sm_key", B, "why")
        store.put_subnet_key(MKey(1))
        assert A.reveal().to_bytes(8) in path.read_bytes()
        store.encrypt(words(), CHEAP)
    return path


def test_keys_are_sealed_and_opened_with_the_passphrase(sealed: Path) -> None:
    with KeyStore(sealed, passphrase=words()) as store:
        keys = SmKeys(store)
        assert states(keys) == [("sa_key", "current", A), ("sm_key", "pending", B)]
        keys.put_pending("sa_key", C)
        store.encrypt(Passphrase(lambda: "others"), CHEAP)
        assert states(keys)[-1] == ("sa_key", "pending", C)
    data = b"".join(each.read_bytes() for each in sealed.parent.iterdir())
    assert not any(key.reveal().to_bytes(8) in data for key in (A, B, C))
    with KeyStore(sealed, passphrase=Passphrase(lambda: "others")) as store:
        store.decrypt()
    with KeyStore(sealed) as store:
        assert states(SmKeys(store))[-1] == ("sa_key", "pending", C)


def test_without_the_passphrase_states_are_seen_and_no_key(sealed: Path) -> None:
    with KeyStore(sealed) as store:
        keys = SmKeys(store)
        assert [(row.kind, row.state, row.note) for row in keys.outline()] == [
            ("sa_key", "current", ""),
            ("sm_key", "pending", "why"),
        ]
        asks: list[Callable[[], object]] = [
            keys.rows,
            lambda: keys.get(1),
            lambda: keys.put_pending("sa_key", C),
            lambda: keys.put_imported("sa_key", C),
        ]
        for ask in asks:
            with pytest.raises(StoreSealed):
                ask()
        keys.promote(2)  # a state is no secret
        assert [row.state for row in keys.outline()] == ["current", "current"]


def test_a_sealed_key_is_not_taken_for_one_of_another_kind(sealed: Path) -> None:
    by_hand = sqlite3.connect(sealed)
    by_hand.execute("UPDATE sm_keys SET sm_key = (SELECT sm_key FROM sm_keys WHERE id = 1) WHERE id = 2")
    by_hand.commit()
    by_hand.close()
    with KeyStore(sealed, passphrase=words()) as store, pytest.raises(StoreSealed):
        SmKeys(store).get(2)


@pytest.mark.parametrize("is_sealed", [True, False])
def test_the_database_itself_keeps_the_wrong_kind_of_key_out(sealed: Path, tmp_path: Path, is_sealed: bool) -> None:
    path = sealed if is_sealed else tmp_path / "clear.db"
    with KeyStore(path, passphrase=words()) as store:
        SmKeys(store).put_imported("sm_key", C)
    wrong = bytes(8 if is_sealed else SEALED_BYTES)
    by_hand = sqlite3.connect(path)
    for statement in (
        "INSERT INTO sm_keys VALUES (NULL, 'sm_key', ?, 'former', '', '', '')",
        "UPDATE sm_keys SET sm_key = ?",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="sealed keys"):
            by_hand.execute(statement, (wrong,))
    by_hand.close()


# --- damaged, older ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["kind = 'm_key'", "state = 'gone'", "since = 'today'", "note = x'ff'", "id = -1"])
def test_a_damaged_row_is_an_error(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "keys.db"
    with KeyStore(path) as store:
        SmKeys(store).put_imported("sm_key", A)
    by_hand = sqlite3.connect(path)
    by_hand.execute("PRAGMA ignore_check_constraints = ON")
    by_hand.execute(f"UPDATE sm_keys SET {damage}")
    by_hand.commit()
    by_hand.close()
    with KeyStore(path) as store:
        for ask in (SmKeys(store).rows, SmKeys(store).outline):
            with pytest.raises(StoreError, match="damaged"):
                ask()
