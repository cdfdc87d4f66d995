"""The tables of the key store and their migrations. A released migration never changes."""

from __future__ import annotations

from typing import Final

from ibkeys.store.columns import Column, blob, guid, number, row_name, text, time
from ibkeys.store.keystore.run_tables import RUN_COLUMNS, RUN_OPERATION, RUN_TABLES, RUN_TO_MOVE, RUN_VIA
from ibkeys.store.keystore.sealing import SALT_BYTES, SEALED_BYTES
from ibkeys.store.sqlite import Schema

_CLEAR_AND_SEALED: Final = (8, SEALED_BYTES)
"""The numbers of bytes of a key in plain text, and of a sealed key."""
_STATES: Final = ("current", "pending", "former", "imported")
_KEY_COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "keys": {
        "id": number(),
        "node_guid": guid(null=True),
        "port_guid": guid(),
        "port": number(255, null=True),
        "m_key": blob(*_CLEAR_AND_SEALED),
        "m_key_protect_bits": number(3, null=True),
        "m_key_lease_period": number(0xFFFF, null=True),
        "state": text(_STATES),
        "since": time(),
        "note": text(),
        "replaces": number(null=True),
        "name": row_name(),
    },
    "links": {
        "node_guid": guid(),
        "port": number(255),
        "peer_guid": guid(),
        "peer_port": number(255),
        "seen": time(),
        "link_downed": number(255, null=True),
    },
    "settled": {"port_guid": guid(), "since": time()},
    "subnet_keys": {
        "id": number(),
        "m_key": blob(*_CLEAR_AND_SEALED),
        "since": time(),
        "note": text(),
        "name": row_name(),
    },
    "lids": {"port_guid": guid(), "base_lid": number(0xFFFF), "top_lid": number(0xFFFF), "seen": time()},
    "encryption": {
        "salt": blob(SALT_BYTES),
        "n": number(1 << 40),  # ibkeys.store.keystore.sealing limits the memory that scrypt uses
        "r": number(1 << 10),
        "p": number(1 << 6),
        "proof": blob(_CLEAR_AND_SEALED[1]),
    },
}


def _keys_of(sizes: str) -> str:
    """Return the SQL that creates the table of M_Keys. *sizes*: an SQL condition for the number of bytes of a key, such
    as ``= 8``."""
    return f"""CREATE TABLE keys (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                node_guid TEXT,
                port_guid TEXT NOT NULL,
                port INTEGER,
                m_key BLOB NOT NULL CHECK (typeof(m_key) = 'blob' AND length(m_key) {sizes}),
                m_key_protect_bits INTEGER,
                m_key_lease_period INTEGER,
                state TEXT NOT NULL CHECK (state IN ('current', 'pending', 'former', 'imported')),
                since TEXT NOT NULL,
                note TEXT NOT NULL DEFAULT '',
                replaces INTEGER REFERENCES keys (id)
            )"""


_KEY_INDEXES: Final = (
    "CREATE UNIQUE INDEX one_current ON keys (port_guid) WHERE state = 'current'",
    "CREATE UNIQUE INDEX one_pending ON keys (port_guid) WHERE state = 'pending'",
    "CREATE INDEX keys_of_port ON keys (port_guid)",
)


def _sealed_only(table: str, column: str) -> tuple[str, ...]:
    """Return the SQL that creates the triggers of one table. *column*: the column with the keys.

    The triggers refuse a key in plain text in an encrypted store, and a sealed key in another store, whatever program
    writes it.
    """
    return tuple(
        f"""CREATE TRIGGER {table}_{event}_sealed BEFORE {statement} ON {table}
        WHEN (length(NEW.{column}) = 8) = EXISTS (SELECT 1 FROM encryption)
        BEGIN SELECT RAISE (ABORT, 'sealed keys belong into an encrypted key store, and no others'); END"""
        for event, statement in (("insert", "INSERT"), ("update", f"UPDATE OF {column}"))
    )


_SM_KEY_TABLES: Final = (
    """CREATE TABLE sm_keys (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL CHECK (kind IN ('sm_key', 'sa_key', 'other')),
        sm_key BLOB NOT NULL CHECK (typeof(sm_key) = 'blob' AND length(sm_key) IN (8, 36)),
        state TEXT NOT NULL CHECK (state IN ('current', 'pending', 'former', 'imported')),
        since TEXT NOT NULL,
        note TEXT NOT NULL
    )""",
    "CREATE UNIQUE INDEX one_current_of_kind ON sm_keys (kind) WHERE state = 'current'",
    "CREATE UNIQUE INDEX one_pending_of_kind ON sm_keys (kind) WHERE state = 'pending'",
    *_sealed_only("sm_keys", "sm_key"),
)
"""A migration step: the table for the keys of subnet managers (`ibkeys.store.keystore.sm_keys`)."""
_SEVERAL_SUBNETS: Final = ("DROP INDEX one_current_of_kind", "DROP INDEX one_pending_of_kind")
"""A later migration step: several subnets may have a current and a pending key of the same kind."""

_SM_KEY_COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "sm_keys": {
        "id": number(),
        "kind": text(("sm_key", "sa_key", "other")),
        "sm_key": blob(*_CLEAR_AND_SEALED),
        "state": text(_STATES),
        "since": time(),
        "note": text(),
        "name": row_name(),
    },
}

_CLASS_KEY_TABLES: Final = (
    """CREATE TABLE class_keys (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key_class TEXT NOT NULL CHECK (key_class IN ('cc', 'vs', 'n2n', 'b')),
        port_guid TEXT NOT NULL,
        class_key BLOB NOT NULL CHECK (typeof(class_key) = 'blob' AND length(class_key) IN (8, 36)),
        since TEXT NOT NULL,
        note TEXT NOT NULL
    )""",
    "CREATE INDEX class_keys_of_port ON class_keys (key_class, port_guid)",
    *_sealed_only("class_keys", "class_key"),
)
"""A migration step: the table for the keys of other management classes (`ibkeys.store.keystore.class_keys`)."""

_CLASS_KEY_COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "class_keys": {
        "id": number(),
        "key_class": text(("cc", "vs", "n2n", "b")),
        "port_guid": guid(),
        "class_key": blob(*_CLEAR_AND_SEALED),
        "since": time(),
        "note": text(),
    },
}

_TABLES: Final = ("keys", "subnet_keys", "sm_keys")

_ROW_NAMES: Final = (
    "CREATE TABLE numbered (table_name TEXT PRIMARY KEY, most INTEGER NOT NULL) WITHOUT ROWID",
    *(
        statement
        for table in _TABLES
        for statement in (
            f"ALTER TABLE {table} ADD COLUMN name TEXT",
            f"UPDATE {table} SET name = lower(hex(randomblob(16)))",
            f"INSERT INTO numbered SELECT '{table}', coalesce(max(id), 0) FROM {table}",
            f"CREATE UNIQUE INDEX {table}_by_name ON {table} (name)",
        )
    ),
)
"""A migration step: names of rows, by which the journal refers to keys.

The number of a row is valid only within one file: if a key store is lost, its successor counts from 1 again, and an
entry of the journal would lead to another key. So each row has a name of 128 random bits, which no other key store has.
Journals of earlier versions refer to numbers. A number is accepted only for a row that an earlier version stored in
this file. If another file of an earlier version has replaced the right one, such a number still leads to another key.
That key is only compared with the keys of a file or port, and never written, so no value is wrongly taken as set by
ibkeys.

``most`` in the table ``numbered``: the highest number of a row that an earlier version stored, 0 in a new file."""

_NUMBERED_COLUMNS: Final[dict[str, dict[str, Column]]] = {"numbered": {"table_name": text(_TABLES), "most": number()}}

KEYSTORE_SCHEMA: Final = Schema(
    what="key store",
    application_id=0x49424B4B,  # "IBKK"
    steps=(
        (
            _keys_of("= 8"),
            *_KEY_INDEXES,
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
        (
            # Sealed keys are longer than 8 bytes. SQLite cannot change a CHECK, so the table is copied. The reference
            # in the old table follows that table to its new name; the reference in the copy refers to the copy.
            "ALTER TABLE keys RENAME TO keys_before",
            _keys_of("IN (8, 36)"),
            """INSERT INTO keys SELECT id, node_guid, port_guid, port, m_key, m_key_protect_bits, m_key_lease_period,
                state, since, note, replaces FROM keys_before ORDER BY id""",
            "DROP TABLE keys_before",
            *_KEY_INDEXES,
            """CREATE TABLE subnet_keys (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                m_key BLOB NOT NULL CHECK (typeof(m_key) = 'blob' AND length(m_key) IN (8, 36)),
                since TEXT NOT NULL,
                note TEXT NOT NULL
            )""",
            """CREATE TABLE lids (
                port_guid TEXT PRIMARY KEY,
                base_lid INTEGER NOT NULL,
                top_lid INTEGER NOT NULL,
                seen TEXT NOT NULL
            ) WITHOUT ROWID""",
            "CREATE INDEX lids_by_number ON lids (base_lid)",
            """CREATE TABLE encryption (
                only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
                salt BLOB NOT NULL,
                n INTEGER NOT NULL,
                r INTEGER NOT NULL,
                p INTEGER NOT NULL,
                proof BLOB NOT NULL
            )""",
            *_sealed_only("keys", "m_key"),
            *_sealed_only("subnet_keys", "m_key"),
        ),
        RUN_TABLES,
        (
            # LinkDownedCounter of (node_guid, port) when the link was proven; NULL if it was not read.
            "ALTER TABLE links ADD COLUMN link_downed INTEGER",
            # Ports that the user has declared gone or moved, so that no command waits for them.
            "CREATE TABLE settled (port_guid TEXT PRIMARY KEY, since TEXT NOT NULL) WITHOUT ROWID",
        ),
        _SM_KEY_TABLES,
        RUN_VIA,
        _CLASS_KEY_TABLES,
        _ROW_NAMES,
        RUN_OPERATION,
        RUN_TO_MOVE,
        _SEVERAL_SUBNETS,
    ),
    columns={**_KEY_COLUMNS, **RUN_COLUMNS, **_SM_KEY_COLUMNS, **_CLASS_KEY_COLUMNS, **_NUMBERED_COLUMNS},
)
