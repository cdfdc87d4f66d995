"""The small files that an audit compares with: registry of P_Keys, tenants, inventory of GUIDs, subnet managers.

One entry on each line; ``#`` begins a comment, and blank lines are ignored. Tenants may also be JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ibkeys import files
from ibkeys.errors import EncodeError, FileFormatError
from ibkeys.jsonfile import loads
from ibkeys.keys import guid as guids
from ibkeys.keys.number import quoted
from ibkeys.keys.pkey import PKey
from ibkeys.store.private_files import os_error

T = TypeVar("T")


def read_registry(path: Path) -> dict[int, str]:
    """Return the owner of each partition from lines ``P_KEY OWNER``. The membership bit is ignored. The owner ``-`` is
    not a tenant.

    Raises FileFormatError for a line without a P_Key or owner, and for a partition that occurs twice. Raises StoreError
    when the file cannot be read.
    """
    registry: dict[int, str] = {}

    def register(word: str, owner: str) -> None:
        key = PKey.parse(word)
        if not key.is_valid:
            raise EncodeError(f"{word} is not a P_Key: partition 0 matches nothing")
        if not owner:
            raise EncodeError(f"{word} has no owner; write - for a partition without a tenant")
        if key.partition in registry:
            raise EncodeError(f"partition 0x{key.partition:04x} belongs to {registry[key.partition]!r} already")
        registry[key.partition] = owner

    _read_lines(path, register)
    return registry


@dataclass(frozen=True, slots=True)
class Tenancy:
    """One partition of one tenant, as the operator's file has it. ``tenant`` may be None, and so may ``name``, the name
    of the partition.
    """

    partition: int
    tenant: str | None
    name: str | None = None


def read_tenants(path: Path) -> list[Tenancy]:
    """Return the partitions of tenants, in the order of the file. A partition may occur twice; the caller decides which
    tenant owns it.

    Lines ``P_KEY TENANT`` as in a registry, or JSON: a list of objects with ``partition_key`` (text or number),
    ``tenant_id`` and perhaps ``name``, or an object with such a list as ``partitions``. Raises FileFormatError, and
    StoreError when the file cannot be read.
    """
    text = _text(path)
    if text.lstrip()[:1] in ("[", "{"):
        document = loads(text.encode(), str(path))
        entries = document.get("partitions") if isinstance(document, dict) else document
        if not isinstance(entries, list):
            raise FileFormatError(
                "is neither a list of partitions nor an object with such a list as partitions", str(path)
            )
        return [_tenancy(each, path) for each in entries]
    return _read_lines(path, lambda word, tenant: Tenancy(_partition(word), None if tenant in ("", "-") else tenant))


def _tenancy(entry: Any, path: Path) -> Tenancy:
    if not isinstance(entry, dict) or "partition_key" not in entry:
        raise FileFormatError("an entry of partitions is not an object with a partition_key", str(path))
    tenant, name = (entry.get(key) for key in ("tenant_id", "name"))
    if not all(isinstance(each, str | None) for each in (tenant, name)):
        raise FileFormatError("a tenant_id or name is not text", str(path))
    try:
        return Tenancy(_partition(str(entry["partition_key"])), tenant or None, name or None)
    except ValueError as error:
        raise FileFormatError(str(error), str(path)) from None


def _partition(word: str) -> int:
    """Return the partition of a P_Key in any form. Raises EncodeError or another ValueError."""
    key = PKey.parse(word) if not word.isdigit() else PKey(int(word))
    if not key.is_valid:
        raise EncodeError(f"{word} is not a valid P_Key: partition number 0 is not allowed")
    return key.partition


def read_guids(path: Path) -> frozenset[int]:
    """Return the GUIDs of a file that has one GUID at the beginning of each line; the rest of a line is a comment.

    Raises FileFormatError for a word that is no GUID, and StoreError when the file cannot be read.
    """
    return frozenset(_read_lines(path, lambda word, _: parse_guid(word)))


def parse_guid(text: str) -> int:
    """Return the number of a GUID that is written with 0x and hex digits, or as in sysfs. Raises EncodeError."""
    if not (text.lower().startswith("0x") or guids.is_spelled_as_guid(text)):
        raise EncodeError(
            f"{quoted(text)} is not a GUID (0x and hex digits, or the form of sysfs, 0002:c903:004e:22a1)"
        )
    return guids.parse_guid(text)


def _text(path: Path) -> str:
    try:
        return files.read_text(path, files.LIST)
    except OSError as error:
        raise os_error(path, "file", error) from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"is not text ({error.reason})", str(path)) from None


def _read_lines(path: Path, read: Callable[[str, str], T]) -> list[T]:
    """Call *read* with the first word and the rest of each line, and return the results. Runs of blanks become one
    blank.

    A ValueError of *read* becomes a FileFormatError with the line number.
    """
    found = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        word, _, rest = " ".join(line.partition("#")[0].split()).partition(" ")
        if word:
            try:
                found.append(read(word, rest))
            except ValueError as error:
                raise FileFormatError(str(error), str(path), number, 1) from None
    return found
