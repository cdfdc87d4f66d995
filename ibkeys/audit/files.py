"""The small files that an audit compares with: registry of P_Keys, inventory of GUIDs, list of subnet managers.

One entry on each line, ``#`` begins a comment, blank lines do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ibkeys import files
from ibkeys.errors import EncodeError, FileFormatError
from ibkeys.keys import guid as guids
from ibkeys.keys.number import quoted
from ibkeys.keys.pkey import PKey
from ibkeys.store.private_files import os_error


def read_registry(path: Path) -> dict[int, str]:
    """Return partition → owner from lines ``P_KEY OWNER``; membership does not count, the owner ``-`` is not a tenant.

    Raises FileFormatError: no P_Key, no owner, one partition twice. Raises StoreError when it cannot be read.
    """
    registry: dict[int, str] = {}
    for line, text in _lines(path):
        word, _, owner = text.partition(" ")
        try:
            key = PKey.parse(word)
        except EncodeError as error:
            raise FileFormatError(str(error), str(path), line, 1) from None
        if not key.is_valid:
            raise FileFormatError(f"{word} is not a P_Key: partition 0 matches nothing", str(path), line, 1)
        if not owner.strip():
            raise FileFormatError(f"{word} has no owner; write - for one that belongs to no tenant", str(path), line, 1)
        if key.partition in registry:
            known = registry[key.partition]
            message = f"partition 0x{key.partition:04x} belongs to {known!r} already"
            raise FileFormatError(message, str(path), line, 1)
        registry[key.partition] = owner.strip()
    return registry


def read_guids(path: Path) -> frozenset[int]:
    """Return the GUIDs of a file with one at the beginning of each line; what follows it is for people.

    Raises FileFormatError, and StoreError when it cannot be read.
    """
    found = set()
    for line, text in _lines(path):
        try:
            found.add(parse_guid(text.split()[0]))
        except EncodeError as error:
            raise FileFormatError(str(error), str(path), line, 1) from None
    return frozenset(found)


def parse_guid(text: str) -> int:
    """Read a GUID, 0x and hex digits or as sysfs has it. Raises EncodeError."""
    if not (text.lower().startswith("0x") or guids.is_spelled_as_guid(text)):
        raise EncodeError(f"{quoted(text)} is not a GUID (0x and hex digits, or 24be:05ff:ff98:aba1 as sysfs has it)")
    return guids.parse_guid(text)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = files.read_text(path, files.LIST)
    except OSError as error:
        raise os_error(path, "file", error) from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"is not text ({error.reason})", str(path)) from None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = " ".join(line.partition("#")[0].split())
        if stripped:
            yield number, stripped
