"""The tables of the key store and their migrations. A released migration never changes."""

from __future__ import annotations

from typing import Final

from ibkeys.store.columns import Column, blob, guid, number, row_name, text, time
from ibkeys.store.keystore.class_key_tables import CLASS_KEY_COLUMNS, CLASS_KEY_TABLES
from ibkeys.store.keystore.row_names import NUMBERED_COLUMNS, ROW_NAMES
from ibkeys.store.keystore.run_tables import RUN_COLUMNS, RUN_OPERATION, RUN_TABLES, RUN_TO_MOVE, RUN_VIA
from ibkeys.store.keystore.sealed_only import sealed_only
from ibkeys.store.keystore.sealing import SALT_BYTES
from ibkeys.store.keystore.sm_key_tables import SEVERAL_SUBNETS, SM_KEY_COLUMNS, SM_KEY_TABLES
from ibkeys.store.sqlite import Schema

_CLEAR_AND_SEALED: Final = (8, 36)
"""Bytes of a key in plain text, and of a sealed one."""
_KEY_COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "keys": {
        "id": number(),
        "node_guid": guid(null=True),
        "port_guid": guid(),
        "port": number(255, null=True),
        "m_key": blob(*_CLEAR_AND_SEALED),
        "m_key_protect_bits": number(3, null=True),
        "m_key_lease_period": number(0xFFFF, null=True),
        "state": text(("current", "pending", "former", "imported")),
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
        "n": number(1 << 40),  # ibkeys.store.keystore.sealing bounds the memory that it takes
        "r": number(1 << 10),
        "p": number(1 << 6),
        "proof": blob(_CLEAR_AND_SEALED[1]),
    },
}


def _keys_of(sizes: str) -> str:
    """Return the SQL that makes the table of M_Keys. *sizes*: the condition for the number of bytes of a key, in
    SQL."""
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
            # Sealed keys are longer than 8 bytes, and SQLite changes a CHECK only with its table. A reference follows
            # the old table to its new name, so the copy's refers to the copy.
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
            *sealed_only("keys", "m_key"),
            *sealed_only("subnet_keys", "m_key"),
        ),
        RUN_TABLES,
        (
            # LinkDownedCounter of (node_guid, port) when the link was proven; NULL if it was not read.
            "ALTER TABLE links ADD COLUMN link_downed INTEGER",
            # Ports that the user has declared gone or moved, so that they are not waited for.
            "CREATE TABLE settled (port_guid TEXT PRIMARY KEY, since TEXT NOT NULL) WITHOUT ROWID",
        ),
        SM_KEY_TABLES,
        RUN_VIA,
        CLASS_KEY_TABLES,
        ROW_NAMES,
        RUN_OPERATION,
        RUN_TO_MOVE,
        SEVERAL_SUBNETS,
    ),
    columns={**_KEY_COLUMNS, **RUN_COLUMNS, **SM_KEY_COLUMNS, **CLASS_KEY_COLUMNS, **NUMBERED_COLUMNS},
)
