"""A P_Key table in sysfs: a directory with one file for each index."""

from __future__ import annotations

from typing import Final

from ibkeys.host.kernel.sysfs import Sysfs, numbers_in
from ibkeys.keys.pkey import PKey

Table = tuple[PKey | None, ...]
"""A P_Key table by index, with its empty entries (0x0000). None: an entry that could not be read."""
MOST_INDEX: Final = 0xFFFE
"""The highest index: PartitionCap has 16 bits."""


def read_table(sysfs: Sysfs, folder: str, required: bool = False) -> Table | None:
    """Return the table in *folder*; None if the folder does not exist or could not be read. *required*: as in
    `Sysfs.text`."""
    names = sysfs.names(folder, required)
    if names is None:
        return None
    indexes = numbers_in(names, MOST_INDEX)
    table: list[PKey | None] = [None] * (indexes[-1] + 1 if indexes else 0)
    for index in indexes:
        value = sysfs.number(f"{folder}/{index}", 16, 0xFFFF, required=True)
        table[index] = None if value is None else PKey(value)
    return tuple(table)


def index_of(text: str) -> int:
    """Parse a decimal index of a P_Key table. Raises ValueError."""
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > MOST_INDEX:
        raise ValueError(f"{text[:40]!r} is not an index of a P_Key table")
    return int(text)
