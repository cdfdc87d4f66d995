"""The plan as value types: the changes that a policy makes on a fabric. The types reject impossible values."""

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
    """A thing that the planner could not do, or that the user should know. ``port`` None: it concerns no single
    port."""

    port: PortId | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class IndexMove:
    """A P_Key of an end port that moves from one index to another: running QPs use the old index."""

    port: PortId
    pkey: PKey
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Break:
    """Pairs that no order of writing keeps connected.

    ``kind`` ``no-room``: tables are full, and ``ports`` have these tables. ``circle``: ports wait for each other
    (`ibkeys.plan.steps`); ``ports`` are those that leave ``partition`` too early, and those that enter it then.
    ``pairs``: port GUIDs of end ports that may talk before and after, but briefly cannot in between.
    """

    partition: int
    ports: tuple[PortId, ...]
    pairs: tuple[tuple[int, int], ...]
    message: str
    kind: BreakKind = "no-room"


@dataclass(frozen=True, slots=True)
class FabricState:
    """The state of the fabric for which the plan was made. ``digest``: see `state_digest`; ``sm_guid``: the port GUID
    of the master SM; ``sm_evidence``: the evidence for a master SM, in words."""

    digest: str
    sm_guid: int | None = None
    sm_evidence: str | None = None


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The policy file, the SHA-256 of its bytes, and the bytes (None in a plan that an earlier version made)."""

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
        """Return the parsed policy; None if the plan does not have its bytes, or they cannot be parsed."""
        try:
            return None if self.text is None else parse_policy(self.text, self.file)
        except FileFormatError:
            return None


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of a plan. ``enforce``: the enforcement of leaf ports; ``allow_both_pkeys``: a port may have both
    P_Keys of a partition; ``disconnect_unconfigured``: ports that no partition names lose every P_Key;
    ``allow_index_moves``: the partitions whose P_Keys may move to another index, by number."""

    enforce: Enforce = "both"
    allow_both_pkeys: bool = False
    disconnect_unconfigured: bool = False
    allow_index_moves: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SmOptions:
    """The options of OpenSM under which it makes the tables of the plan from the policy, named as in opensm.conf.

    ``no_partition_enforcement`` is the older name of ``part_enforce off``, and overrides ``part_enforce``.
    ``keep_pkey_indexes``: if off, OpenSM packs every table again, and P_Keys in use move. Source: opensm osm_subnet.c,
    osm_pkey_mgr.c.
    """

    allow_both_pkeys: bool = False
    part_enforce: Enforce = "both"
    no_partition_enforcement: bool = False
    keep_pkey_indexes: bool = True

    @classmethod
    def of(cls, options: PlanOptions) -> SmOptions:
        """Return the options that have the same effect as those of a plan; the defaults where the plan has none."""
        return cls(options.allow_both_pkeys, options.enforce)

    @property
    def enforce(self) -> Enforce:
        """The enforcement of leaf ports that is in effect."""
        return "off" if self.no_partition_enforcement else self.part_enforce


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """Partitions that are created, and those that have no member afterwards, by number."""

    born: tuple[int, ...] = ()
    dying: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The whole plan. ``sm_options`` is None in a plan that an earlier version made. ``live_policy``: the policy file
    of the master's OpenSM when the plan was made, with the digest "" if there was none; None: it was not read.
    ``method``: the method that was chosen for the fabric then; None if none was, or the fabric was not live.

    Raises FileFormatError for a port named twice, an index or P_Key that its table cannot have, enforcement of a port
    that is not an external port of a switch, a policy whose text does not fit its digest, and options of the subnet
    manager that do not fit the plan's options.
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
        """The port that each port of the plan was linked to when it was made; None if not known."""
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
