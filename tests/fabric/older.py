"""Snapshot files of earlier versions: what is taken from one of today."""

from __future__ import annotations

from typing import Final

SINCE_3: Final = "".join(
    f"DROP TABLE {name};" for name in ("class_keys", "imported_values", "imported_files", "virtual_ports")
)
"""Takes away the tables that files before version 3 do not have."""
