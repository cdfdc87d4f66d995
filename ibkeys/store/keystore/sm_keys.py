"""Keys of subnet managers in the key store: the values of sm_key and sa_key in an opensm.conf. None is ever removed.

For each kind and each subnet there is at most one ``current`` key (proven to be in force on all hosts), at most one
``pending`` key (on disk before any file has it), and any number of ``former`` and ``imported`` keys. The subnet of a
key is not stored here; the journal has it, under the name of the key. The keys are encrypted as M_Keys are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ibkeys.keys.smkey import SMKey
from ibkeys.store.keystore.key_table import KeyState, KeyTable
from ibkeys.store.keystore.keystore import KeyStore

SmKeyKind = Literal["sm_key", "sa_key", "other"]
"""The option of OpenSM with the key. ``other``: any other secret in such a file, which is stored here because the
journal must not have it: a cc_key, a former m_key, a key in a comment (`ibkeys.managers.opensm.references`)."""


@dataclass(frozen=True, slots=True)
class SmKeyRow:
    """One row without its key. ``ref``: its number, for `SmKeys.promote`. ``since``: the time at which it got its
    state. ``note``: the reason for its state, or its source."""

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
    """The keys of the subnet managers of one subnet in an open key store.

    *others*: the names of the keys of other subnets, which are neither listed nor changed. All methods raise
    StoreError. Those that take or return keys raise StoreSealed if the store is encrypted and its passphrase is missing
    or wrong. Changes are on disk when a method returns, or, inside `KeyStore.in_one_transaction`, when that ends.
    """

    def __init__(self, store: KeyStore, others: Collection[str] = ()) -> None:
        self._store = store
        self._table = KeyTable(store, "sm_keys", "SM_Key", owner="kind", others=others)

    def put_pending(self, kind: SmKeyKind, key: SMKey, note: str = "") -> int:
        """Store a key before it is written to files, and return its ``ref``. The files may be written when this
        returns.

        A pending key of an earlier, unfinished change becomes a former one, and is kept because a file may have it.
        """
        with self._store.in_one_transaction():
            self._table.give_up(kind, "pending", "its change was never confirmed")
            return self._insert(kind, key, "pending", note)

    def promote(self, ref: int) -> None:
        """Make *ref* the current key of its kind, because it was proven to be in force. The current key becomes a
        former one."""
        self._table.promote(ref)

    def abandon(self, ref: int, note: str = "abandoned") -> None:
        """Make a key that no known file has any more a former key, with *note* as the reason."""
        with self._store.in_one_transaction():
            self._table.row("*", ref)
            self._table.set_state(ref, "former", note)

    def put_imported(self, kind: SmKeyKind, key: SMKey, note: str = "") -> int:
        """Store a key that was found in a file, and return its ``ref``. A key of this kind that is stored already, in
        any state, keeps its row."""
        with self._store.in_one_transaction():
            for row in self.rows():
                if (row.kind, row.sm_key) == (kind, key):
                    return row.ref
            return self._insert(kind, key, "imported", note)

    def get(self, ref: int) -> StoredSmKey:
        """Return the row *ref*. Raises StoreError if there is no such row."""
        return self._stored_key(self._table.row(_COLUMNS, ref))

    def named(self, name: str) -> StoredSmKey:
        """Return the row that the journal calls *name*. Raises KeyGone if this key store never had that row."""
        return self.get(self._table.ref_of(name))

    def names(self) -> dict[int, str]:
        """Return the name that the journal uses for each row, by ``ref``, including rows of other subnets."""
        return self._table.names()

    def rows(self) -> list[StoredSmKey]:
        """Return all rows in the order in which they were stored. Their keys are masked when they are printed."""
        return [self._stored_key(row) for row in self._visible_rows()]

    def outline(self) -> list[SmKeyRow]:
        """Return all rows as `rows` does, but without the keys. Needs no passphrase."""
        return [SmKeyRow(*row[:-1]) for row in self._visible_rows()]

    def _visible_rows(self) -> list[tuple[Any, ...]]:
        names = self.names()
        return [row for row in self._table.select(_COLUMNS, "ORDER BY id") if names[row[0]] not in self._table.others]

    def _insert(self, kind: SmKeyKind, key: SMKey, state: KeyState, note: str) -> int:
        return self._table.insert(kind=kind, sm_key=self._store.stored_form(key, kind), state=state, note=note)

    def _stored_key(self, row: Sequence[Any]) -> StoredSmKey:
        ref, kind, state, since, note, blob = row
        return StoredSmKey(ref, kind, state, since, note, self._store.open_key(blob, kind, SMKey))


_COLUMNS: Final = "id, kind, state, since, note, sm_key"
