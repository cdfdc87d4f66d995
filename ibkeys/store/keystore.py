"""The key store: every M_Key that a port has, may have or had. A key is never removed.

For each port there is at most one ``current`` key (a Get proved it), at most one ``pending`` (on disk before the Set
that installs it), and any number of ``former`` and ``imported`` ones. Keys cross this interface as `MKey` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ibkeys.errors import StoreError
from ibkeys.keys.mkey import MKey
from ibkeys.store.run_tables import RUN_TABLES
from ibkeys.store.sqlite import Schema, Store, guid_number, guid_text, timestamp

if TYPE_CHECKING:
    import sqlite3

KeyState = Literal["current", "pending", "former", "imported"]
TRY_ORDER: Final[tuple[KeyState, ...]] = ("current", "pending", "former", "imported")
"""The order in which keys are tried on a port."""

Link = tuple[int, int, int, int]
"""Node GUID, port, peer's node GUID, peer's port."""

_SCHEMA: Final = Schema(
    what="key store",
    application_id=0x49424B4B,  # "IBKK"
    steps=(
        (
            """CREATE TABLE keys (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                node_guid TEXT,
                port_guid TEXT NOT NULL,
                port INTEGER,
                m_key BLOB NOT NULL CHECK (typeof(m_key) = 'blob' AND length(m_key) = 8),
                m_key_protect_bits INTEGER,
                m_key_lease_period INTEGER,
                state TEXT NOT NULL CHECK (state IN ('current', 'pending', 'former', 'imported')),
                since TEXT NOT NULL,
                note TEXT NOT NULL DEFAULT '',
                replaces INTEGER REFERENCES keys (id)
            )""",
            "CREATE UNIQUE INDEX one_current ON keys (port_guid) WHERE state = 'current'",
            "CREATE UNIQUE INDEX one_pending ON keys (port_guid) WHERE state = 'pending'",
            "CREATE INDEX keys_of_port ON keys (port_guid)",
            """CREATE TABLE links (
                node_guid TEXT NOT NULL,
                port INTEGER NOT NULL,
                peer_guid TEXT NOT NULL,
                peer_port INTEGER NOT NULL,
                seen TEXT NOT NULL,
                PRIMARY KEY (node_guid, port)
            ) WITHOUT ROWID""",
            "CREATE INDEX links_of_peer ON links (peer_guid, peer_port)",
        ),
        RUN_TABLES,
    ),
)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One row of the key store.

    ``ref`` is its number, for `KeyStore.promote` and the journal. ``node_guid`` and ``port`` are None when only the
    port GUID is known (imported keys), ProtectBits and lease when they were not set by this tool. ``since``: when the
    row came into its state. ``replaces``: the row of the key that this one was to replace.
    """

    ref: int
    node_guid: int | None
    port_guid: int
    port: int | None
    m_key: MKey
    m_key_protect_bits: int | None
    m_key_lease_period: int | None
    state: KeyState
    since: str
    note: str
    replaces: int | None


class KeyStore(Store):
    """The key store file; ``path`` None keeps it in memory. ``create=False``: a missing file reads as an empty store.

    All methods raise StoreError, and everything they did is on disk when they return. ``port_guid`` is that of the port
    whose M_Key it is: port 0 on a switch. Synchronization: use in the thread that made it.
    """

    schema = _SCHEMA

    def put_pending(
        self,
        node_guid: int,
        port_guid: int,
        port: int,
        new_key: MKey,
        protect_bits: int,
        lease_period: int,
        old_key: MKey | None,
        *,
        old_protect_bits: int | None = None,
        old_lease_period: int | None = None,
    ) -> int:
        """Store the key that is about to be set, and return its ``ref``. The Set may be sent when this returns.

        *old_key* is what the port has now, None when that is not known; it becomes the current key unless it is that
        already. A pending key of an earlier, unfinished Set becomes a former one: the port may have it.
        """
        where = (node_guid, port_guid, port)
        with self._database.transaction() as connection:
            self._restate(connection, port_guid, "pending", "former", "its Set was never confirmed")
            current = self._current_row(connection, port_guid)
            old = current[0] if current else None
            if old_key is not None and (current is None or current[1] != old_key):
                self._restate(connection, port_guid, "current", "former", "the port had another key")
                old = self._insert(connection, *where, old_key, old_protect_bits, old_lease_period, "current", None)
            return self._insert(connection, *where, new_key, protect_bits, lease_period, "pending", old)

    def promote(self, ref: int) -> None:
        """Make *ref* the current key of its port, because a Get with it was answered; the former current one is kept.

        Works from any state, so that a run which finds that a port went back, or forward after all, can say so.
        """
        with self._database.transaction() as connection:
            stored = self._get(connection, ref)
            if stored.state != "current":
                self._restate(connection, stored.port_guid, "current", "former", "")
                self._set_state(connection, ref, "current", "")

    def abandon(self, ref: int, note: str = "abandoned") -> None:
        """Give up a pending key: its Set did not take effect, as far as is known. It stays as a former key.

        Raises StoreError when *ref* is the current key.
        """
        with self._database.transaction() as connection:
            stored = self._get(connection, ref)
            if stored.state == "current":
                raise StoreError(
                    f"key {ref} is the current one of port {guid_text(stored.port_guid)}; it is not abandoned"
                )
            self._set_state(connection, ref, "former", note)

    def put_imported(
        self, port_guid: int, key: MKey, *, node_guid: int | None = None, port: int | None = None, note: str = ""
    ) -> int:
        """Store a key that comes from elsewhere and return its ``ref``.

        A key that the port has in any state is not stored twice.
        """
        with self._database.transaction() as connection:
            for ref, blob in connection.execute(
                "SELECT id, m_key FROM keys WHERE port_guid = ?", (guid_text(port_guid),)
            ):
                if _key(blob) == key:
                    return int(ref)
            return self._insert(connection, node_guid, port_guid, port, key, None, None, "imported", None, note)

    def get(self, ref: int) -> StoredKey:
        """Return one row. Raises StoreError when there is none."""
        rows = self._database.query(f"SELECT {_COLUMNS} FROM keys WHERE id = ?", (ref,))
        if not rows:
            raise StoreError(f"the key store has no key {ref}")
        return _stored(rows[0])

    def keys_for(self, port_guid: int) -> list[MKey]:
        """Return the keys to try on a port, none twice, in `TRY_ORDER`, the newest of each state first."""
        rows = self._database.query(f"SELECT {_COLUMNS} FROM keys WHERE port_guid = ?", (guid_text(port_guid),))
        keys = sorted(map(_stored, rows), key=lambda stored: (TRY_ORDER.index(stored.state), -stored.ref))
        return list(dict.fromkeys(stored.m_key for stored in keys))

    def current_of(self, port_guid: int) -> StoredKey | None:
        """Return the current key of one port, or None when it has none."""
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM keys WHERE port_guid = ? AND state = 'current'", (guid_text(port_guid),)
        )
        return _stored(rows[0]) if rows else None

    def current(self) -> dict[int, MKey]:
        """Return the current key of every port that has one, by port GUID."""
        rows = self._database.query("SELECT port_guid, m_key FROM keys WHERE state = 'current'")
        return {guid_number(port_guid): _key(blob) for port_guid, blob in rows}

    def rows(self) -> list[StoredKey]:
        """Return all rows, ordered by port GUID and then as they were stored. The keys in them mask themselves."""
        return [_stored(row) for row in self._database.query(f"SELECT {_COLUMNS} FROM keys ORDER BY port_guid, id")]

    def put_links(self, links: Iterable[Link]) -> None:
        """Store links that were seen, each once; what was known of their ends before is replaced."""
        seen = timestamp(self._clock)
        links = list(links)
        with self._database.transaction() as connection:
            for node_guid, port, peer_guid, peer_port in links:
                near, far = (guid_text(node_guid), port), (guid_text(peer_guid), peer_port)
                for end in (near, far):
                    connection.execute("DELETE FROM links WHERE node_guid = ? AND port = ?", end)
                    connection.execute("DELETE FROM links WHERE peer_guid = ? AND peer_port = ?", end)
                for one, other in {(near, far), (far, near)}:
                    connection.execute("INSERT INTO links VALUES (?, ?, ?, ?, ?)", (*one, *other, seen))

    def links(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the known links, each from both its ends: (node GUID, port) to (node GUID, port)."""
        rows = self._database.query("SELECT node_guid, port, peer_guid, peer_port FROM links")
        return {(guid_number(node), port): (guid_number(peer), peer_port) for node, port, peer, peer_port in rows}

    def _insert(
        self,
        connection: sqlite3.Connection,
        node_guid: int | None,
        port_guid: int,
        port: int | None,
        key: MKey,
        protect_bits: int | None,
        lease_period: int | None,
        state: KeyState,
        replaces: int | None,
        note: str = "",
    ) -> int:
        node = None if node_guid is None else guid_text(node_guid)
        cursor = connection.execute(
            f"INSERT INTO keys ({_COLUMNS}) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                node,
                guid_text(port_guid),
                port,
                key.reveal().to_bytes(8),
                protect_bits,
                lease_period,
                state,
                timestamp(self._clock),
                note,
                replaces,
            ),
        )
        return cast(int, cursor.lastrowid)

    def _restate(self, connection: sqlite3.Connection, port_guid: int, old: KeyState, new: KeyState, note: str) -> None:
        connection.execute(
            "UPDATE keys SET state = ?, since = ?, note = ? WHERE port_guid = ? AND state = ?",
            (new, timestamp(self._clock), note, guid_text(port_guid), old),
        )

    def _set_state(self, connection: sqlite3.Connection, ref: int, state: KeyState, note: str) -> None:
        connection.execute(
            "UPDATE keys SET state = ?, since = ?, note = ? WHERE id = ?", (state, timestamp(self._clock), note, ref)
        )

    @staticmethod
    def _get(connection: sqlite3.Connection, ref: int) -> StoredKey:
        row = connection.execute(f"SELECT {_COLUMNS} FROM keys WHERE id = ?", (ref,)).fetchone()
        if row is None:
            raise StoreError(f"the key store has no key {ref}")
        return _stored(row)

    @staticmethod
    def _current_row(connection: sqlite3.Connection, port_guid: int) -> tuple[int, MKey] | None:
        row = connection.execute(
            "SELECT id, m_key FROM keys WHERE port_guid = ? AND state = 'current'", (guid_text(port_guid),)
        ).fetchone()
        return None if row is None else (row[0], _key(row[1]))


_COLUMNS: Final = (
    "id, node_guid, port_guid, port, m_key, m_key_protect_bits, m_key_lease_period, state, since, note, replaces"
)


def _stored(row: Sequence[Any]) -> StoredKey:
    ref, node_guid, port_guid, port, blob, *rest = row
    node = None if node_guid is None else guid_number(node_guid)
    return StoredKey(ref, node, guid_number(port_guid), port, _key(blob), *rest)


def _key(blob: bytes) -> MKey:
    return MKey(int.from_bytes(blob))
