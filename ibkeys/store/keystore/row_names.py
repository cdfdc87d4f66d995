"""Names of rows of the key store, to which the journal refers: random, so that a name from another store is no name
here. A row's number is valid within one file only: after a key store was lost, a new one counts from 1 again, and an
entry of the journal would get another key. So a row has a name of 128 random bits. Journals of earlier versions refer
to numbers; those are found only if the row had no name when this file was upgraded. If another file of an earlier
version replaced the right one, such a number leads to another key. That key is only compared with the keys of a file or
port, and never written, so no value is wrongly taken as set by ibkeys.
"""

from __future__ import annotations

from typing import Final

from ibkeys.store.columns import Column, number, text

_TABLES: Final = ("keys", "subnet_keys", "sm_keys")

ROW_NAMES: Final = (
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
"""One migration step. ``most``: the highest number of a row that an earlier version stored, 0 in a new file."""

NUMBERED_COLUMNS: Final[dict[str, dict[str, Column]]] = {"numbered": {"table_name": text(_TABLES), "most": number()}}
