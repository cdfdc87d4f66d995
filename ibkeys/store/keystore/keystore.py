"""The key store: every M_Key that a port has, may have or had. A key is never removed.

For each port there is at most one ``current`` key (a Get proved it), at most one ``pending`` key (on disk before the
Set that installs it), and any number of ``former`` and ``imported`` keys. All keys are passed as `MKey`, which masks
them. If the store is encrypted, all keys in the file are sealed with a passphrase (`ibkeys.store.keystore.sealing`);
all other data can be read without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from ibkeys.errors import StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.store.keystore.key_table import KeyState, KeyTable
from ibkeys.store.keystore.schema import KEYSTORE_SCHEMA
from ibkeys.store.keystore.sealed import OF_THE_SUBNET, SealedStore
from ibkeys.store.sqlite import guid_number, guid_text, timestamp

TRY_ORDER: Final[tuple[KeyState, ...]] = ("current", "pending", "imported", "former")
"""The order in which keys are tried on a port."""
ImportResult = Literal["new", "known", "changed", "older"]
"""The result of importing a key.

``new``: the port had no key before. ``known``: the store tries this key first already; or it is the pending key, and no
current key was proven before the source of the imported key was written. ``changed``: the store tries this key first
from now on. ``older``: the current key was proven after the source of the imported key was written, or the imported key
is 0 and the store has another; the key of the store is still tried first.
"""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One row of the key store without its key.

    ``ref``: its number, for `KeyStore.promote`. ``node_guid`` and ``port``: None if only the port GUID is known, as for
    imported keys. ``m_key_protect_bits`` and ``m_key_lease_period`` (seconds): None if they are not known. ``since``:
    the time at which the row got its state. ``note``: the reason for its state, or the source of the key. ``replaces``:
    the number of the row with the key that this one was to replace, None if there is none.
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
    """One row of the key store with its key, which is masked when it is printed."""

    m_key: MKey


AnyRow = TypeVar("AnyRow", bound=KeyRow)


class KeyStore(SealedStore):
    """An open key store; see `Store` and `SealedStore` for the arguments.

    All methods raise StoreError, and their changes are on disk when they return, or, inside `in_one_transaction`, when
    that ends. Methods that take or return a key raise StoreSealed if the store is encrypted and *passphrase* is missing
    or wrong. ``port_guid`` always means the port that has the M_Key, on a switch port 0. A ``ref`` is the number of a
    row. Synchronization: use in the thread that made it.
    """

    schema = KEYSTORE_SCHEMA

    @cached_property
    def _of_ports(self) -> KeyTable:
        return KeyTable(self, "keys", owner="port_guid")

    @cached_property
    def _of_subnet(self) -> KeyTable:
        return KeyTable(self, "subnet_keys", "key of the whole subnet")

    # --- one port ------------------------------------------------------------------------------------------------

    def put_pending(self, node_guid: int, port_guid: int, port: int, new: KeySetting, old: KeySetting | None) -> int:
        """Store the key that is about to be set, and return its ``ref``. The Set may be sent when this returns.

        *new*: key, level and lease of the Set. *old*: the present setting of the port, None if unknown; if its key is
        not the current key yet, it becomes the current one. A pending key of an earlier, unfinished Set becomes a
        former key, and is kept because the port may have it.
        """
        owner = guid_text(port_guid)
        with self.in_one_transaction():
            self._of_ports.give_up(owner, "pending", "its Set was never confirmed")
            current = self.current_of(port_guid)
            replaced = current.ref if current else None
            if old is not None and (current is None or current.m_key != old.key):
                self._of_ports.give_up(owner, "current", "the port had another key")
                replaced = self._insert(port_guid, old.key, "current", node_guid, port, old)
            return self._insert(port_guid, new.key, "pending", node_guid, port, new, replaced)

    def promote(self, ref: int) -> None:
        """Make *ref* the current key of its port, because a Get with this key was answered.

        The key that was current becomes a former one. *ref* may be in any state, so a run can record that a port has
        its former key again, or the new one after all. Raises StoreError if there is no such row.
        """
        self._of_ports.promote(ref)

    def take_up(self, ref: int) -> None:
        """Mark a former key as pending. The Set that installs it again may be sent when this returns.

        Does nothing if *ref* is the current key. Another pending key of the port becomes a former one. Raises
        StoreError if there is no such row.
        """
        with self.in_one_transaction():
            owner, state, *_ = self._of_ports.row("port_guid, state, *", ref)
            if state != "current":
                self._of_ports.give_up(owner, "pending", "its Set was never confirmed")
                self._of_ports.set_state(ref, "pending", "")

    def abandon(self, ref: int, note: str = "abandoned") -> None:
        """Mark a pending key as former, because its Set apparently took no effect. *note*: the reason.

        Raises StoreError if *ref* is the current key, or if there is no such row.
        """
        with self.in_one_transaction():
            owner, state, *_ = self._of_ports.row("port_guid, state, *", ref)
            if state == "current":
                raise StoreError(f"key {ref} is the current key of port {owner}, so it cannot be discarded")
            self._of_ports.set_state(ref, "former", note)

    def put_imported(
        self, port_guid: int, key: MKey, *, node_guid: int | None = None, port: int | None = None, note: str = ""
    ) -> int:
        """Store a key from another source as ``imported``, and return its ``ref``. *note*: the source.

        A key of the port that is stored already, in any state, keeps its row.
        """
        with self.in_one_transaction():
            for row in self._keys_of_port(port_guid):
                if row.m_key == key:
                    return row.ref
            return self._insert(port_guid, key, "imported", node_guid, port, note=note)

    def get(self, ref: int) -> StoredKey:
        """Return the row *ref*. Raises StoreError if there is no such row."""
        return self._stored_key(self._of_ports.row(_COLUMNS, ref))

    def named(self, name: str) -> StoredKey:
        """Return the row that the journal calls *name*. Raises KeyGone if this key store never had that row."""
        return self.get(self.ref_of(name))

    def ref_of(self, name: str) -> int:
        """Return the ``ref`` of the row that the journal calls *name*. Raises KeyGone as `named` does."""
        return self._of_ports.ref_of(name)

    def name_of(self, ref: int) -> str:
        """Return the name that the journal uses for the row *ref*. Raises StoreError if there is no such row."""
        return self._of_ports.name_of(ref)

    def has_names(self, names: Collection[str], of_subnet: Collection[str]) -> bool:
        """Return whether the store has keys of ports with all *names*, and keys of the whole subnet with all names
        *of_subnet*."""
        return all(
            set(wanted) <= set(table.names().values())
            for table, wanted in ((self._of_ports, names), (self._of_subnet, of_subnet))
        )

    # --- all ports -----------------------------------------------------------------------------------------------

    def all_keys(self) -> dict[int, list[MKey]]:
        """Return the keys to try on each port, by port GUID: each key once, in `TRY_ORDER`, the newest of each state
        first.

        If the port has no current key, a key that was imported after an interrupted change of it comes before all
        others.
        """
        return {guid: _in_try_order(rows) for guid, rows in _by_port(self.rows()).items()}

    def confirmed(self) -> set[int]:
        """Return the GUIDs of the ports with a current key and neither a pending nor an imported one."""
        confirmed = "sum(state = 'current') AND NOT sum(state IN ('pending', 'imported'))"
        rows = self._of_ports.select("port_guid", f"GROUP BY port_guid HAVING {confirmed}")
        return {guid_number(owner) for (owner,) in rows}

    def in_change(self) -> dict[int, Sequence[MKey]]:
        """Return the keys that a port with an unfinished change of its key may have, by port GUID, in the order to try
        them.

        If the port has no current key, and a key was imported after the change began, that is the only one.
        """
        unfinished = f"WHERE port_guid IN (SELECT port_guid FROM keys WHERE state = 'pending') {_ALL}"
        keys: dict[int, Sequence[MKey]] = {}
        for guid, rows in _by_port(map(self._stored_key, self._of_ports.select(_COLUMNS, unfinished))).items():
            imported = _imported_after_pending(rows)
            keys[guid] = _in_try_order([imported] if imported else [row for row in rows if row.state != "former"])
        return keys

    def pending_names(self) -> dict[int, set[str]]:
        """Return the names that a journal may use for the pending key of each port that also has a current key, by port
        GUID: the name of the row, and its number, which early versions used."""
        names = self._of_ports.names()
        return {
            guid: {names[row.ref], str(row.ref)}
            for guid, rows in _by_port(self.outline()).items()
            if any(row.state == "current" for row in rows)
            for row in rows
            if row.state == "pending"
        }

    def levels(self) -> dict[int, int]:
        """Return the highest M_KeyProtectBits that each port can have, by port GUID.

        The levels of the current, pending and imported keys of a port count. If the level of one of them is not known,
        the port is left out.
        """
        levels: dict[int, int | None] = {}
        possible = "WHERE state IN ('current', 'pending', 'imported')"
        for owner, level in self._of_ports.select("port_guid, m_key_protect_bits", possible):
            guid = guid_number(owner)
            before = levels.get(guid, level)
            levels[guid] = None if before is None or level is None else max(before, level)
        return {guid: level for guid, level in levels.items() if level is not None}

    def current_of(self, port_guid: int) -> StoredKey | None:
        """Return the row of the current key of a port, None if there is none."""
        return self._in_state(port_guid, "current")

    def pending_of(self, port_guid: int) -> StoredKey | None:
        """Return the row of the pending key of a port, None if there is none."""
        return self._in_state(port_guid, "pending")

    def _in_state(self, port_guid: int, state: KeyState) -> StoredKey | None:
        rows = self._of_ports.select(_COLUMNS, "WHERE port_guid = ? AND state = ?", guid_text(port_guid), state)
        return self._stored_key(rows[0]) if rows else None

    def current(self) -> dict[int, MKey]:
        """Return the current key of every port that has one, by port GUID."""
        rows = self._of_ports.select("port_guid, m_key", "WHERE state = 'current'")
        return {guid_number(port_guid): self._key(blob, port_guid) for port_guid, blob in rows}

    def rows(self) -> list[StoredKey]:
        """Return all rows, sorted by port GUID and then in the order of storing. Their keys are masked when they are
        printed."""
        return [self._stored_key(row) for row in self._of_ports.select(_COLUMNS, _ALL)]

    def outline(self) -> list[KeyRow]:
        """Return all rows as `rows` does, but without the keys. Needs no passphrase."""
        return [KeyRow(*_fields(row[:-1])) for row in self._of_ports.select(_COLUMNS, _ALL)]

    def put_all_imported(self, keys: Mapping[int, MKey], written: datetime, note: str = "") -> dict[int, ImportResult]:
        """Store keys from another source, by port GUID, in one transaction, and return the result for each port.

        *written*: the time at which the source was written; *note*: its name. A current key that was proven before that
        time becomes a former one, unless it is the imported key itself, and the imported key is tried first. A current
        key that was proven later stays current. A key that is stored already keeps its row. A 0 is not stored for a
        port with another key: a port without a key accepts every key, and a port that refuses 0 is asked for no other.
        """
        when = timestamp(lambda: written)
        with self.in_one_transaction():
            return {guid: self._import(guid, key, when, note) for guid, key in keys.items()}

    # --- the key of the whole subnet -----------------------------------------------------------------------------

    def put_subnet_key(self, key: MKey, note: str = "") -> int:
        """Store the key that a subnet manager uses for every port without a key of its own (OpenSM's ``m_key``).

        Returns its number, for `subnet_key`. The key is the newest one then; if it was that already, it keeps its row.
        """
        with self.in_one_transaction():
            for ref, blob in self._of_subnet.select("id, m_key", "ORDER BY id DESC LIMIT 1"):
                if self._key(blob, OF_THE_SUBNET) == key:
                    return int(ref)
            return self._of_subnet.insert(m_key=self.stored_form(key, OF_THE_SUBNET), note=note)

    def subnet_key(self, ref: int) -> MKey:
        """Return the key of the whole subnet with the number *ref*. Raises StoreError if there is none."""
        return self._key(self._of_subnet.row("m_key", ref)[0], OF_THE_SUBNET)

    def subnet_key_name(self, ref: int) -> str:
        """Return the name that the journal uses for the subnet key *ref*. Raises StoreError if there is no such key."""
        return self._of_subnet.name_of(ref)

    def subnet_key_named(self, name: str) -> MKey:
        """Return the subnet key that the journal calls *name*. Raises KeyGone if this key store never had it."""
        return self.subnet_key(self._of_subnet.ref_of(name))

    def subnet_key_names(self) -> dict[MKey, str]:
        """Return the name that the journal uses for each subnet key: for a key with several rows that of the newest."""
        names = self._of_subnet.names()
        return {key: names[ref] for key, ref in self.subnet_key_refs().items()}

    def subnet_key_refs(self) -> dict[MKey, int]:
        """Return the number of each key of the whole subnet: for a key with several rows that of the newest."""
        rows = self._of_subnet.select("id, m_key", "ORDER BY id")
        return {self._key(blob, OF_THE_SUBNET): ref for ref, blob in rows}

    def subnet_keys(self) -> list[MKey]:
        """Return the keys of the whole subnet, the newest first, each once."""
        rows = self._of_subnet.select("id, m_key", "ORDER BY id DESC")
        return list(dict.fromkeys(self._key(blob, OF_THE_SUBNET) for _, blob in rows))

    def subnet_key_outline(self) -> list[tuple[str, str]]:
        """Return (since, note) of the rows of keys of the whole subnet, the newest first. Needs no passphrase."""
        return [(since, note) for since, note in self._of_subnet.select("since, note", "ORDER BY id DESC")]

    # --- rows ----------------------------------------------------------------------------------------------------

    def _import(self, port_guid: int, key: MKey, written: str, note: str) -> ImportResult:
        """Store one imported key as `put_all_imported` describes. *written*: a time as `timestamp` writes it."""
        rows = self._keys_of_port(port_guid)
        first = _in_try_order(rows)[:1]
        if first == [key]:
            return "known"
        if key.is_zero and first:
            return "older"
        same = next((row for row in rows if row.m_key == key), None)
        current = next((row for row in rows if row.state == "current"), None)
        is_pending = any(row.state == "pending" and row.m_key == key for row in rows)
        if is_pending and (current is None or current.since > written):
            return "known"
        if current is not None and current.since > written:
            if same is None:
                self._insert(port_guid, key, "imported", note=note)
            return "older"
        overtaken: tuple[KeyState, ...] = ("current", "imported")
        for state in overtaken:
            self._of_ports.give_up(guid_text(port_guid), state, "another key was imported")
        if same is None:
            self._insert(port_guid, key, "imported", note=note)
        elif same.state != "pending":
            self._of_ports.set_state(same.ref, "imported", note)
        return "changed" if rows else "new"

    def _keys_of_port(self, port_guid: int) -> list[StoredKey]:
        rows = self._of_ports.select(_COLUMNS, "WHERE port_guid = ? ORDER BY id", guid_text(port_guid))
        return [self._stored_key(row) for row in rows]

    def _insert(
        self,
        port_guid: int,
        key: MKey,
        state: KeyState,
        node_guid: int | None = None,
        port: int | None = None,
        setting: KeySetting | None = None,
        replaces: int | None = None,
        note: str = "",
    ) -> int:
        """Store a row and return its ``ref``. *setting*: has the level and lease of the key; None if they are not
        known."""
        return self._of_ports.insert(
            node_guid=None if node_guid is None else guid_text(node_guid),
            port_guid=guid_text(port_guid),
            port=port,
            m_key=self.stored_form(key, guid_text(port_guid)),
            m_key_protect_bits=None if setting is None else setting.protect,
            m_key_lease_period=None if setting is None else setting.lease,
            state=state,
            note=note,
            replaces=replaces,
        )

    def _stored_key(self, row: Sequence[Any]) -> StoredKey:
        *without_key, blob = row
        fields = [*_fields(without_key), self._key(blob, row[2])]
        return StoredKey(*fields)


_COLUMNS: Final = (
    "id, node_guid, port_guid, port, m_key_protect_bits, m_key_lease_period, state, since, note, replaces, m_key"
)
_ALL: Final = "ORDER BY port_guid, id"


def _fields(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return the fields of a `KeyRow` from its columns, those of `_COLUMNS` without the key."""
    ref, node_guid, port_guid, *rest = row
    return ref, None if node_guid is None else guid_number(node_guid), guid_number(port_guid), *rest


def _by_port(rows: Iterable[AnyRow]) -> dict[int, list[AnyRow]]:
    by_port: dict[int, list[AnyRow]] = {}
    for row in rows:
        by_port.setdefault(row.port_guid, []).append(row)
    return by_port


def is_encrypted(path: Path) -> bool:
    """Return whether the key store in *path* is encrypted; False if there is no such file. Raises StoreError."""
    with KeyStore(path, create=False, upgrade=False) as store:
        return store.is_encrypted


def _in_try_order(rows: Iterable[StoredKey]) -> list[MKey]:
    """Return the keys of *rows*, those of one port, in the order of `TRY_ORDER`. A 0 comes last if a key is pending
    that was stored later: a port that still has no key accepts that key, and one that has it may not answer to 0."""
    newest_first = sorted(rows, key=lambda stored: (stored.since, stored.ref), reverse=True)
    ordered = sorted(newest_first, key=lambda stored: TRY_ORDER.index(stored.state))
    imported = _imported_after_pending(ordered)
    if imported is not None:
        ordered.sort(key=lambda stored: stored.ref != imported.ref)
    if (pending := next((stored for stored in ordered if stored.state == "pending"), None)) is not None:
        since = pending.since, pending.ref
        ordered.sort(key=lambda stored: stored.m_key.is_zero and (stored.since, stored.ref) < since)
    return list(dict.fromkeys(stored.m_key for stored in ordered))


def _imported_after_pending(rows: Sequence[AnyRow]) -> AnyRow | None:
    """Return the newest key of a port that was imported after an interrupted change, and so is taken as the port's key.
    None if there is none, or if the port has a current key. *rows*: the rows of one port."""
    if any(row.state == "current" for row in rows):
        return None
    pending = next((row for row in rows if row.state == "pending"), None)
    imported = [row for row in rows if row.state == "imported"]
    newest = max(imported, key=lambda row: (row.since, row.ref), default=None)
    if pending is None or newest is None or (newest.since, newest.ref) < (pending.since, pending.ref):
        return None
    return newest
