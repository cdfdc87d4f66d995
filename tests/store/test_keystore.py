"""The key store: no key is ever lost, none is ever shown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.store.keystore.keystore import KeyStore

NODE, PORT_GUID, PORT = 0x0002C90300A1B2C2, 0xE002C90300A1B2C3, 1
A, B, C = MKey(0xA1A2A3A4A5A6A7A8), MKey(0xB1B2B3B4B5B6B7B8), MKey(0xFFFFFFFFFFFFFFFF)


def noon() -> datetime:
    return datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def store() -> KeyStore:
    return KeyStore(None, clock=noon)


def put(store: KeyStore, new: MKey, old: MKey | None = None, port_guid: int = PORT_GUID) -> int:
    return store.put_pending(NODE, port_guid, PORT, KeySetting(new, 2, 60), old and KeySetting(old, 2, 60))


def states(store: KeyStore) -> list[tuple[str, MKey]]:
    return [(row.state, row.m_key) for row in store.rows()]


def test_first_key_of_a_port_goes_from_pending_to_current(store: KeyStore) -> None:
    ref = put(store, A)
    assert states(store) == [("pending", A)]
    assert store.current() == {}
    store.promote(ref)
    assert store.current() == {PORT_GUID: A}
    [row] = store.rows()
    assert (row.ref, row.node_guid, row.port_guid, row.port) == (ref, NODE, PORT_GUID, PORT)
    assert (row.m_key_protect_bits, row.m_key_lease_period, row.since) == (2, 60, "2026-11-20T12:00:00Z")


def test_rotation_keeps_the_old_key_findable_at_every_step(store: KeyStore) -> None:
    store.promote(put(store, A))
    ref = put(store, B, A)
    assert states(store) == [("current", A), ("pending", B)]
    assert store.all_keys().get(PORT_GUID, []) == [A, B]
    store.promote(ref)
    assert states(store) == [("former", A), ("current", B)]
    assert store.all_keys().get(PORT_GUID, []) == [B, A]


def test_new_key_says_which_row_it_replaces(store: KeyStore) -> None:
    first = put(store, A)
    store.promote(first)
    assert store.get(put(store, B, A)).replaces == first
    assert store.get(first).replaces is None


def test_old_key_from_elsewhere_becomes_current_with_its_bits(store: KeyStore) -> None:
    ref = store.put_pending(NODE, PORT_GUID, PORT, KeySetting(B, 2, 60), KeySetting(A, 1, 30))
    assert states(store) == [("current", A), ("pending", B)]
    old = store.get(store.get(ref).replaces or 0)
    assert (old.m_key, old.m_key_protect_bits, old.m_key_lease_period) == (A, 1, 30)


def test_old_key_that_differs_from_the_current_one_does_not_push_it_out(store: KeyStore) -> None:
    store.promote(put(store, A))
    put(store, C, B)
    assert states(store) == [("former", A), ("current", B), ("pending", C)]
    assert store.all_keys().get(PORT_GUID, []) == [B, C, A]


def test_unknown_old_key_leaves_the_current_one_alone(store: KeyStore) -> None:
    store.promote(put(store, A))
    put(store, B, None)
    assert states(store) == [("current", A), ("pending", B)]


def test_second_attempt_keeps_the_first_ones_key(store: KeyStore) -> None:
    put(store, A)
    put(store, B)
    assert states(store) == [("former", A), ("pending", B)]
    assert store.all_keys().get(PORT_GUID, []) == [B, A]


def test_abandoned_key_stays_findable(store: KeyStore) -> None:
    store.promote(put(store, A))
    store.abandon(put(store, B, A), note="no reply to the Set")
    assert states(store) == [("current", A), ("former", B)]
    assert store.rows()[1].note == "no reply to the Set"
    assert store.all_keys().get(PORT_GUID, []) == [A, B]


def test_abandoned_key_that_turns_out_to_be_in_the_port_becomes_current(store: KeyStore) -> None:
    store.promote(put(store, A))
    ref = put(store, B, A)
    store.abandon(ref)
    store.promote(ref)
    assert store.current() == {PORT_GUID: B}
    assert store.all_keys().get(PORT_GUID, []) == [B, A]


def test_promoting_twice_changes_nothing(store: KeyStore) -> None:
    ref = put(store, A)
    store.promote(ref)
    before = store.rows()
    store.promote(ref)
    assert store.rows() == before


def test_current_key_is_not_abandoned(store: KeyStore) -> None:
    ref = put(store, A)
    store.promote(ref)
    with pytest.raises(StoreError):
        store.abandon(ref)
    assert states(store) == [("current", A)]


def test_unknown_reference_is_one_line(store: KeyStore) -> None:
    for ask in (store.promote, store.abandon, store.get):
        with pytest.raises(StoreError, match="no key 7"):
            ask(7)


def test_imported_keys_are_tried_last_and_not_doubled(store: KeyStore) -> None:
    first = store.put_imported(PORT_GUID, A, note="guid2mkey")
    assert store.put_imported(PORT_GUID, A) == first
    store.put_imported(PORT_GUID, B)
    ref = put(store, C)
    assert store.put_imported(PORT_GUID, C) == ref
    assert store.all_keys().get(PORT_GUID, []) == [C, B, A]
    assert store.get(first).node_guid is None


def test_an_imported_key_is_tried_before_a_former_one(store: KeyStore) -> None:
    store.abandon(put(store, A))
    store.put_imported(PORT_GUID, B)
    assert store.all_keys().get(PORT_GUID, []) == [B, A]


EARLIER, LATER = datetime(2026, 11, 20, 11, tzinfo=UTC), datetime(2026, 11, 20, 13, tzinfo=UTC)


def bring(store: KeyStore, key: MKey, written: datetime) -> str:
    return store.put_all_imported({PORT_GUID: key}, written, "from guid2mkey")[PORT_GUID]


def test_import_of_many_keys_says_what_each_was(store: KeyStore) -> None:
    store.promote(put(store, A, port_guid=1))
    store.promote(put(store, A, port_guid=2))
    results = store.put_all_imported({1: A, 2: B, 3: C, 4: MKey(0)}, LATER)
    assert results == {1: "known", 2: "changed", 3: "new", 4: "new"}
    assert store.all_keys() == {1: [A], 2: [B, A], 3: [C], 4: [MKey(0)]}
    assert store.put_all_imported({1: A, 2: B, 3: C, 4: MKey(0)}, LATER) == dict.fromkeys((1, 2, 3, 4), "known")
    assert len(store.rows()) == 5


def test_import_of_older_files_leaves_the_proven_key_first(store: KeyStore) -> None:
    store.promote(put(store, A))
    assert bring(store, B, EARLIER) == "older"
    assert bring(store, B, EARLIER) == "older"
    assert store.all_keys().get(PORT_GUID, []) == [A, B]
    assert store.current() == {PORT_GUID: A}


def test_import_of_newer_files_takes_the_first_place_and_back(store: KeyStore) -> None:
    store.promote(put(store, A))
    assert bring(store, B, LATER) == "changed"
    assert (store.all_keys().get(PORT_GUID, []), store.current()) == ([B, A], {})
    assert bring(store, A, LATER) == "changed"  # a former key comes back
    assert store.all_keys().get(PORT_GUID, []) == [A, B]
    assert len(store.rows()) == 2


def test_import_of_key_zero_never_replaces_a_key(store: KeyStore) -> None:
    """A stock OpenSM that starts without the keys, and does not reach the ports, has 0 for them in its newer file."""
    none = MKey(0)
    assert bring(store, none, EARLIER) == "new"
    assert bring(store, A, EARLIER) == "changed"
    assert bring(store, none, LATER) == "older"
    store.promote(put(store, B))
    assert bring(store, none, LATER) == "older"
    assert store.all_keys()[PORT_GUID] == [B, A, none]
    assert store.current() == {PORT_GUID: B}


def test_import_leaves_an_unfinished_change_to_be_resumed(store: KeyStore) -> None:
    store.promote(put(store, A))
    put(store, B, A)
    assert bring(store, B, EARLIER) == "known"
    assert states(store) == [("current", A), ("pending", B)]
    assert store.in_change() == {PORT_GUID: [A, B]}
    assert bring(store, B, LATER) == "changed"
    assert states(store) == [("former", A), ("pending", B)], "a file that is newer than the current key has the new one"
    assert store.all_keys().get(PORT_GUID, []) == [B, A]
    assert store.in_change() == {PORT_GUID: [B]}
    assert bring(store, C, LATER) == "changed"
    assert store.all_keys().get(PORT_GUID, []) == [C, B, A], "the key that was imported last is tried first"
    assert store.in_change() == {PORT_GUID: [C]}


def test_the_key_of_the_whole_subnet(store: KeyStore) -> None:
    assert store.subnet_keys() == []
    for key in (A, B, B, A):
        store.put_subnet_key(key, "from opensm.conf")
    assert store.subnet_keys() == [A, B]
    assert store.subnet_key_outline() == [("2026-11-20T12:00:00Z", "from opensm.conf")] * 3


def test_a_key_of_the_whole_subnet_is_found_by_its_number(store: KeyStore) -> None:
    refs = [store.put_subnet_key(key) for key in (A, B, B, A)]
    assert refs == [1, 2, 2, 3]
    assert [store.subnet_key(ref) for ref in refs] == [A, B, B, A]
    assert store.subnet_key_refs() == {A: 3, B: 2}
    with pytest.raises(StoreError, match="whole subnet 7"):
        store.subnet_key(7)


def test_ports_do_not_see_each_others_keys(store: KeyStore) -> None:
    put(store, A, port_guid=1)
    put(store, B, port_guid=2)
    assert (store.all_keys().get(1, []), store.all_keys().get(2, []), store.all_keys().get(3, [])) == ([A], [B], [])


def test_a_pending_key_is_tried_before_a_current_zero(store: KeyStore) -> None:
    store.promote(put(store, MKey(0), A))
    assert store.all_keys()[PORT_GUID][0].is_zero
    put(store, B, MKey(0))
    assert store.all_keys()[PORT_GUID] == [B, A, MKey(0)]
    assert store.in_change() == {PORT_GUID: [B, MKey(0)]}


def test_key_zero_is_kept_like_any_other(store: KeyStore) -> None:
    store.promote(put(store, A, MKey(0)))
    assert store.all_keys().get(PORT_GUID, []) == [A, MKey(0)]


def test_nothing_shows_a_key(store: KeyStore) -> None:
    ref = put(store, A, B)
    shown = f"{store.rows()} {store.get(ref)!r} {store.all_keys().get(PORT_GUID, [])} {store.current()}"
    assert repr(NO_MKEY) in shown
    for key in (A, B):
        assert key.hex()[2:] not in shown.lower()
        assert str(key.reveal()) not in shown
        assert repr(key.reveal().to_bytes(8))[2:-1] not in shown


def test_reopened_file_has_everything(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with KeyStore(path) as store:
        store.promote(put(store, A))
        put(store, B, A)
        store.put_links([(1, 2, 3, 4)])
        before = store.rows()
    with KeyStore(path, create=False) as store:
        assert store.rows() == before
        assert store.links() == {(1, 2): (3, 4), (3, 4): (1, 2)}


def test_moved_cable_replaces_what_was_known_of_all_its_ends(store: KeyStore) -> None:
    store.put_links([(0xA, 1, 0xB, 1), (0xC, 1, 0xD, 1)])
    store.put_links([(0xA, 1, 0xC, 1)])
    assert store.links() == {(0xA, 1): (0xC, 1), (0xC, 1): (0xA, 1)}


def test_link_seen_from_both_ends_and_loop_to_itself(store: KeyStore) -> None:
    store.put_links([(1, 1, 2, 2), (2, 2, 1, 1), (3, 3, 3, 3)])
    assert store.links() == {(1, 1): (2, 2), (2, 2): (1, 1), (3, 3): (3, 3)}


keys = st.integers(0, 5).map(lambda number: MKey(number * 0x1111111111111111))
ports = st.integers(1, 3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("pending"), ports, keys, st.none() | keys),
        st.tuples(st.just("imported"), ports, keys),
        st.tuples(st.just("all imported"), ports, keys, st.sampled_from([EARLIER, LATER, datetime.now(UTC)])),
        st.tuples(st.just("promote"), st.integers(0, 30)),
        st.tuples(st.just("abandon"), st.integers(0, 30)),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)


@given(steps=steps)
def test_no_sequence_of_operations_loses_a_key(steps: list[Any]) -> None:
    given_keys: dict[int, set[MKey]] = {}
    refs: list[int] = []
    with TemporaryDirectory() as directory:
        path = Path(directory) / "keys.db"
        store = KeyStore(path)
        store.database.query("PRAGMA synchronous = OFF")  # power cuts are not what is tested here
        for name, *arguments in steps:
            match name, arguments:
                case "pending", [port, new, old]:
                    refs.append(put(store, new, old, port))
                    given_keys.setdefault(port, set()).update({new} if old is None else {new, old})
                    assert store.get(refs[-1]).state == "pending"
                case "imported", [port, key]:
                    refs.append(store.put_imported(port, key))
                    given_keys.setdefault(port, set()).add(key)
                case "all imported", [port, key, written]:
                    result = store.put_all_imported({port: key}, written)[port]
                    if not (result == "older" and key.is_zero):  # 0 is no key to lose
                        given_keys.setdefault(port, set()).add(key)
                        assert (result == "older") <= (port in store.current())
                case "promote", [number] if refs:
                    ref = refs[number % len(refs)]
                    store.promote(ref)
                    assert store.current()[store.get(ref).port_guid] == store.get(ref).m_key
                case "abandon", [number] if refs:
                    ref = refs[number % len(refs)]
                    if store.get(ref).state != "current":
                        store.abandon(ref)
                case "reopen", []:
                    store.close()
                    store = KeyStore(path)
            rows = store.rows()
            for port, expected in given_keys.items():
                found = store.all_keys().get(port, [])
                assert set(found) == expected
                assert len(found) == len(set(found))
                for state in ("current", "pending"):
                    assert sum(row.state == state and row.port_guid == port for row in rows) <= 1
                if port in store.current():
                    current = store.current()[port]
                    assert found[0] == current or current.is_zero
        store.close()
