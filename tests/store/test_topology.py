"""Links and LIDs in the key store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ibkeys.errors import StoreError
from ibkeys.store.keystore.keystore import KeyStore

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
BEFORE, AFTER = NOON - timedelta(hours=1), NOON + timedelta(hours=1)


@pytest.fixture
def store() -> KeyStore:
    return KeyStore(None, clock=lambda: NOON)


def test_what_others_saw_earlier_does_not_replace_what_was_seen(store: KeyStore) -> None:
    store.put_links([(0xA, 1, 0xB, 1)])
    store.put_links([(0xA, 1, 0xC, 1), (0xD, 1, 0xB, 1), (0xE, 1, 0xF, 1)], seen=BEFORE)
    assert store.links() == {(0xA, 1): (0xB, 1), (0xB, 1): (0xA, 1), (0xE, 1): (0xF, 1), (0xF, 1): (0xE, 1)}
    store.put_links([(0xA, 1, 0xC, 1)], seen=AFTER)
    assert store.links()[0xA, 1] == (0xC, 1)
    assert (0xB, 1) not in store.links()
    assert store.topology_seen() == ("2026-11-20T11:00:00Z", "2026-11-20T13:00:00Z")


def test_lids_with_the_time_they_were_seen(store: KeyStore) -> None:
    store.put_lids({1: (10, 13), 2: (20, 20)})
    store.put_lids({1: (30, 30), 3: (40, 40)}, seen=BEFORE)
    assert store.lids() == {1: (10, 13), 2: (20, 20), 3: (40, 40)}
    store.put_lids({1: (30, 30)}, seen=AFTER)
    assert store.lids()[1] == (30, 30)


@pytest.mark.parametrize("lids", [(10, 10), (12, 12), (13, 14), (8, 10), (8, 15), (8, 135)])
def test_a_lid_belongs_to_one_port(store: KeyStore, lids: tuple[int, int]) -> None:
    store.put_lids({1: (10, 13), 2: (200, 200), 4: (7, 7)})
    store.put_lids({3: lids})
    assert store.lids() == {2: (200, 200), 3: lids, 4: (7, 7)}


def test_an_empty_store_knows_no_time(store: KeyStore) -> None:
    assert store.topology_seen() is None


def test_a_time_that_is_none_is_damage(store: KeyStore) -> None:
    store.put_links([(0xA, 1, 0xB, 1)])
    with store.database.transaction() as connection:
        connection.execute("UPDATE links SET seen = '0'")
    with pytest.raises(StoreError, match="seen has an impossible value"):
        store.topology_seen()
