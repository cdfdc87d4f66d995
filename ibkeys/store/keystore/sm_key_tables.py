"""The table of the key store for keys of subnet managers: see `ibkeys.store.keystore.sm_keys`."""

from __future__ import annotations

from typing import Final

from ibkeys.store.columns import Column, blob, number, row_name, text, time
from ibkeys.store.keystore.sealed_only import sealed_only
from ibkeys.store.keystore.sealing import SEALED_BYTES

KINDS: Final = ("sm_key", "sa_key", "other")
STATES: Final = ("current", "pending", "former", "imported")

SM_KEY_TABLES: Final = (
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
    *sealed_only("sm_keys", "sm_key"),
)
"""One migration step."""
SEVERAL_SUBNETS: Final = ("DROP INDEX one_current_of_kind", "DROP INDEX one_pending_of_kind")
"""Another one: a key of each kind for each subnet."""

SM_KEY_COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "sm_keys": {
        "id": number(),
        "kind": text(KINDS),
        "sm_key": blob(8, SEALED_BYTES),
        "state": text(STATES),
        "since": time(),
        "note": text(),
        "name": row_name(),
    },
}
