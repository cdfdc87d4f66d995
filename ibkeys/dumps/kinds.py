"""The kinds of files that can be read, how each is recognized by its beginning, and whether its values are the SM's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibkeys import files
from ibkeys.dumps.lines import format_errors_for
from ibkeys.errors import FileFormatError

if TYPE_CHECKING:
    from ibkeys.dumps.facts import DumpFacts, PortFacts

_HEAD: Final = 64 * files.KIB


@dataclass(frozen=True, slots=True)
class DumpKind:
    """A kind of file. ``module``: the module that reads it, imported for the first file of this kind. ``begins``: the
    form of its first meaningful line; None for the binary kind.

    ``is_sm``: whether the values are the SM's data and not answers of ports. ``limit``: the most bytes that such a file
    may have.
    """

    name: str
    module: str
    begins: re.Pattern[str] | None
    is_sm: bool
    limit: int

    @property
    def read(self) -> Callable[..., DumpFacts]:
        """The function that returns the contents of a file. It takes the path, the most bytes and, for a P_Key table of
        smpquery, the port of the table. It raises FileFormatError.
        """
        reader: Callable[..., DumpFacts] = getattr(import_module(f"ibkeys.dumps.{self.module}"), f"read_{self.module}")
        return reader


_LISTS: Final = re.compile(r"\{ (?:CA|SW|Rt)(?:-SM)? Ports:")
_RECORDS: Final = re.compile(r"(?:PortInfoRecord|PKeyTableRecord|NodeRecord) dump:")
_TABLES: Final = re.compile(r"# (?:Node|Port|Switch) info: | *0:(?: +0x[0-9a-fA-F]{4}){1,8} *$")
_NODES: Final = re.compile(r'(?:Switch|Ca|Rt)\s+[0-9]+\s+"|(?:switch|ca|rt)guid=|# Topology file:')
_DIAGS_TABLES: Final = re.compile(r"Unicast lids \[0x[0-9a-f]+-")
_OPENSM_TABLES: Final = re.compile(r"Unicast lids \[[0-9]+-[0-9]+\]|dump_ucast_routes: Switch 0x")
_CACHE_BEGINS: Final = bytes.fromhex("2b83e78f")
NETDISCOVER: Final = DumpKind("ibnetdiscover", "netdiscover", _NODES, False, 2 * files.LIST)
SMPQUERY: Final = DumpKind("smpquery", "smpquery", _TABLES, False, files.LARGE)
CACHE: Final = DumpKind("ibnetdiscover --cache", "cache", None, False, files.LARGE)
KINDS: Final = (
    CACHE,
    DumpKind("ibdiagnet2.db_csv", "db_csv", re.compile(r"START_[A-Z]"), False, files.STATE),
    DumpKind("opensm-subnet.lst", "subnet_list", _LISTS, True, files.LARGE),
    DumpKind("saquery", "saquery", _RECORDS, True, files.LARGE),
    DumpKind("ibroute or dump_fts", "forwarding", _DIAGS_TABLES, False, files.STATE),
    DumpKind("opensm-lfts.dump or opensm.fdbs", "forwarding", _OPENSM_TABLES, True, files.STATE),
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
    with format_errors_for(path):
        head = files.read_head(path, _HEAD)
    if head.startswith(_CACHE_BEGINS):
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
    facts = kind.read(path, kind.limit, owner)
    if owner.table is None:
        raise FileFormatError("has no P_Key table of smpquery pkeys for the port that was named", str(path))
    return facts
