"""The tables of the journal, and the steps that lead there. Steps that were released never change."""

from __future__ import annotations

from typing import Final

from ibkeys.store.sqlite import Schema

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
            """CREATE TABLE entries (
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
                key_ref INTEGER,
                status TEXT NOT NULL CHECK (status IN ('pending', 'done', 'failed')),
                PRIMARY KEY (operation, sequence)
            ) WITHOUT ROWID""",
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
    ),
)
