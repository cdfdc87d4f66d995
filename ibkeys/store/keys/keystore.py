"""The key store: every M_Key that a port has, may have or had. A key is never removed.

For each port there is at most one ``current`` key (a Get proved it), at most one ``pending`` (on disk before the Set
that installs it), and any number of ``former`` and ``imported`` ones. Keys cross this interface as `MKey` only. With a
passphrase every key in the file is sealed (`ibkeys.store.keys.sealing`); what holds no key can be read without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

from ibkeys.errors import StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.store.keys.row_names import name_of, names_of, new_name, row_of
from ibkeys.store.keys.schema import KEYSTORE_SCHEMA
from ibkeys.store.keys.sealed import OF_THE_SUBNET, SealedStore
from ibkeys.store.sqlite import guid_number, guid_text, timestamp

if TYPE_CHECKING:
    import sqlite3

KeyState = Literal["current", "pending", "former", "imported"]
TRY_ORDER: Final[tuple[KeyState, ...]] = ("current", "pending", "imported", "former")
"""The order in which keys are tried on a port."""
ImportResult = Literal["new", "known", "changed", "older"]
"""What an imported key was: ``new``: the first of its port; ``known``: it is the one that is tried first, or pending;
``changed``: it is tried first from now on; ``older``: the current one was proven later, and stays first."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One row of the key store without its key.

    ``ref`` is its number, for `KeyStore.promote`. ``node_guid`` and ``port`` are None when only the
    port GUID is known (imported keys), ProtectBits and lease when they were not set by this tool. ``since``: when the
    row came into its state. ``replaces``: the row of the key that this one was to replace.
    """

    ref: int
    node_guid: int | None
    port_guid: int
    port: int | None
    m_key_protect_bits: int | None
    m_key_lease_period: int | None
    state: KeyState
    since: str
    note: str
    replaces: int | None


@dataclass(frozen=True, slots=True)
class StoredKey(KeyRow):
    """One row of the key store with its key, which masks itself."""

    m_key: MKey


class _Owner(NamedTuple):
    """Whose key it is; node and number are None when only the port GUID is known."""

    node_guid: int | None
    port_guid: int
    port: int | None


class KeyStore(SealedStore):
    """The key store file; ``path`` None keeps it in memory. ``create=False``: a missing file reads as an empty store.

    All methods raise StoreError, and everything they did is on disk when they return; those that take or return a key
    raise StoreSealed where the store is encrypted and *passphrase* does not open it. ``port_guid`` is that of the port
    whose M_Key it is: port 0 on a switch. Synchronization: use in the thread that made it.
    """

    schema = KEYSTORE_SCHEMA

    # --- one port ------------------------------------------------------------------------------------------------

    def put_pending(self, node_guid: int, port_guid: int, port: int, new: KeySetting, old: KeySetting | None) -> int:
        """Store the key that is about to be set, and return its ``ref``. The Set may be sent when this returns.

        *old* is what the port has now, None if unknown; its key becomes the current key if it is not already. A pending
        key of an earlier, unfinished Set becomes a former key, because the port may have it.
        """
        owner = _Owner(node_guid, port_guid, port)
        with self.database.transaction() as connection:
            self._restate(connection, port_guid, "pending", "former", "its Set was never confirmed")
            current = self._current_row(port_guid)
            replaced = current[0] if current else None
            if old is not None and (current is None or current[1] != old.key):
                self._restate(connection, port_guid, "current", "former", "the port had another key")
                replaced = self._insert(connection, owner, old.key, "current", old)
            return self._insert(connection, owner, new.key, "pending", new, replaces=replaced)

    def promote(self, ref: int) -> None:
        """Make *ref* the current key of its port, because a Get with it was answered; the former current one is kept.

        Works from any state, so a run can record that a port has its former key again, or the new one after all.
        """
        with self.database.transaction() as connection:
            stored = _without_key(self._row(ref))
            if stored.state != "current":
                self._restate(connection, stored.port_guid, "current", "former", "")
                self._set_state(connection, ref, "current", "")

    def abandon(self, ref: int, note: str = "abandoned") -> None:
        """Mark a pending key as former, because its Set apparently took no effect.

        Raises StoreError when *ref* is the current key.
        """
        with self.database.transaction() as connection:
            stored = _without_key(self._row(ref))
            if stored.state == "current":
                raise StoreError(
                    f"key {ref} is the current key of port {guid_text(stored.port_guid)}, so it cannot be discarded"
                )
            self._set_state(connection, ref, "former", note)

    def put_imported(
        self, port_guid: int, key: MKey, *, node_guid: int | None = None, port: int | None = None, note: str = ""
    ) -> int:
        """Store a key that comes from elsewhere and return its ``ref``.

        A key that the port has in any state is not stored twice.
        """
        with self.database.transaction() as connection:
            for known in self._known(port_guid):
                if known.m_key == key:
                    return known.ref
            return self._insert(connection, _Owner(node_guid, port_guid, port), key, "imported", note=note)

    def get(self, ref: int) -> StoredKey:
        """Return one row. Raises StoreError when there is none."""
        return self._stored(self._row(ref))

    def named(self, name: str) -> StoredKey:
        """Return the row that the journal calls *name*. Raises KeyGone where this key store never had it."""
        return self.get(row_of(self.database, "keys", name))

    def ref_of(self, name: str) -> int:
        """Return the ``ref`` of the row that the journal calls *name*. Raises KeyGone as `named` does."""
        return row_of(self.database, "keys", name)

    def name_of(self, ref: int) -> str:
        """Return what the journal calls one row. Raises StoreError when there is none."""
        return name_of(self.database, "keys", ref)

    def has_names(self, names: Collection[str], of_subnet: Collection[str]) -> bool:
        """Whether there are rows with all these *names*, and keys of the whole subnet with those *of_subnet*."""
        return all(
            set(wanted) <= set(names_of(self.database, table).values())
            for table, wanted in (("keys", names), ("subnet_keys", of_subnet))
        )

    # --- all ports -----------------------------------------------------------------------------------------------

    def all_keys(self) -> dict[int, list[MKey]]:
        """Return the keys to try on every port, by its GUID: none twice, in `TRY_ORDER`, the newest of each state
        first."""
        by_port: dict[int, list[StoredKey]] = {}
        for row in self.rows():
            by_port.setdefault(row.port_guid, []).append(row)
        return {guid: _in_try_order(rows) for guid, rows in by_port.items()}

    def confirmed(self) -> set[int]:
        """Return the GUIDs of ports with a current key of which no change is pending and no other key was imported."""
        rows = self.database.query(
            "SELECT port_guid FROM keys GROUP BY port_guid "
            "HAVING sum(state = 'current') AND NOT sum(state IN ('pending', 'imported'))",
            of="keys",
        )
        return {guid_number(owner) for (owner,) in rows}

    def imported(self) -> set[int]:
        """Return the GUIDs of ports of which a key was imported while a change was unfinished: the one tried first."""
        by_port: dict[int, list[KeyRow]] = {}
        for row in self.outline():
            by_port.setdefault(row.port_guid, []).append(row)
        return {guid for guid, rows in by_port.items() if _imported_after_pending(rows) is not None}

    def levels(self) -> dict[int, int]:
        """Return the highest M_KeyProtectBits that a port can have, by port GUID: of its current and pending key.

        A port with a key of which no level is known is left out.
        """
        found: dict[int, int | None] = {}
        rows = self.database.query(
            "SELECT port_guid, m_key_protect_bits FROM keys WHERE state IN ('current', 'pending', 'imported')",
            of="keys",
        )
        for owner, level in rows:
            guid = guid_number(owner)
            before = found.get(guid, level)
            found[guid] = None if before is None or level is None else max(before, level)
        return {guid: level for guid, level in found.items() if level is not None}

    def current_of(self, port_guid: int) -> StoredKey | None:
        """Return the current key of one port, or None when it has none."""
        rows = self.database.query(
            f"SELECT {_COLUMNS} FROM keys WHERE port_guid = ? AND state = 'current'",
            (guid_text(port_guid),),
            of="keys",
        )
        return self._stored(rows[0]) if rows else None

    def current(self) -> dict[int, MKey]:
        """Return the current key of every port that has one, by port GUID."""
        rows = self.database.query("SELECT port_guid, m_key FROM keys WHERE state = 'current'", of="keys")
        return {guid_number(port_guid): self._key(blob, port_guid) for port_guid, blob in rows}

    def rows(self) -> list[StoredKey]:
        """Return all rows, ordered by port GUID and then as they were stored. The keys in them mask themselves."""
        return [self._stored(row) for row in self.database.query(_ALL_ROWS, of="keys")]

    def outline(self) -> list[KeyRow]:
        """Return all rows as `rows` does, but without keys: no passphrase is needed."""
        return [_without_key(row) for row in self.database.query(_ALL_ROWS, of="keys")]

    def put_all_imported(self, keys: Mapping[int, MKey], written: datetime, note: str = "") -> dict[int, ImportResult]:
        """Store keys from elsewhere, by port GUID, and return what each was. One transaction: all or nothing.

        *written* is when they were written down. A current key that was proven before that becomes a former one, and
        the imported key is tried first; a later one stays the current key. No key is stored twice, and none is lost.
        """
        when = timestamp(lambda: written)
        with self.database.transaction() as connection:
            return {guid: self._import(connection, guid, key, when, note) for guid, key in keys.items()}

    # --- the key of the whole subnet -----------------------------------------------------------------------------

    def put_subnet_key(self, key: MKey, note: str = "") -> int:
        """Store the key that a subnet manager has for every port without one of its own (OpenSM's ``m_key``).

        It is the newest one from now on. Returns its number, for `subnet_key` and the journal.
        """
        with self.database.transaction() as connection:
            for ref, blob in self._subnet_rows("ORDER BY id DESC LIMIT 1"):
                if self._key(blob, OF_THE_SUBNET) == key:
                    return int(ref)
            row = (self.stored_form(key, OF_THE_SUBNET), self.now(), note, new_name())
            cursor = connection.execute("INSERT INTO subnet_keys VALUES (NULL, ?, ?, ?, ?)", row)
            return cast(int, cursor.lastrowid)

    def subnet_key(self, ref: int) -> MKey:
        """Return one key of the whole subnet. Raises StoreError when there is none of that number."""
        rows = self._subnet_rows("WHERE id = ?", ref)
        if not rows:
            raise StoreError(f"the key store has no key of the whole subnet {ref}")
        return self._key(rows[0][1], OF_THE_SUBNET)

    def subnet_key_name(self, ref: int) -> str:
        """Return what the journal calls one key of the whole subnet. Raises StoreError when there is none."""
        return name_of(self.database, "subnet_keys", ref)

    def subnet_key_named(self, name: str) -> MKey:
        """Return the key of the whole subnet that the journal calls *name*. Raises KeyGone where this key store never
        had it."""
        return self.subnet_key(row_of(self.database, "subnet_keys", name))

    def subnet_key_names(self) -> dict[MKey, str]:
        """Return what the journal calls each key of the whole subnet."""
        names = names_of(self.database, "subnet_keys")
        return {key: names[ref] for key, ref in self.subnet_key_refs().items()}

    def subnet_key_refs(self) -> dict[MKey, int]:
        """Return the newest number of each key of the whole subnet."""
        return {self._key(blob, OF_THE_SUBNET): ref for ref, blob in self._subnet_rows("ORDER BY id")}

    def subnet_keys(self) -> list[MKey]:
        """Return the keys of the whole subnet, the newest first, none twice."""
        rows = self._subnet_rows("ORDER BY id DESC")
        return list(dict.fromkeys(self._key(blob, OF_THE_SUBNET) for _, blob in rows))

    def _subnet_rows(self, which: str, *parameters: int) -> list[tuple[Any, ...]]:
        return self.database.query(f"SELECT id, m_key FROM subnet_keys {which}", parameters, of="subnet_keys")

    def subnet_key_outline(self) -> list[tuple[str, str]]:
        """Return (since, note) of the keys of the whole subnet, the newest first; no passphrase is needed."""
        rows = self.database.query("SELECT since, note FROM subnet_keys ORDER BY id DESC", of="subnet_keys")
        return [(since, note) for since, note in rows]

    # --- rows ----------------------------------------------------------------------------------------------------

    def _import(
        self, connection: sqlite3.Connection, port_guid: int, key: MKey, written: str, note: str
    ) -> ImportResult:
        known = self._known(port_guid)
        if _in_try_order(known)[:1] == [key]:
            return "known"
        same = next((row for row in known if row.m_key == key), None)
        current = next((row for row in known if row.state == "current"), None)
        if _pending(known) == key and (current is None or current.since > written):
            return "known"
        if current is not None and current.since > written:
            if same is None:
                self._insert(connection, _Owner(None, port_guid, None), key, "imported", note=note)
            return "older"
        replaced: tuple[KeyState, ...] = ("current", "imported")
        for state in replaced:
            self._restate(connection, port_guid, state, "former", "another key was imported")
        if same is None:
            self._insert(connection, _Owner(None, port_guid, None), key, "imported", note=note)
        elif same.state != "pending":
            self._set_state(connection, same.ref, "imported", note)
        return "changed" if known else "new"

    def _known(self, port_guid: int) -> list[StoredKey]:
        query = f"SELECT {_COLUMNS} FROM keys WHERE port_guid = ? ORDER BY id"
        return [self._stored(row) for row in self.database.query(query, (guid_text(port_guid),), of="keys")]

    def _insert(
        self,
        connection: sqlite3.Connection,
        owner: _Owner,
        key: MKey,
        state: KeyState,
        set_with: KeySetting | None = None,
        replaces: int | None = None,
        note: str = "",
    ) -> int:
        """Store a row and return its ``ref``. *set_with*: level and lease of the key, None if they are not known."""
        port_guid = guid_text(owner.port_guid)
        cursor = connection.execute(
            f"INSERT INTO keys ({_COLUMNS}, name) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                None if owner.node_guid is None else guid_text(owner.node_guid),
                port_guid,
                owner.port,
                self.stored_form(key, port_guid),
                None if set_with is None else set_with.protect,
                None if set_with is None else set_with.lease,
                state,
                self.now(),
                note,
                replaces,
                new_name(),
            ),
        )
        return cast(int, cursor.lastrowid)

    def _restate(self, connection: sqlite3.Connection, port_guid: int, old: KeyState, new: KeyState, note: str) -> None:
        connection.execute(
            "UPDATE keys SET state = ?, since = ?, note = ? WHERE port_guid = ? AND state = ?",
            (new, self.now(), note, guid_text(port_guid), old),
        )

    def _set_state(self, connection: sqlite3.Connection, ref: int, state: KeyState, note: str) -> None:
        connection.execute(
            "UPDATE keys SET state = ?, since = ?, note = ? WHERE id = ?", (state, self.now(), note, ref)
        )

    def _row(self, ref: int) -> tuple[Any, ...]:
        rows = self.database.query(f"SELECT {_COLUMNS} FROM keys WHERE id = ?", (ref,), of="keys")
        if not rows:
            raise StoreError(f"the key store has no key {ref}")
        return rows[0]

    def _current_row(self, port_guid: int) -> tuple[int, MKey] | None:
        owner = guid_text(port_guid)
        query = "SELECT id, m_key FROM keys WHERE port_guid = ? AND state = 'current'"
        rows = self.database.query(query, (owner,), of="keys")
        return (rows[0][0], self._key(rows[0][1], owner)) if rows else None

    def _stored(self, row: Sequence[Any]) -> StoredKey:
        ref, node_guid, port_guid, port, blob, bits, lease, state, since, note, replaces = row
        key = self._key(blob, port_guid)
        where = (ref, _guid(node_guid), guid_number(port_guid), port)
        return StoredKey(*where, bits, lease, state, since, note, replaces, key)


_COLUMNS: Final = (
    "id, node_guid, port_guid, port, m_key, m_key_protect_bits, m_key_lease_period, state, since, note, replaces"
)
_ALL_ROWS: Final = f"SELECT {_COLUMNS} FROM keys ORDER BY port_guid, id"


def _without_key(row: Sequence[Any]) -> KeyRow:
    ref, node_guid, port_guid, port, _, *rest = row
    return KeyRow(ref, _guid(node_guid), guid_number(port_guid), port, *rest)


def _guid(text: str | None) -> int | None:
    return None if text is None else guid_number(text)


def _in_try_order(rows: Iterable[StoredKey]) -> list[MKey]:
    newest_first = sorted(rows, key=lambda stored: (stored.since, stored.ref), reverse=True)
    ordered = sorted(newest_first, key=lambda stored: TRY_ORDER.index(stored.state))
    imported = _imported_after_pending(ordered)
    if imported is not None:
        ordered.sort(key=lambda stored: stored.ref != imported.ref)
    return list(dict.fromkeys(stored.m_key for stored in ordered))


def _imported_after_pending(rows: Sequence[KeyRow]) -> KeyRow | None:
    """Return the key that was imported after a change was interrupted: it says what the port has. None if none was."""
    if any(row.state == "current" for row in rows):
        return None
    pending = next((row for row in rows if row.state == "pending"), None)
    imported = [row for row in rows if row.state == "imported"]
    newest = max(imported, key=lambda row: (row.since, row.ref), default=None)
    if pending is None or newest is None or (newest.since, newest.ref) < (pending.since, pending.ref):
        return None
    return newest


def _pending(rows: Iterable[StoredKey]) -> MKey | None:
    return next((row.m_key for row in rows if row.state == "pending"), None)
