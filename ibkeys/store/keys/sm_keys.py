"""Keys of subnet managers in the key store: what an opensm.conf has as sm_key and sa_key. None is ever removed.

For each kind there is at most one ``current`` key (proven to be in force on all hosts), at most one ``pending`` (on
disk before any file has it), and any number of ``former`` and ``imported`` ones. They are sealed as M_Keys are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ibkeys.errors import StoreError
from ibkeys.keys.smkey import SMKey
from ibkeys.store.keys.keystore import KeyState, KeyStore
from ibkeys.store.keys.row_names import names_of, new_name, row_of

if TYPE_CHECKING:
    import sqlite3

SmKeyKind = Literal["sm_key", "sa_key", "other"]
"""The option of OpenSM that has it. ``other``: what else of such a file must not be in the journal, and is kept here
for it alone: a cc_key, a former m_key, a key in a comment (`ibkeys.host.conf.references`)."""


@dataclass(frozen=True, slots=True)
class SmKeyRow:
    """One row without its key. ``ref`` is its number, for `SmKeys.promote` and the journal; ``since``: when it came
    into its state."""

    ref: int
    kind: SmKeyKind
    state: KeyState
    since: str
    note: str


@dataclass(frozen=True, slots=True)
class StoredSmKey(SmKeyRow):
    """One row with its key, which masks itself."""

    sm_key: SMKey


class SmKeys:
    """The keys of subnet managers in an open key store. All methods raise StoreError, and StoreSealed if they take or
    return a key of a store that is not opened; what they did is on disk when they return, or when the store's
    `KeyStore.in_one_transaction` ends.
    """

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._database = store.database

    def put_pending(self, kind: SmKeyKind, key: SMKey, note: str = "") -> int:
        """Store a key that files are to get, and return its ``ref``. They may have it when this returns.

        A pending key of an earlier, unfinished change becomes a former one: some file may have it.
        """
        with self._database.transaction() as connection:
            self._restate(connection, kind, "pending", "its change was never confirmed")
            return self._insert(connection, kind, key, "pending", note)

    def promote(self, ref: int) -> None:
        """Make *ref* the current key of its kind, because it was proven; the former current one is kept."""
        with self._database.transaction() as connection:
            row = _without_key(self._row(ref))
            if row.state != "current":
                self._restate(connection, row.kind, "current", "")
                self._set_state(connection, ref, "current", "")

    def abandon(self, ref: int, note: str = "abandoned") -> None:
        """Give up a key that no file has any more, as far as is known. It stays as a former key."""
        with self._database.transaction() as connection:
            self._row(ref)
            self._set_state(connection, ref, "former", note)

    def put_imported(self, kind: SmKeyKind, key: SMKey, note: str = "") -> int:
        """Store a key that was found in a file, and return its ``ref``. One that is known is not stored twice."""
        with self._database.transaction() as connection:
            for row in self.rows():
                if (row.kind, row.sm_key) == (kind, key):
                    return row.ref
            return self._insert(connection, kind, key, "imported", note)

    def get(self, ref: int) -> StoredSmKey:
        """Return one row. Raises StoreError when there is none."""
        return self._stored(self._row(ref))

    def named(self, name: str) -> StoredSmKey:
        """Return the row that the journal calls *name*. Raises KeyGone where this key store never had it."""
        return self.get(row_of(self._database, "sm_keys", name))

    def names(self) -> dict[int, str]:
        """Return what the journal calls each row, by its ``ref``."""
        return names_of(self._database, "sm_keys")

    def current(self, kind: SmKeyKind) -> StoredSmKey | None:
        """Return the key of *kind* that was proven last, None if none was."""
        return next((row for row in self.rows() if (row.kind, row.state) == (kind, "current")), None)

    def rows(self) -> list[StoredSmKey]:
        """Return all rows as they were stored. The keys in them mask themselves."""
        return [self._stored(row) for row in self._database.query(_ALL_ROWS, of="sm_keys")]

    def outline(self) -> list[SmKeyRow]:
        """Return all rows as `rows` does, but without keys: no passphrase is needed."""
        return [_without_key(row) for row in self._database.query(_ALL_ROWS, of="sm_keys")]

    # --- rows --------------------------------------------------------------------------------------------------------

    def _insert(self, connection: sqlite3.Connection, kind: SmKeyKind, key: SMKey, state: KeyState, note: str) -> int:
        values = (kind, self._store.stored_form(key, kind), state, self._store.now(), note, new_name())
        cursor = connection.execute(f"INSERT INTO sm_keys ({_COLUMNS}, name) VALUES (NULL, ?, ?, ?, ?, ?, ?)", values)
        return cast(int, cursor.lastrowid)

    def _restate(self, connection: sqlite3.Connection, kind: SmKeyKind, old: KeyState, note: str) -> None:
        """Make the key of *kind* that is in the state *old* a former one."""
        connection.execute(
            "UPDATE sm_keys SET state = 'former', since = ?, note = ? WHERE kind = ? AND state = ?",
            (self._store.now(), note, kind, old),
        )

    def _set_state(self, connection: sqlite3.Connection, ref: int, state: KeyState, note: str) -> None:
        connection.execute(
            "UPDATE sm_keys SET state = ?, since = ?, note = ? WHERE id = ?",
            (state, self._store.now(), note, ref),
        )

    def _row(self, ref: int) -> tuple[Any, ...]:
        rows = self._database.query(f"SELECT {_COLUMNS} FROM sm_keys WHERE id = ?", (ref,), of="sm_keys")
        if not rows:
            raise StoreError(f"the key store has no SM_Key {ref}")
        return rows[0]

    def _stored(self, row: Sequence[Any]) -> StoredSmKey:
        ref, kind, blob, state, since, note = row
        return StoredSmKey(ref, kind, state, since, note, self._store.opened(blob, kind, SMKey))


_COLUMNS: Final = "id, kind, sm_key, state, since, note"
_ALL_ROWS: Final = f"SELECT {_COLUMNS} FROM sm_keys ORDER BY id"


def _without_key(row: Sequence[Any]) -> SmKeyRow:
    ref, kind, _, *rest = row
    return SmKeyRow(ref, kind, *rest)
