"""What a policy would change on a fabric: the plan as values, which check what no fabric could take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.errors import FileFormatError
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.reach.count import ReachCounts
from ibkeys.topology.port_id import PortId, PortKey

MAX_CAPACITY: Final = 0xFFFF

Enforce = Literal["both", "in", "out", "off"]
BreakKind = Literal["no-room", "circle"]


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
    """Where no order of writing keeps everybody connected.

    ``kind`` ``no-room``: because tables are full; ``ports`` are those. ``circle``: because ports wait for each other
    (`ibkeys.plan.steps`); ``ports`` are those that leave ``partition`` too early, and those that enter it then.
    ``pairs``: port GUIDs of end ports that may talk before and after, and cannot for a moment in between.
    """

    partition: int
    ports: tuple[PortId, ...]
    pairs: tuple[tuple[int, int], ...]
    message: str
    kind: BreakKind = "no-room"


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
class Partitions:
    """Partitions that come into being, and those that have no member afterwards, by number."""

    born: tuple[int, ...] = ()
    dying: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The whole document. Raises FileFormatError for a port named twice, an index or P_Key that its table cannot have,
    enforcement of a port that is no external port of a switch."""

    fabric: FabricState
    policy: PolicySource
    tables: tuple[TableChange, ...] = ()
    enforcement: tuple[EnforcementChange, ...] = ()
    problems: tuple[Problem, ...] = ()
    partitions: Partitions = field(default_factory=Partitions)
    reach: ReachCounts = field(default_factory=ReachCounts)
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
