"""The tables of the key store for runs of mkey-deploy and mkey-rotate: see `ibkeys.store.runs`."""

from __future__ import annotations

from typing import Final

RUN_TABLES: Final = (
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        command TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'ended', 'undone')),
        same INTEGER NOT NULL CHECK (same IN (0, 1)),
        m_key_protect_bits INTEGER,
        m_key_lease_period INTEGER,
        at_once INTEGER NOT NULL,
        first INTEGER,
        max_failures INTEGER NOT NULL,
        started TEXT NOT NULL,
        finished TEXT
    )""",
    """CREATE TABLE run_ports (
        run INTEGER NOT NULL REFERENCES runs (id),
        sequence INTEGER NOT NULL,
        node_guid TEXT NOT NULL,
        port_guid TEXT NOT NULL,
        port INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('waiting', 'sent', 'done', 'skipped', 'failed', 'undone')),
        key_ref INTEGER REFERENCES keys (id),
        old_ref INTEGER REFERENCES keys (id),
        old_protect_bits INTEGER,
        old_lease_period INTEGER,
        reason TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (run, sequence)
    ) WITHOUT ROWID""",
)
"""One migration step."""
