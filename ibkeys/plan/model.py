"""The plan as value types: what a policy would change on a fabric. The types reject impossible values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from ibkeys.change.method import MethodName
from ibkeys.change.wanted import EnforcementChange, PlannedChange, TableChange, planned_changes
from ibkeys.errors import FileFormatError
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.reach.count import ReachCounts
from ibkeys.topology.port_id import PortId, PortKey

MAX_CAPACITY: Final = 0xFFFF

Enforce = Literal["both", "in", "out", "off"]
BreakKind = Literal["no-room", "circle"]


@dataclass(frozen=True, slots=True)
class PlanProblem:
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
    """Pairs that no order of writing keeps connected.

    ``kind`` ``no-room``: because tables are full; ``ports`` are those. ``circle``: because ports wait for each other
    (`ibkeys.plan.steps`); ``ports`` are those that leave ``partition`` too early, and those that enter it then.
    ``pairs``: port GUIDs of end ports that may talk before and after, and but briefly cannot in between.
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
    """The policy file, the SHA-256 of its bytes, and the bytes; None in a plan that an earlier version made."""

    file: str
    digest: str
    text: bytes | None = None

    def require_text(self) -> bytes:
        """Return the bytes of the policy. Raises FileFormatError if the plan does not have them."""
        if self.text is None:
            raise FileFormatError(
                f"the plan does not have the text of its policy ({self.file}), which a subnet manager needs: an "
                "earlier version of ibkeys made it; plan again"
            )
        return self.text

    def parsed(self) -> Policy | None:
        """Return the policy; None where the plan does not have its bytes, or they cannot be read."""
        try:
            return None if self.text is None else parse_policy(self.text, self.file)
        except FileFormatError:
            return None


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the plan was asked to do. ``allow_index_moves``: the partitions that may move, by number."""

    enforce: Enforce = "both"
    allow_both_pkeys: bool = False
    disconnect_unconfigured: bool = False
    allow_index_moves: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SmOptions:
    """The options of OpenSM with which it makes of the policy what the plan says, named as in opensm.conf.

    ``no_partition_enforcement`` is the older word for ``part_enforce off``, and the stronger of the two.
    ``keep_pkey_indexes``: off, OpenSM packs every table again, and P_Keys in use move. Source: opensm osm_subnet.c,
    osm_pkey_mgr.c.
    """

    allow_both_pkeys: bool = False
    part_enforce: Enforce = "both"
    no_partition_enforcement: bool = False
    keep_pkey_indexes: bool = True

    @classmethod
    def of(cls, options: PlanOptions) -> SmOptions:
        """Return the options that lead to the same as those of a plan; where the plan does not say, the default."""
        return cls(options.allow_both_pkeys, options.enforce)

    @property
    def enforce(self) -> Enforce:
        """What leaf ports enforce in effect."""
        return "off" if self.no_partition_enforcement else self.part_enforce


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """Partitions that are created, and those that have no member afterwards, by number."""

    born: tuple[int, ...] = ()
    dying: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The whole document. ``sm_options`` is None in a plan that an earlier version made. ``live_policy``: the file of
    the master's OpenSM when the plan was made, with the digest "" where there was none; None: it was not seen.
    ``method``: the one that was chosen for the fabric as it was; None where none was, or it was not live.

    Raises FileFormatError for a port named twice, an index or P_Key that its table cannot have, enforcement of a port
    that is not an external port of a switch, a policy's text that is not the one of its digest, options of the subnet
    manager that do not lead to what was planned.
    """

    fabric: FabricState
    policy: PolicySource
    tables: tuple[TableChange, ...] = ()
    enforcement: tuple[EnforcementChange, ...] = ()
    problems: tuple[PlanProblem, ...] = ()
    partitions: PartitionChanges = field(default_factory=PartitionChanges)
    reach: ReachCounts = field(default_factory=ReachCounts)
    options: PlanOptions = field(default_factory=PlanOptions)
    index_moves: tuple[IndexMove, ...] = ()
    breaks: tuple[Break, ...] = ()
    sm_options: SmOptions | None = None
    live_policy: PolicySource | None = None
    method: MethodName | None = None

    def __post_init__(self) -> None:
        self._check_policy()
        _once("tables", (table.port for table in self.tables))
        _once("enforcement", (change.port for change in self.enforcement))
        for number, table in enumerate(self.tables):
            _check_table(f"tables[{number}]", table)
        for number, change in enumerate(self.enforcement):
            if not change.port.is_external:
                raise FileFormatError(f"enforcement[{number}]: {change.port} is not an external port of a switch")

    @property
    def peers(self) -> dict[PortKey, PortKey | None]:
        """What each of its ports was linked to when it was made, None where that is not known."""
        tables = {table.port.key: table.peer for table in self.tables}
        return tables | {change.port.key: change.peer for change in self.enforcement}

    @property
    def changes(self) -> tuple[PlannedChange, ...]:
        """Every P_Key entry and enforcement bit that changes, port by port."""
        return planned_changes(self.tables, self.enforcement)

    @property
    def ports(self) -> tuple[PortId, ...]:
        """The ports that change, each once."""
        return tuple(dict.fromkeys(each.port for each in self.changes))

    def _check_policy(self) -> None:
        text, sm = self.policy.text, self.sm_options
        if text is not None and hashlib.sha256(text).hexdigest() != self.policy.digest:
            raise FileFormatError("policy.text: is not the text whose SHA-256 is policy.digest; plan again")
        live = self.live_policy
        if live is not None and live.digest != ("" if live.text is None else hashlib.sha256(live.text).hexdigest()):
            raise FileFormatError("live_policy.text: is not the text whose SHA-256 is live_policy.digest; plan again")
        if sm is not None and (sm.enforce, sm.allow_both_pkeys) != (
            self.options.enforce,
            self.options.allow_both_pkeys,
        ):
            raise FileFormatError("sm_options: do not lead to what the plan was made for (options); plan again")

    @property
    def pending(self) -> bool:
        """Whether anything would change."""
        return any(table.differs for table in self.tables) or any(
            change.before != change.after for change in self.enforcement
        )


def tables_by_guid(tables: Iterable[TableChange]) -> dict[int, TableChange]:
    """Return the tables of end ports by port GUID, without those whose GUID is not known."""
    return {table.port.port_guid: table for table in tables if not table.port.is_external and table.port.port_guid}


def _once(where: str, ports: Iterable[PortId]) -> None:
    seen: dict[PortKey, int] = {}
    for number, port in enumerate(ports):
        first = seen.setdefault(port.key, number)
        if first != number:
            raise FileFormatError(f"{where}[{number}]: {port} appears twice, first as {where}[{first}]")


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
                    f"{where}.{name}: {key} at index {index} is not a valid P_Key; an empty entry is left out"
                )
