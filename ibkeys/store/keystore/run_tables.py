"""Migrations of the key store for the tables of runs of mkey-deploy, mkey-rotate and mkey-remove. Earlier versions had
these tables here; now the journal has them (`ibkeys.store.journal.runs`)."""

from __future__ import annotations

from typing import Final

from ibkeys.store.columns import Column, text

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
"""A migration step: the tables of runs and their ports."""

RUN_VIA: Final = ("ALTER TABLE runs ADD COLUMN via TEXT",)
"""A migration step: a column with the data to resume a run through a subnet manager, as JSON without a key; NULL for
other runs."""

RUN_OPERATION: Final = (
    "ALTER TABLE runs ADD COLUMN journal TEXT",
    "ALTER TABLE runs ADD COLUMN operation INTEGER",
    """UPDATE runs SET journal = json_extract(via, '$.awaited.journal'),
        operation = json_extract(via, '$.awaited.operation') WHERE json_valid(via)""",
)
"""A migration step: columns with the operation of a run and the identity of its journal; NULL if a run has none."""

RUN_TO_MOVE: Final = (
    "CREATE TABLE run_to_move (document TEXT NOT NULL)",
    """INSERT INTO run_to_move SELECT json_object(
            'command', command, 'state', state, 'started', started, 'journal', journal, 'operation', operation,
            'same', same, 'protect', m_key_protect_bits, 'lease', m_key_lease_period, 'at_once', at_once,
            'first', first, 'max_failures', max_failures, 'via', via, 'ports', json((
                SELECT json_group_array(json_array(
                    sequence, node_guid, port_guid, port, run_ports.state,
                    (SELECT name FROM keys WHERE id = key_ref), (SELECT name FROM keys WHERE id = old_ref),
                    old_protect_bits, old_lease_period, reason
                )) FROM run_ports WHERE run = runs.id
            ))
        ) FROM runs ORDER BY id DESC LIMIT 1""",
    "DROP TABLE run_ports",
    "DROP TABLE runs",
)
"""A migration step: the tables are replaced by one with the last run as JSON, because only that can be resumed or
undone. `ibkeys.store.moving_runs` moves it to the journal."""

RUN_COLUMNS: Final[dict[str, dict[str, Column]]] = {"run_to_move": {"document": text()}}
