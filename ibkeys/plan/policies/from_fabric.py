"""Writing the policy that describes a fabric from its P_Key tables. Planning it against the same tables shows the
differences that it cannot express.

The default partition is ``ALL`` with the membership of most ports, and the others by their GUIDs; SELF is the subnet
manager's port if that is full and most are not. Every other partition names each member by its GUID, so a port that is
connected later joins none. Nothing is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, get_args

from ibkeys.keys.pkey import PKey
from ibkeys.partitions.explicit import explicit_policy
from ibkeys.partitions.export import to_conf
from ibkeys.partitions.model import (
    DEFAULT_NAME,
    DEFAULT_PARTITION,
    Definition,
    MemberRule,
    MemberWord,
    Policy,
)
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import Enforce, PartitionPlan, PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.plan.policies.unsaid import Unsaid, unsaid_in
from ibkeys.printable import clean
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.subnet_manager import SubnetManager

_PATH: Final = "<made from the fabric>"


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
    return MadePolicy(policy, plan, tuple(unsaid_in(fabric, plan, keys, pinned)))


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
