"""Keys of subnet managers in the key store: the values of sm_key and sa_key in an opensm.conf. None is ever removed.

For each kind and each subnet there is at most one ``current`` key (proven to be in force on all hosts), at most one
``pending`` (on disk before any file has it), and any number of ``former`` and ``imported`` ones. Only the journal has
the subnet of a key, by its name. The keys are sealed as M_Keys are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ibkeys.keys.smkey import SMKey
from ibkeys.store.keystore.key_table import KeyState, KeyTable
from ibkeys.store.keystore.keystore import KeyStore

SmKeyKind = Literal["sm_key", "sa_key", "other"]
"""The option of OpenSM that has such a key. ``other``: other text of such a file that must not be in the journal, and
is kept here for it alone: a cc_key, a former m_key, a key in a comment (`ibkeys.managers.opensm.references`)."""


@dataclass(frozen=True, slots=True)
class SmKeyRow:
    """One row without its key. ``ref`` is its number, for `SmKeys.promote` and the journal; ``since``: the time at
    which it got its state."""

    ref: int
    kind: SmKeyKind
    state: KeyState
    since: str
    note: str


@dataclass(frozen=True, slots=True)
class StoredSmKey(SmKeyRow):
    """One row with its key, which is masked when it is printed."""

    sm_key: SMKey


class SmKeys:
    """The keys of subnet managers in an open key store, without the *others*: the names of keys of other subnets, which
    are neither listed nor changed. All methods raise StoreError, and StoreSealed if they take or return a key of a
    store that is not opened; their changes are on disk when they return, or when the store's
    `KeyStore.in_one_transaction` ends.
    """

    def __init__(self, store: KeyStore, others: Collection[str] = ()) -> None:
        self._store = store
        self._table = KeyTable(store, "sm_keys", "SM_Key", owner="kind", others=others)

    def put_pending(self, kind: SmKeyKind, key: SMKey, note: str = "") -> int:
        """Store a key that files are about to get, and return its ``ref``. The files may get it when this returns. A
        pending key of an earlier, unfinished change becomes a former one, because a file may have it.
        """
        with self._store.in_one_transaction():
            self._table.give_up(kind, "pending", "its change was never confirmed")
            return self._insert(kind, key, "pending", note)

    def promote(self, ref: int) -> None:
        """Make *ref* the current key of its kind, because it was proven; the former current one is kept."""
        self._table.promote(ref)

    def abandon(self, ref: int, note: str = "abandoned") -> None:
        """Give up a key that no known file has any more. It stays as a former key."""
        with self._store.in_one_transaction():
            self._table.row("*", ref)
            self._table.set_state(ref, "former", note)

    def put_imported(self, kind: SmKeyKind, key: SMKey, note: str = "") -> int:
        """Store a key that was found in a file, and return its ``ref``. A known key is not stored twice."""
        with self._store.in_one_transaction():
            for row in self.rows():
                if (row.kind, row.sm_key) == (kind, key):
                    return row.ref
            return self._insert(kind, key, "imported", note)

    def get(self, ref: int) -> StoredSmKey:
        """Return one row. Raises StoreError when there is none."""
        return self._stored(self._table.row(_COLUMNS, ref))

    def named(self, name: str) -> StoredSmKey:
        """Return the row with this *name* in the journal. Raises KeyGone if this key store never had it."""
        return self.get(self._table.ref_of(name))

    def names(self) -> dict[int, str]:
        """Return the name of each row, for the journal, by its ``ref``."""
        return self._table.names()

    def rows(self) -> list[StoredSmKey]:
        """Return all rows in the order they were stored. The keys in them are masked when they are printed."""
        return [self._stored(row) for row in self._listed()]

    def outline(self) -> list[SmKeyRow]:
        """Return all rows as `rows` does, but without keys: no passphrase is needed."""
        return [SmKeyRow(*row[:-1]) for row in self._listed()]

    def _listed(self) -> list[tuple[Any, ...]]:
        names = self.names()
        return [row for row in self._table.select(_COLUMNS, "ORDER BY id") if names[row[0]] not in self._table.others]

    def _insert(self, kind: SmKeyKind, key: SMKey, state: KeyState, note: str) -> int:
        return self._table.insert(kind=kind, sm_key=self._store.stored_form(key, kind), state=state, note=note)

    def _stored(self, row: Sequence[Any]) -> StoredSmKey:
        ref, kind, state, since, note, blob = row
        return StoredSmKey(ref, kind, state, since, note, self._store.opened(blob, kind, SMKey))


_COLUMNS: Final = "id, kind, state, since, note, sm_key"
