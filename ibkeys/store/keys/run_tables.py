"""The tables of the key store for runs of mkey-deploy, mkey-rotate and mkey-remove: see `ibkeys.store.keys.runs`."""

from __future__ import annotations

from typing import Final

from ibkeys.store.columns import Column, guid, number, row_name, text, time

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

RUN_VIA: Final = ("ALTER TABLE runs ADD COLUMN via TEXT",)
"""Another step: of a run through a subnet manager what it needs to go on, as JSON without a key; NULL of the others."""

RUN_OPERATION: Final = (
    "ALTER TABLE runs ADD COLUMN journal TEXT",
    "ALTER TABLE runs ADD COLUMN operation INTEGER",
    """UPDATE runs SET journal = json_extract(via, '$.awaited.journal'),
        operation = json_extract(via, '$.awaited.operation') WHERE json_valid(via)""",
)
"""Another step: the operation of a run, and the identity of the journal that has it; NULL where there is none."""

RUN_COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "runs": {
        "id": number(),
        "command": text(),
        "state": text(("open", "ended", "undone")),
        "same": number(1),
        "m_key_protect_bits": number(3, null=True),
        "m_key_lease_period": number(0xFFFF, null=True),
        "at_once": number(),
        "first": number(null=True),
        "max_failures": number(),
        "started": time(),
        "finished": time(null=True),
        "via": text(null=True),
        "journal": row_name(null=True),
        "operation": number(null=True),
    },
    "run_ports": {
        "sequence": number(),
        "node_guid": guid(),
        "port_guid": guid(),
        "port": number(255),
        "state": text(("waiting", "sent", "done", "skipped", "failed", "undone")),
        "key_ref": number(null=True),
        "old_ref": number(null=True),
        "old_protect_bits": number(3, null=True),
        "old_lease_period": number(0xFFFF, null=True),
        "reason": text(),
    },
}
