"""The entries of a P_Key table as every document has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ibkeys.keys.pkey import PKey


def entry_documents(occupied: Iterable[tuple[int, PKey]] | None) -> list[dict[str, Any]] | None:
    """Return the entries in use with index, partition and membership; None of a table that was not read."""
    if occupied is None:
        return None
    return [
        {"index": index, "pkey": str(key), "partition": f"0x{key.partition:04x}", "membership": key.membership}
        for index, key in occupied
    ]
