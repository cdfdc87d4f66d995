"""The plan document ``ibkeys.plan/1``: what a policy would change on a fabric, as a file that people review.

The dataclasses are the document, and check what no fabric could take; `dumps` and `write_plan` write it.
`ibkeys.policy.planread` reads it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from ibkeys import files, jsonfile
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.fabric.model import Port
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.policy.state import plan_digest

SCHEMA: Final = "ibkeys.plan/1"
MAX_CAPACITY: Final = 0xFFFF
_HEAD: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"ibkeys\.plan/')
_HEAD_SIZE: Final = 256

Enforce = Literal["both", "in", "out", "off"]
PortKey = tuple[int, int]
"""NodeGUID and port number: what tells ports apart."""


@dataclass(frozen=True, slots=True)
class PortId:
    """A port as every JSON document has it. ``port_guid``, ``node_desc`` and ``lid`` are None when not readable."""

    node_guid: int
    port_guid: int | None
    node_desc: str | None
    node_type: str
    port: int
    lid: int | None

    @classmethod
    def of(cls, port: Port) -> PortId:
        """Return the identity of a port that was read."""
        node = port.node
        return cls(node.guid, port.port_guid or None, node.description, node.type_name, port.num, port.lid)

    @property
    def key(self) -> PortKey:
        """NodeGUID and port number."""
        return self.node_guid, self.port

    @property
    def is_external(self) -> bool:
        """Whether this is an external port of a switch."""
        return self.node_type == "switch" and self.port != 0

    def to_json(self) -> dict[str, Any]:
        """Return the keys that every port carries."""
        return {
            "node_guid": _guid_text(self.node_guid),
            "port_guid": None if self.port_guid is None else _guid_text(self.port_guid),
            "node_desc": self.node_desc,
            "node_type": self.node_type,
            "port": self.port,
            "lid": self.lid,
        }

    def __str__(self) -> str:
        name = f"{self.node_desc!r} " if self.node_desc else ""
        return f"{name}0x{self.node_guid:016x} port {self.port}"


@dataclass(frozen=True, slots=True)
class TableChange:
    """One P_Key table: index → P_Key, empty entries (partition 0) left out, as read and as planned.

    ``capacity``: entries of the table. ``peer``: the port at the other end of the link, None where there is none or it
    does not matter: of an end port its leaf port, of a leaf port its end port.
    """

    port: PortId
    before: Mapping[int, PKey]
    after: Mapping[int, PKey]
    capacity: int
    peer: PortKey | None = None

    @property
    def differs(self) -> bool:
        """Whether anything changes; a plan made with ``--full`` also lists tables that stay."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Enforcement:
    """PartitionEnforcementInbound and -Outbound of an external port of a switch."""

    inbound: bool
    outbound: bool


@dataclass(frozen=True, slots=True)
class EnforcementChange:
    """Enforcement of one leaf port, as read and as planned."""

    port: PortId
    before: Enforcement
    after: Enforcement
    peer: PortKey | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """What the planner could not do, or what the user should know. ``port`` None: it concerns no single port."""

    port: PortId | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class IndexMove:
    """A P_Key of an end port that leaves an index and appears at another: running QPs hold the old index."""

    port: PortId
    pkey: PKey
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Break:
    """Where no order of writing keeps everybody connected, because tables are full.

    ``ports``: those whose tables are too full. ``pairs``: port GUIDs of end ports that may talk in ``partition`` before
    and after, and cannot for a moment in between.
    """

    partition: int
    ports: tuple[PortId, ...]
    pairs: tuple[tuple[int, int], ...]
    message: str


@dataclass(frozen=True, slots=True)
class FabricState:
    """What the plan was made from. ``sm_evidence``: what is known of the master SM, in words."""

    digest: str
    sm_guid: int | None = None
    sm_evidence: str | None = None


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The policy file and its digest."""

    file: str
    digest: str


@dataclass(frozen=True, slots=True)
class Options:
    """What the plan was asked to do. ``allow_index_moves``: the partitions that may move, by number."""

    enforce: Enforce = "both"
    allow_both_pkeys: bool = False
    disconnect_unconfigured: bool = False
    allow_index_moves: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """How many pairs of end ports gain or lose each other."""

    gained: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partitions that come into being, and those that have no member afterwards, by number."""

    born: tuple[int, ...] = ()
    dying: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanFile:
    """The whole document. Raises FileFormatError for a port named twice, an index or P_Key that its table cannot have,
    enforcement of a port that is no external port of a switch."""

    fabric: FabricState
    policy: PolicySource
    tables: tuple[TableChange, ...] = ()
    enforcement: tuple[EnforcementChange, ...] = ()
    problems: tuple[Problem, ...] = ()
    partitions: Partitions = field(default_factory=Partitions)
    reach: Reach = field(default_factory=Reach)
    options: Options = field(default_factory=Options)
    index_moves: tuple[IndexMove, ...] = ()
    breaks: tuple[Break, ...] = ()

    def __post_init__(self) -> None:
        _once("tables", (table.port for table in self.tables))
        _once("enforcement", (change.port for change in self.enforcement))
        for number, table in enumerate(self.tables):
            _check_table(f"tables[{number}]", table)
        for number, change in enumerate(self.enforcement):
            if not change.port.is_external:
                raise FileFormatError(f"enforcement[{number}]: {change.port} is no external port of a switch")

    @property
    def pending(self) -> bool:
        """Whether anything would change."""
        return any(table.differs for table in self.tables) or any(
            change.before != change.after for change in self.enforcement
        )


def _once(where: str, ports: Iterable[PortId]) -> None:
    seen: dict[PortKey, int] = {}
    for number, port in enumerate(ports):
        first = seen.setdefault(port.key, number)
        if first != number:
            raise FileFormatError(f"{where}[{number}]: {port} stands there twice, first as {where}[{first}]")


def _check_table(where: str, table: TableChange) -> None:
    if not 0 <= table.capacity <= MAX_CAPACITY:
        raise FileFormatError(f"{where}.capacity: {table.capacity} is not in 0..{MAX_CAPACITY}")
    for name, entries in (("before", table.before), ("after", table.after)):
        for index, key in entries.items():
            if not 0 <= index < table.capacity:
                raise FileFormatError(
                    f"{where}.{name}: index {index} is past the table of {table.port}, which has {table.capacity} "
                    "entries"
                )
            if not 0 <= key <= 0xFFFF or not key & PARTITION_MASK:
                raise FileFormatError(
                    f"{where}.{name}: {key} at index {index} is no valid P_Key; an empty entry is left out"
                )


# --- writing ---------------------------------------------------------------------------------------------------------


def to_json(plan: PlanFile) -> dict[str, Any]:
    """Return the document as JSON values, ``schema`` first."""
    return {
        "schema": SCHEMA,
        "fabric": {
            "digest": plan.fabric.digest,
            "sm_guid": None if plan.fabric.sm_guid is None else _guid_text(plan.fabric.sm_guid),
            "sm_evidence": plan.fabric.sm_evidence,
        },
        "policy": {"file": plan.policy.file, "digest": plan.policy.digest},
        "digest": plan_digest(plan),
        "options": {
            "enforce": plan.options.enforce,
            "allow_both_pkeys": plan.options.allow_both_pkeys,
            "disconnect_unconfigured": plan.options.disconnect_unconfigured,
            "allow_index_moves": [_key_text(number) for number in plan.options.allow_index_moves],
        },
        "tables": [
            {
                **table.port.to_json(),
                "capacity": table.capacity,
                "peer": _peer_json(table.peer),
                "before": _entries_json(table.before),
                "after": _entries_json(table.after),
            }
            for table in plan.tables
        ],
        "enforcement": [
            {
                **change.port.to_json(),
                "peer": _peer_json(change.peer),
                "before": {"inbound": change.before.inbound, "outbound": change.before.outbound},
                "after": {"inbound": change.after.inbound, "outbound": change.after.outbound},
            }
            for change in plan.enforcement
        ],
        "index_moves": [
            {**move.port.to_json(), "pkey": _key_text(move.pkey), "from": move.source, "to": move.target}
            for move in plan.index_moves
        ],
        "breaks": [
            {
                "partition": _key_text(each.partition),
                "ports": [port.to_json() for port in each.ports],
                "pairs": [[_guid_text(a), _guid_text(b)] for a, b in each.pairs],
                "message": each.message,
            }
            for each in plan.breaks
        ],
        "problems": [
            {
                **(problem.port.to_json() if problem.port is not None else dict.fromkeys(IDENTITY)),
                "kind": problem.kind,
                "message": problem.message,
            }
            for problem in plan.problems
        ],
        "partitions": {
            "born": [_key_text(number) for number in plan.partitions.born],
            "dying": [_key_text(number) for number in plan.partitions.dying],
        },
        "reach": {"gained": plan.reach.gained, "lost": plan.reach.lost},
    }


def dumps(plan: PlanFile) -> str:
    """Return the document as text that ends in a newline, each port on a line of its own: good for grep and diff."""
    return jsonfile.dumps(to_json(plan)) + "\n"


def write_plan(plan: PlanFile, path: Path) -> None:
    """Write the document to *path*, whole or not at all. A symbolic link of the user's own stays, and the file that it
    leads to is replaced.

    Raises OSError; UsageError as `check_place` does.
    """
    place = check_place(path)
    mask = os.umask(0o077)
    os.umask(mask)
    try:
        files.replace_file(place, dumps(plan).encode(), 0o666 & ~mask)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def check_place(path: Path) -> Path:
    """Return where a plan called *path* is put: where a link leads to, else *path* itself.

    Raises UsageError when something else than a plan or an empty file is there, OSError when that cannot be read:
    whoever mistypes a name must not lose a policy or a device.
    """
    try:
        place = files.check_output(path, follow=True)
    except files.NoRegularFile:
        raise UsageError(f"{path}: is there and is no plan, so it is not replaced; name another file") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    if place.exists():
        head = files.read_head(place, _HEAD_SIZE)
        if head.strip() and not _HEAD.match(head):
            raise UsageError(f"{path}: is there and is no plan, so it is not replaced; name another file")
    return place


def _guid_text(guid: int) -> str:
    return f"0x{guid:016x}"


def _key_text(key: int) -> str:
    return f"0x{key:04x}"


def _peer_json(peer: PortKey | None) -> dict[str, Any] | None:
    return None if peer is None else {"node_guid": _guid_text(peer[0]), "port": peer[1]}


def _entries_json(entries: Mapping[int, PKey]) -> dict[str, str]:
    return {str(index): _key_text(entries[index]) for index in sorted(entries)}


IDENTITY: Final = tuple(each.name for each in fields(PortId))
