"""Writing the policy that describes a fabric from its P_Key tables. Planning it against the same tables shows the
differences that it cannot express.

The default partition is ``ALL`` with the membership of most ports, and the others by their GUIDs; SELF is the subnet
manager's port if that is full and most are not. Every other partition names each member by its GUID, so a port that is
connected later joins none. Nothing is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, get_args

from ibkeys.keys.pkey import FULL_BIT, PKey
from ibkeys.partitions.explicit import explicit_policy
from ibkeys.partitions.export import to_conf
from ibkeys.partitions.model import (
    DEFAULT_NAME,
    DEFAULT_PARTITION,
    Definition,
    MemberRule,
    MemberWord,
    Policy,
    table_order,
)
from ibkeys.partitions.opensm_tables import place
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import Enforce, PartitionPlan, PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.printable import clean
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.subnet_manager import SubnetManager

_PATH: Final = "<made from the fabric>"
_MESSAGES: Final = {
    "no-default": "no P_Key of the default partition: OpenSM makes every port at least a limited member",
    "table": "P_Keys that OpenSM would place at other indexes",
    "leaf-table": "tables that are not a copy of the end port's: OpenSM makes them a copy",
    "enforcement": "enforcement that no single part_enforce value of OpenSM produces",
    "both-forms": "the full and the limited P_Key of one partition: written as both, which OpenSM reads as both only "
    "with allow_both_pkeys",
    "index-0": "a P_Key at index 0, or none, that OpenSM would move",
    "index-order": "P_Keys at other indexes than OpenSM gives them in an empty table; it keeps those that it finds",
    "not-read": "what could not be read, or is not certain, is not in the policy",
}
_LEFT_OUT: Final = ("unreadable", "duplicate-guid", "unknown-node-type")


@dataclass(frozen=True, slots=True)
class Unsaid:
    """A kind of property that the policy does not express, and the ports that have it."""

    kind: str
    ports: tuple[Port, ...]

    @property
    def message(self) -> str:
        """The kind in words."""
        return _MESSAGES[self.kind]


@dataclass(frozen=True, slots=True)
class MadePolicy:
    """A policy that describes a fabric. ``plan``: the changes that it would make on that fabric, under the options with
    which it changes least. ``unsaid``: the properties of the fabric that no partitions.conf can express."""

    policy: Policy
    plan: PartitionPlan
    unsaid: tuple[Unsaid, ...]


def policy_from(
    fabric: Topology,
    manager: SubnetManager,
    heads: Callable[[int], Iterable[Definition]] = lambda _: (),
    labels: Mapping[int, str] | None = None,
    about: Iterable[str] = (),
) -> MadePolicy:
    """Return the policy that describes *fabric*, which was swept with its P_Key tables.

    *heads*: for a partition, the definitions whose name, flags and groups it gets, which are in no P_Key table.
    *labels*: names of ports by GUID, for comments. *about*: lines for the head of the file.
    """
    ports = [port for port in fabric.end_ports() if port.guid and port.occupied is not None]
    keys = {port.guid: _keys(port) for port in ports}
    pinned = {port.guid: key for port in ports if (key := _pinned(port)) is not None}
    explicit = explicit_policy(keys, pinned, heads, _PATH)
    words = {rule.guid: rule.membership for each in explicit.definitions for rule in each.rules if _is_default(each)}
    rules = _default_rules({port.guid: words.get(port.guid) for port in ports}, manager.port_guid)
    lines = "".join(f"# {clean(line)}\n" for line in about)
    named = replace(explicit, definitions=tuple(_with_default(explicit, rules)))
    policy = parse_policy(lines + to_conf(named, labels), _PATH)
    allow_both = any(rule.membership == "both" for definition in named.definitions for rule in definition.rules)
    plan = _least_change(policy, fabric, manager, allow_both)
    return MadePolicy(policy, plan, tuple(_unsaid_in(fabric, plan, keys, pinned)))


def _keys(port: Port) -> frozenset[PKey]:
    return frozenset(key for index, key in port.occupied or () if index < (port.capacity or 0))


def _pinned(port: Port) -> PKey | None:
    """Return the P_Key that is at index 0 in place of the default one."""
    first = next((key for index, key in port.occupied or () if index == 0), None)
    return first if first is not None and not first.is_default else None


def _is_default(definition: Definition) -> bool:
    return definition.base == DEFAULT_PARTITION


def _default_rules(words: Mapping[int, MemberWord | None], sm_guid: int | None) -> tuple[MemberRule, ...]:
    """Return the rules of the default partition. A port without its P_Key becomes a limited member, as OpenSM makes
    it."""
    counts = Counter(word for word in words.values() if word in ("full", "limited"))
    most: MemberWord = "full" if counts["full"] > counts["limited"] else "limited"
    rules = [MemberRule("ALL", 0, most)]
    if sm_guid is not None and words.get(sm_guid) == "full" and most == "limited":
        rules.append(MemberRule("SELF", 0, "full"))
        words = {guid: word for guid, word in words.items() if guid != sm_guid}
    others = {guid: word or "limited" for guid, word in words.items()}
    return (*rules, *(MemberRule("GUID", guid, word) for guid, word in sorted(others.items()) if word != most))


def _with_default(policy: Policy, rules: tuple[MemberRule, ...]) -> Iterator[Definition]:
    """Yield the definitions, those of the default partition first; its members are *rules*."""
    first, *more = [each for each in policy.definitions if _is_default(each)] or [
        Definition(DEFAULT_NAME, DEFAULT_PARTITION)
    ]
    yield replace(first, name=DEFAULT_NAME, rules=rules)
    yield from (replace(each, rules=()) for each in more)
    yield from (each for each in policy.definitions if not _is_default(each))


def _least_change(policy: Policy, fabric: Topology, manager: SubnetManager, allow_both: bool) -> PartitionPlan:
    """Return the plan under that part_enforce with which the policy changes least."""
    plans = []
    for enforce in get_args(Enforce):
        plan = make_plan(policy, fabric, PlanOptions(enforce, allow_both), manager)
        if not plan.pending:
            return plan
        plans.append(plan)
    return min(plans, key=lambda plan: sum(table.differs for table in plan.tables) + len(plan.enforcement))


def _unsaid_in(
    fabric: Topology, plan: PartitionPlan, keys: Mapping[int, Collection[PKey]], pinned: Mapping[int, PKey]
) -> Iterator[Unsaid]:
    """Yield the changes that *plan*, made from the policy that describes *fabric*, would still make, and the values
    that only its options or the present indexes keep. *keys*: the P_Keys of each port, by GUID; *pinned*: the P_Key at
    its index 0 by the policy."""
    found: dict[str, dict[Port, None]] = {kind: {} for kind in _MESSAGES}
    ports = {(port.node.guid, port.num): port for port in fabric.ports()}
    for table in plan.tables:
        port = ports[table.port.key]
        if table.differs:
            found[_kind_of(port)][port] = None
    for change in plan.enforcement:
        found["enforcement"][ports[change.port.key]] = None
    for problem in plan.problems:
        kind = "not-read" if problem.kind in _LEFT_OUT else problem.kind
        if problem.port is not None and kind in found:
            found[kind][ports[problem.port.key]] = None
    for port in fabric.end_ports():
        own = keys.get(port.guid)
        if own is None or port.capacity is None:
            continue
        both = any(PKey(key ^ FULL_BIT) in own for key in own)
        if both:
            found["both-forms"][port] = None
        if not any(port in found[kind] for kind in ("no-default", "table", "index-0")) and _is_odd(
            port, own, pinned, plan
        ):
            found["index-order"][port] = None
    for kind, listed in found.items():
        if listed:
            yield Unsaid(kind, tuple(listed))


def _kind_of(port: Port) -> str:
    if port.is_external:
        return "leaf-table"
    return "table" if any(key.is_default for _, key in port.occupied or ()) else "no-default"


def _is_odd(port: Port, keys: Collection[PKey], pinned: Mapping[int, PKey], plan: PartitionPlan) -> bool:
    """Return whether OpenSM would give the P_Keys of a port other indexes in an empty table."""
    order = sorted(keys, key=lambda key: (table_order(key.partition), key.is_full))
    both = plan.options.allow_both_pkeys
    made = place({}, order, port.capacity or 0, pinned.get(port.guid), allow_both=both).entries
    return made != dict(port.occupied or ())
