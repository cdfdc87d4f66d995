"""Snapshot files of earlier versions: what is taken from one of today."""

from __future__ import annotations

from typing import Final

SINCE_5: Final = "DROP TABLE forwarding_tables;"
"""Takes away the table that files before version 5 do not have."""
SINCE_4: Final = SINCE_5 + "ALTER TABLE unread DROP COLUMN common; ALTER TABLE class_keys DROP COLUMN not_asked;"
"""Takes away the table and columns that files before version 4 do not have."""
SINCE_3: Final = SINCE_4 + "".join(
    f"DROP TABLE {name};" for name in ("class_keys", "imported_values", "imported_files", "virtual_ports")
)
"""Takes away the tables and columns that files before version 3 do not have."""
