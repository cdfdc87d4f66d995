"""The plan as value types: the changes that a policy makes on a fabric. The types reject impossible values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, Self, get_args

from ibkeys.change.method import MethodName
from ibkeys.change.wanted import EnforcementChange, PlannedChange, TableChange, planned_changes
from ibkeys.errors import FileFormatError
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.partitions.living_groups import LivingGroups
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.reach.count import ReachCounts
from ibkeys.topology.port_id import PortId, PortKey

MAX_CAPACITY: Final = 0xFFFF

Enforce = Literal["both", "in", "out", "off"]
BreakKind = Literal["no-room", "circle"]


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """A problem with a plan, or a fact that the user should know.

    ``port``: the port that it concerns, None if it concerns no single port. ``kind``: a fixed word for programs, such
    as ``unreadable``.
    """

    port: PortId | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class IndexMove:
    """A P_Key of an end port that moves from the index ``source`` to ``target``, although running QPs use the old
    index."""

    port: PortId
    pkey: PKey
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Break:
    """Pairs of ports that no order of writing keeps connected, in one partition.

    ``kind``: ``no-room`` if tables are full; ``ports`` are the ports of these tables. ``circle`` if ports wait for each
    other (`ibkeys.plan.steps`); ``ports`` are those that leave ``partition`` too early, then those that enter it.
    ``pairs``: (port GUID, port GUID) of end ports that may talk before and after the change, but briefly cannot in
    between; empty if only the ports, but no pair of them, are known.
    """

    partition: int
    ports: tuple[PortId, ...]
    pairs: tuple[tuple[int, int], ...]
    message: str
    kind: BreakKind = "no-room"


@dataclass(frozen=True, slots=True)
class FabricState:
    """The state of the fabric for which a plan was made.

    ``digest``: see `state_digest`. ``sm_guid``: the port GUID of the master SM, None if not known. ``sm_evidence``: the
    readings that show whether there is a master SM, in words; None if there are none.
    """

    digest: str
    sm_guid: int | None = None
    sm_evidence: str | None = None


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The path of a policy file, the SHA-256 of its bytes, and the bytes; None for a policy without a text, and in a
    plan of an earlier version."""

    file: str
    digest: str
    text: bytes | None = None

    @property
    def is_of_ufm(self) -> bool:
        """Whether the policy is the one of a UFM: its path is then the URL of the UFM."""
        return self.file.startswith("ufm:")

    def require_text(self) -> bytes:
        """Return the bytes of the policy. Raises FileFormatError if the plan does not have them."""
        if self.text is None:
            raise FileFormatError(
                f"the plan does not have the text of its policy ({self.file}), which a subnet manager needs: an "
                "earlier version of ibkeys made it; plan again"
            )
        return self.text

    def parsed(self) -> Policy | None:
        """Return the parsed policy, which OpenSM may refuse; None if the plan does not have its bytes."""
        return None if self.text is None else parse_policy(self.text, self.file)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of a plan.

    ``enforce``: the wanted enforcement of leaf ports. ``allow_both_pkeys``: a port may have the limited and the full
    P_Key of a partition. ``disconnect_unconfigured``: ports that no partition names lose every P_Key.
    ``allow_index_moves``: the numbers of the partitions whose P_Keys may move to another index.
    """

    enforce: Enforce = "both"
    allow_both_pkeys: bool = False
    disconnect_unconfigured: bool = False
    allow_index_moves: tuple[int, ...] = ()

    @classmethod
    def as_in_force(cls, part_enforce: str | None, allow_both_pkeys: bool | None) -> Self:
        """Return the options for a plan that agrees with an OpenSM that runs with these options. An option that is not
        known, or has a value that OpenSM does not know, has OpenSM's default."""
        known: tuple[Enforce, ...] = get_args(Enforce)
        enforce = next((each for each in known if each == part_enforce), known[0])
        return cls(enforce, bool(allow_both_pkeys))


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
        """Return the options of OpenSM with the effect of *options*, the options of a plan, and else OpenSM's
        defaults."""
        return cls(options.allow_both_pkeys, options.enforce)

    @property
    def enforce(self) -> Enforce:
        """The enforcement of leaf ports that is in effect."""
        return "off" if self.no_partition_enforcement else self.part_enforce


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """The numbers of the partitions that a plan creates (``born``), and of those that have no member afterwards
    (``dying``)."""

    born: tuple[int, ...] = ()
    dying: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The whole plan of the changes that a policy makes on a fabric.

    ``sm_options``: None in a plan of an earlier version. ``live_policy``: the policy file of the master's OpenSM when
    the plan was made, with the digest "" if there was no file; None if it was not read. ``method``: the method that was
    chosen for the fabric when the plan was made; None if none was chosen, or if the fabric was a snapshot.

    Raises FileFormatError for a port named twice, an index or P_Key that its table cannot have, enforcement of a port
    that is not an external port of a switch, a policy whose text does not match its digest, and options of the subnet
    manager that contradict the plan's options.
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
        _check_named_once("tables", (table.port for table in self.tables))
        _check_named_once("enforcement", (change.port for change in self.enforcement))
        for number, table in enumerate(self.tables):
            _check_table(f"tables[{number}]", table)
        for number, change in enumerate(self.enforcement):
            if not change.port.is_external:
                raise FileFormatError(f"enforcement[{number}]: {change.port} is not an external port of a switch")

    @property
    def peers(self) -> dict[PortKey, PortKey | None]:
        """The neighbour of each port of the plan when the plan was made, by port; None if not known."""
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

    @property
    def living_groups(self) -> LivingGroups:
        """The differences between the multicast groups of the policy and those of the policy that the master's OpenSM
        had when the plan was made. Empty if the latter was not read, or if the policy is UFM's, which has no groups."""
        live = self.live_policy.parsed() if self.live_policy is not None and not self.policy.is_of_ufm else None
        return LivingGroups.between(live, self.policy.parsed())

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
            raise FileFormatError("sm_options: do not have the effect of the plan's options (options); plan again")

    @property
    def pending(self) -> bool:
        """Whether the plan changes any table or enforcement."""
        return any(table.differs for table in self.tables) or any(
            change.before != change.after for change in self.enforcement
        )


def tables_by_guid(tables: Iterable[TableChange]) -> dict[int, TableChange]:
    """Return the tables of end ports by port GUID, without those whose GUID is not known."""
    return {table.port.port_guid: table for table in tables if not table.port.is_external and table.port.port_guid}


def _check_named_once(where: str, ports: Iterable[PortId]) -> None:
    numbers: dict[PortKey, int] = {}
    for number, port in enumerate(ports):
        first = numbers.setdefault(port.key, number)
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
