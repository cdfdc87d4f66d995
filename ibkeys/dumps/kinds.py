"""The kinds of files that can be read, how each is recognized by its beginning, and whether its values are the SM's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.dumps import cache, db_csv, netdiscover, saquery, smpquery, subnet_list
from ibkeys.dumps.facts import DumpFacts, PortFacts
from ibkeys.dumps.lines import readable
from ibkeys.errors import FileFormatError

_HEAD: Final = 64 * files.KIB


@dataclass(frozen=True, slots=True)
class DumpKind:
    """A kind of file. ``begins``: the form of its first meaningful line; None for the binary kind.

    ``is_sm``: its values are the SM's data, not answers of ports. ``limit``: the most bytes of one.
    """

    name: str
    begins: re.Pattern[str] | None
    is_sm: bool
    limit: int
    read: Callable[[Path, int], DumpFacts]


NETDISCOVER: Final = DumpKind("ibnetdiscover", netdiscover.BEGINS, False, 2 * files.LIST, netdiscover.read_netdiscover)
SMPQUERY: Final = DumpKind("smpquery", smpquery.BEGINS, False, files.LARGE, smpquery.read_smpquery)
CACHE: Final = DumpKind("ibnetdiscover --cache", None, False, files.LARGE, cache.read_cache)
KINDS: Final = (
    CACHE,
    DumpKind("ibdiagnet2.db_csv", db_csv.BEGINS, False, files.STATE, db_csv.read_db_csv),
    DumpKind("opensm-subnet.lst", subnet_list.BEGINS, True, files.LARGE, subnet_list.read_subnet_list),
    DumpKind("saquery", saquery.BEGINS, True, files.LARGE, saquery.read_saquery),
    SMPQUERY,
    NETDISCOVER,
)


def kind_of(path: Path) -> DumpKind:
    """Return the kind of file of *path*, by its first 64 KiB. Raises FileFormatError."""
    kind = kind_if_known(path)
    if kind is None:
        names = ", ".join(kind.name for kind in KINDS)
        raise FileFormatError(f"is not a file that can be imported; these can: {names}", str(path))
    return kind


def kind_if_known(path: Path) -> DumpKind | None:
    """Return the kind of file of *path*, by its first 64 KiB; None for an unknown kind. Raises FileFormatError for a
    file that cannot be read."""
    with readable(path):
        head = files.read_head(path, _HEAD)
    if head.startswith(cache.MAGIC_BYTES):
        return CACHE
    for line in head.decode("utf-8", "replace").split("\n"):
        for kind in KINDS:
            if kind.begins is not None and kind.begins.match(line):
                return kind
    return None


def read_file(path: Path, kind: DumpKind, owner: PortFacts | None) -> DumpFacts:
    """Return the contents of *path*. *owner*: the port of smpquery's P_Key table. Raises FileFormatError."""
    if owner is None:
        return kind.read(path, kind.limit)
    if kind is not SMPQUERY:
        raise FileFormatError("is no output of smpquery pkeys, so it has no P_Key table of the port named", str(path))
    facts = smpquery.read_smpquery(path, kind.limit, owner)
    if owner.table is None:
        raise FileFormatError("has no P_Key table of smpquery pkeys for the port that was named", str(path))
    return facts
