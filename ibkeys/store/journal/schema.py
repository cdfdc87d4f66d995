"""The tables of the journal and their migrations. A released migration never changes."""

from __future__ import annotations

from typing import Final, get_args

from ibkeys.store import columns
from ibkeys.store.columns import Column
from ibkeys.store.journal.records import (
    ATTRIBUTE_SIZE,
    ATTRIBUTES,
    EntryStatus,
    OpensmOrigin,
    RehearsalVerdict,
    Stage,
)
from ibkeys.store.sqlite import Schema

_STATES: Final = ("open", "done", "undone", "failed")
_COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "operations": {
        "id": columns.number(),
        "command": columns.text(),
        "state": columns.text(_STATES),
        "started": columns.time(),
        "finished": columns.time(null=True),
        "undoes": columns.number(null=True),
        "undone_by": columns.number(null=True),
        "state_before_undo": columns.text(_STATES, null=True),
        # NULL where an operation neither follows a plan nor has to be confirmed.
        "stage": columns.text(get_args(Stage), null=True),
    },
    "entries": {
        "sequence": columns.number(),
        "node_guid": columns.guid(),
        "port_guid": columns.guid(),
        "node_desc": columns.text(),
        "node_type": columns.text(("ca", "switch", "router")),
        "port": columns.number(255),
        "lid": columns.number(0xFFFF),
        "attribute": columns.text(ATTRIBUTES),
        "attribute_modifier": columns.number(0xFFFFFFFF),
        "before": columns.blob(ATTRIBUTE_SIZE),
        "after": columns.blob(ATTRIBUTE_SIZE),
        "key_name": columns.row_reference(null=True),
        "status": columns.text(get_args(EntryStatus)),
    },
    "files": {
        "sequence": columns.number(),
        "host": columns.text(),
        "path": columns.text(),
        "before": columns.blob(null=True),
        "after": columns.blob(null=True),
        "mode": columns.number(0o7777, null=True),
        "uid": columns.number(0xFFFFFFFF, null=True),
        "gid": columns.number(0xFFFFFFFF, null=True),
        "attributes": columns.text(),
        "status": columns.text(get_args(EntryStatus)),
    },
    "plans": {
        # NULL where an operation follows no plan.
        "document": columns.text(null=True),
        "options": columns.text(),
    },
    "starts": {
        "operation": columns.number(),
        "started": columns.time(),
        "user": columns.text(),
        "host": columns.text(),
        "overrides": columns.text(),
        "options": columns.text(),
    },
    "steps": {
        "operation": columns.number(),
        "number": columns.number(),
        "name": columns.text(),
        "begun": columns.time(),
        "status": columns.text(get_args(EntryStatus)),
    },
    "managers": {"operation": columns.number(), "port_guid": columns.guid(), "port": columns.text()},
    "identities": {"identity": columns.row_name()},
    "runs": {
        "operation": columns.number(),
        "same": columns.number(1),
        "m_key_protect_bits": columns.number(3, null=True),
        "m_key_lease_period": columns.number(0xFFFF, null=True),
        "at_once": columns.number(),
        "first": columns.number(null=True),
        "max_failures": columns.number(),
        "via": columns.text(null=True),
    },
    "run_ports": {
        "sequence": columns.number(),
        "node_guid": columns.guid(),
        "port_guid": columns.guid(),
        "port": columns.number(255),
        "state": columns.text(("waiting", "sent", "done", "skipped", "failed", "undone")),
        "key_name": columns.row_name(null=True),
        "old_name": columns.row_name(null=True),
        "old_protect_bits": columns.number(3, null=True),
        "old_lease_period": columns.number(0xFFFF, null=True),
        "reason": columns.text(),
    },
    "rehearsals": {
        "plan": columns.text(),
        "verdict": columns.text(get_args(RehearsalVerdict)),
        "made": columns.time(),
        "snapshot": columns.text(),
        "opensm": columns.text(get_args(OpensmOrigin)),
        "program": columns.text(),
        "user": columns.text(),
        "host": columns.text(),
    },
}


def _entries_with(key: str) -> str:
    """Return the SQL that creates the table of attributes. *key*: the definition of the column that refers to the key
    store."""
    return f"""CREATE TABLE entries (
                operation INTEGER NOT NULL REFERENCES operations (id),
                sequence INTEGER NOT NULL,
                node_guid TEXT NOT NULL,
                port_guid TEXT NOT NULL,
                node_desc TEXT NOT NULL,
                node_type TEXT NOT NULL,
                port INTEGER NOT NULL,
                lid INTEGER NOT NULL,
                attribute TEXT NOT NULL,
                attribute_modifier INTEGER NOT NULL,
                before BLOB NOT NULL CHECK (length(before) = 64),
                after BLOB NOT NULL CHECK (length(after) = 64),
                {key},
                status TEXT NOT NULL CHECK (status IN ('pending', 'done', 'failed')),
                PRIMARY KEY (operation, sequence)
            ) WITHOUT ROWID"""


JOURNAL_SCHEMA: Final = Schema(
    what="journal",
    application_id=0x49424B4A,  # "IBKJ"
    steps=(
        (
            """CREATE TABLE operations (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                command TEXT NOT NULL,
                state TEXT NOT NULL CHECK (state IN ('open', 'done', 'undone', 'failed')),
                started TEXT NOT NULL,
                finished TEXT
            )""",
            _entries_with("key_ref INTEGER"),
        ),
        (
            """CREATE TABLE plans (
                operation INTEGER PRIMARY KEY REFERENCES operations (id),
                document TEXT NOT NULL,
                options TEXT NOT NULL,
                stage TEXT NOT NULL CHECK (stage IN ('running', 'unconfirmed', 'confirmed', 'going-back'))
            )""",
        ),
        (
            "ALTER TABLE operations ADD COLUMN undoes INTEGER REFERENCES operations (id)",
            "ALTER TABLE operations ADD COLUMN state_before_undo TEXT",
            """CREATE TABLE starts (
                operation INTEGER NOT NULL REFERENCES operations (id),
                number INTEGER NOT NULL,
                started TEXT NOT NULL,
                user TEXT NOT NULL,
                host TEXT NOT NULL,
                overrides TEXT NOT NULL,
                options TEXT NOT NULL,
                PRIMARY KEY (operation, number)
            ) WITHOUT ROWID""",
        ),
        (
            """CREATE TABLE files (
                operation INTEGER NOT NULL REFERENCES operations (id),
                sequence INTEGER NOT NULL,
                host TEXT NOT NULL,
                path TEXT NOT NULL,
                before BLOB,
                after BLOB,
                mode INTEGER,
                uid INTEGER,
                gid INTEGER,
                attributes TEXT NOT NULL,
                status TEXT NOT NULL CHECK (status IN ('pending', 'done', 'failed')),
                PRIMARY KEY (operation, sequence)
            )""",
        ),
        (
            # The number of a row is only valid within one key store, its name in every one: see
            # ibkeys.store.keystore.schema.
            "ALTER TABLE entries RENAME TO entries_before",
            _entries_with("key_name TEXT"),
            """INSERT INTO entries SELECT operation, sequence, node_guid, port_guid, node_desc, node_type, port, lid,
                attribute, attribute_modifier, before, after, CAST(key_ref AS TEXT), status FROM entries_before""",
            "DROP TABLE entries_before",
        ),
        (
            # A lock on the host of an OpenSM names this identity, so that a command recognises locks of its own
            # journal.
            "CREATE TABLE identities (identity TEXT NOT NULL)",
            "INSERT INTO identities VALUES (lower(hex(randomblob(16))))",
        ),
        (
            "ALTER TABLE plans RENAME TO plans_before",
            """CREATE TABLE plans (
                operation INTEGER PRIMARY KEY REFERENCES operations (id),
                document TEXT NOT NULL,
                options TEXT NOT NULL,
                stage TEXT NOT NULL CHECK (stage IN ('running', 'unconfirmed', 'confirmed', 'going-back', 'refused'))
            )""",
            "INSERT INTO plans SELECT operation, document, options, stage FROM plans_before",
            "DROP TABLE plans_before",
        ),
        (
            # An operation that has to be confirmed need not follow a plan.
            "ALTER TABLE operations ADD COLUMN stage TEXT",
            "UPDATE operations SET stage = (SELECT stage FROM plans WHERE operation = id)",
            "ALTER TABLE plans RENAME TO plans_before",
            """CREATE TABLE plans (
                operation INTEGER PRIMARY KEY REFERENCES operations (id),
                document TEXT,
                options TEXT NOT NULL
            )""",
            "INSERT INTO plans SELECT operation, document, options FROM plans_before",
            "DROP TABLE plans_before",
        ),
        (
            # See ibkeys.store.journal.runs. key_name and old_name are names of keys in the key store.
            """CREATE TABLE runs (
                operation INTEGER PRIMARY KEY REFERENCES operations (id),
                same INTEGER NOT NULL CHECK (same IN (0, 1)),
                m_key_protect_bits INTEGER,
                m_key_lease_period INTEGER,
                at_once INTEGER NOT NULL,
                first INTEGER,
                max_failures INTEGER NOT NULL,
                via TEXT
            )""",
            """CREATE TABLE run_ports (
                operation INTEGER NOT NULL REFERENCES runs (operation),
                sequence INTEGER NOT NULL,
                node_guid TEXT NOT NULL,
                port_guid TEXT NOT NULL,
                port INTEGER NOT NULL,
                state TEXT NOT NULL CHECK (state IN ('waiting', 'sent', 'done', 'skipped', 'failed', 'undone')),
                key_name TEXT,
                old_name TEXT,
                old_protect_bits INTEGER,
                old_lease_period INTEGER,
                reason TEXT NOT NULL DEFAULT '',
                PRIMARY KEY (operation, sequence)
            ) WITHOUT ROWID""",
        ),
        (
            """CREATE TABLE steps (
                operation INTEGER NOT NULL REFERENCES operations (id),
                number INTEGER NOT NULL,
                name TEXT NOT NULL,
                begun TEXT NOT NULL,
                status TEXT NOT NULL CHECK (status IN ('pending', 'done', 'failed')),
                PRIMARY KEY (operation, number)
            ) WITHOUT ROWID""",
        ),
        (
            # See ibkeys.store.journal.rehearsals. plan is the digest of a plan that need not be in this journal.
            """CREATE TABLE rehearsals (
                number INTEGER PRIMARY KEY,
                plan TEXT NOT NULL,
                verdict TEXT NOT NULL CHECK (verdict IN ('identical', 'differs', 'refused')),
                made TEXT NOT NULL,
                snapshot TEXT NOT NULL,
                opensm TEXT NOT NULL,
                program TEXT NOT NULL,
                user TEXT NOT NULL,
                host TEXT NOT NULL
            )""",
            "CREATE INDEX rehearsals_by_plan ON rehearsals (plan)",
        ),
        (
            # The SMs of the subnet that an operation found; earlier versions kept them in the options of a plan.
            """CREATE TABLE managers (
                operation INTEGER NOT NULL REFERENCES operations (id),
                port_guid TEXT NOT NULL,
                port TEXT NOT NULL,
                PRIMARY KEY (operation, port_guid)
            ) WITHOUT ROWID""",
        ),
        (
            # The long values last: SQLite reads all of them to get to a value after them.
            "ALTER TABLE plans RENAME TO plans_before",
            """CREATE TABLE plans (
                operation INTEGER PRIMARY KEY REFERENCES operations (id),
                options TEXT NOT NULL,
                document TEXT
            )""",
            "INSERT INTO plans SELECT operation, options, document FROM plans_before",
            "DROP TABLE plans_before",
            "ALTER TABLE files RENAME TO files_before",
            """CREATE TABLE files (
                operation INTEGER NOT NULL REFERENCES operations (id),
                sequence INTEGER NOT NULL,
                host TEXT NOT NULL,
                path TEXT NOT NULL,
                mode INTEGER,
                uid INTEGER,
                gid INTEGER,
                attributes TEXT NOT NULL,
                status TEXT NOT NULL CHECK (status IN ('pending', 'done', 'failed')),
                before BLOB,
                after BLOB,
                PRIMARY KEY (operation, sequence)
            )""",
            """INSERT INTO files
                SELECT operation, sequence, host, path, mode, uid, gid, attributes, status, before, after
                FROM files_before""",
            "DROP TABLE files_before",
        ),
    ),
    columns=_COLUMNS,
)
