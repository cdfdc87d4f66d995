"""Making the policy that describes a fabric, from its P_Key tables. A plan of that policy for the same fabric then
shows the properties that the policy cannot express.

In the default partition, ``ALL`` has the membership of most ports, and the other ports are named by their GUIDs. SELF
names the subnet manager's port if that is a full member and most ports are not. Every other partition names each member
by its GUID, so a port that is connected later joins none of them. Nothing is sent.
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
class Inexpressible:
    """A kind of property that the policy does not express, and the ports with that property."""

    kind: str
    ports: tuple[Port, ...]

    @property
    def message(self) -> str:
        """The kind of property, in words."""
        return _MESSAGES[self.kind]


@dataclass(frozen=True, slots=True)
class MadePolicy:
    """A policy that describes a fabric.

    ``plan``: the changes that the policy would still make on the fabric, with the part_enforce with which it changes
    least. ``unsaid``: the properties of the fabric that the policy does not express.
    """

    policy: Policy
    plan: PartitionPlan
    unsaid: tuple[Inexpressible, ...]


def policy_from(
    fabric: Topology,
    manager: SubnetManager,
    heads: Callable[[int], Iterable[Definition]] = lambda _: (),
    labels: Mapping[int, str] | None = None,
    about: Iterable[str] = (),
) -> MadePolicy:
    """Return the policy that describes *fabric*, which was swept with its P_Key tables.

    *heads*: a function that returns, for the number of a partition, the definitions from which it takes its name, flags
    and groups, because no P_Key table has these. *labels*: names of ports by GUID, for comments. *about*: lines for a
    comment at the beginning of the file. Raises the errors of `make_plan`.
    """
    ports = [port for port in fabric.end_ports() if port.guid and port.occupied is not None]
    keys = {port.guid: _keys(port) for port in ports}
    pinned = {port.guid: key for port in ports if (key := _pinned_key(port)) is not None}
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


def _pinned_key(port: Port) -> PKey | None:
    """Return the P_Key that is at index 0 instead of that of the default partition; None if there is none."""
    first = next((key for index, key in port.occupied or () if index == 0), None)
    return first if first is not None and not first.is_default else None


def _is_default(definition: Definition) -> bool:
    return definition.base == DEFAULT_PARTITION


def _default_rules(words: Mapping[int, MemberWord | None], sm_guid: int | None) -> tuple[MemberRule, ...]:
    """Return the rules of the default partition. *words*: the present membership of each port, by GUID; a port that is
    no member (None) becomes a limited one, as OpenSM makes it. *sm_guid*: the port GUID of the subnet manager."""
    counts = Counter(word for word in words.values() if word in ("full", "limited"))
    most: MemberWord = "full" if counts["full"] > counts["limited"] else "limited"
    rules = [MemberRule("ALL", 0, most)]
    if sm_guid is not None and words.get(sm_guid) == "full" and most == "limited":
        rules.append(MemberRule("SELF", 0, "full"))
        words = {guid: word for guid, word in words.items() if guid != sm_guid}
    others = {guid: word or "limited" for guid, word in words.items()}
    return (*rules, *(MemberRule("GUID", guid, word) for guid, word in sorted(others.items()) if word != most))


def _with_default(policy: Policy, rules: tuple[MemberRule, ...]) -> Iterator[Definition]:
    """Yield the definitions of *policy*, those of the default partition first and with *rules* as their only
    members."""
    first, *more = [each for each in policy.definitions if _is_default(each)] or [
        Definition(DEFAULT_NAME, DEFAULT_PARTITION)
    ]
    yield replace(first, name=DEFAULT_NAME, rules=rules)
    yield from (replace(each, rules=()) for each in more)
    yield from (each for each in policy.definitions if not _is_default(each))


def _least_change(policy: Policy, fabric: Topology, manager: SubnetManager, allow_both: bool) -> PartitionPlan:
    """Return the plan of *policy* for the value of part_enforce that needs the fewest changes. *allow_both*: whether
    OpenSM runs with allow_both_pkeys."""
    plans = []
    for enforce in get_args(Enforce):
        plan = make_plan(policy, fabric, PlanOptions(enforce, allow_both), manager)
        if not plan.pending:
            return plan
        plans.append(plan)
    return min(plans, key=lambda plan: sum(table.differs for table in plan.tables) + len(plan.enforcement))


def _unsaid_in(
    fabric: Topology, plan: PartitionPlan, keys: Mapping[int, Collection[PKey]], pinned: Mapping[int, PKey]
) -> Iterator[Inexpressible]:
    """Yield the properties of *fabric* that its policy does not express.

    These are the values that *plan*, the plan of that policy, would change, and those that stay only because of its
    options or because present P_Keys keep their indexes. *keys*: the P_Keys of each port, by GUID. *pinned*: by port
    GUID, the P_Key that the policy pins at index 0.
    """
    ports_of: dict[str, dict[Port, None]] = {kind: {} for kind in _MESSAGES}
    ports = {(port.node.guid, port.num): port for port in fabric.ports()}
    for table in plan.tables:
        port = ports[table.port.key]
        if table.differs:
            ports_of[_kind_of(port)][port] = None
    for change in plan.enforcement:
        ports_of["enforcement"][ports[change.port.key]] = None
    for problem in plan.problems:
        kind = "not-read" if problem.kind in _LEFT_OUT else problem.kind
        if problem.port is not None and kind in ports_of:
            ports_of[kind][ports[problem.port.key]] = None
    for port in fabric.end_ports():
        own = keys.get(port.guid)
        if own is None or port.capacity is None:
            continue
        both = any(PKey(key ^ FULL_BIT) in own for key in own)
        if both:
            ports_of["both-forms"][port] = None
        if not any(port in ports_of[kind] for kind in ("no-default", "table", "index-0")) and _has_other_order(
            port, own, pinned, plan
        ):
            ports_of["index-order"][port] = None
    for kind, listed in ports_of.items():
        if listed:
            yield Inexpressible(kind, tuple(listed))


def _kind_of(port: Port) -> str:
    """Return the kind of `Inexpressible` for a port whose table the plan of the made policy would change."""
    if port.is_external:
        return "leaf-table"
    return "table" if any(key.is_default for _, key in port.occupied or ()) else "no-default"


def _has_other_order(port: Port, keys: Collection[PKey], pinned: Mapping[int, PKey], plan: PartitionPlan) -> bool:
    """Return whether OpenSM would give the P_Keys of *port* other indexes if its table were empty."""
    order = sorted(keys, key=lambda key: (table_order(key.partition), key.is_full))
    allow_both = plan.options.allow_both_pkeys
    expected = place({}, order, port.capacity or 0, pinned.get(port.guid), allow_both=allow_both).entries
    return expected != dict(port.occupied or ())
