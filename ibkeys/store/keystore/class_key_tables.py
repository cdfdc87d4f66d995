"""The table of the key store for keys of classes other than subnet management: see
`ibkeys.store.keystore.class_keys`."""

from __future__ import annotations

from typing import Final

from ibkeys.store.columns import Column, blob, guid, number, text, time
from ibkeys.store.keystore.sealed_only import sealed_only
from ibkeys.store.keystore.sealing import SEALED_BYTES

CLASSES: Final = ("cc", "vs", "n2n", "b")

CLASS_KEY_TABLES: Final = (
    """CREATE TABLE class_keys (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key_class TEXT NOT NULL CHECK (key_class IN ('cc', 'vs', 'n2n', 'b')),
        port_guid TEXT NOT NULL,
        class_key BLOB NOT NULL CHECK (typeof(class_key) = 'blob' AND length(class_key) IN (8, 36)),
        since TEXT NOT NULL,
        note TEXT NOT NULL
    )""",
    "CREATE INDEX class_keys_of_port ON class_keys (key_class, port_guid)",
    *sealed_only("class_keys", "class_key"),
)
"""One migration step."""

CLASS_KEY_COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "class_keys": {
        "id": number(),
        "key_class": text(CLASSES),
        "port_guid": guid(),
        "class_key": blob(8, SEALED_BYTES),
        "since": time(),
        "note": text(),
    },
}
