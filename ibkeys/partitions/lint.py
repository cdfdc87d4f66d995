"""Finding settings of a policy that OpenSM accepts, but that the author may not have meant.

The reader finds problems of single words (`Policy.warnings`). This module finds those that concern several lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ibkeys.partitions.membership import EndPort, resolve
from ibkeys.partitions.model import (
    DEFAULT_PARTITION,
    Definition,
    GroupFlags,
    MemberRule,
    Partition,
    Policy,
    PolicyProblem,
    ProblemSeverity,
)

# Two ports that no file can name, because a GUID has 64 bits. Their memberships are those by keywords alone: of the
# SM's port, and of another port.
_SM: Final = EndPort(1 << 64, "ca")
_OTHER: Final = EndPort((1 << 64) + 1, "ca")


def lint(policy: Policy) -> tuple[PolicyProblem, ...]:
    """Return all problems of a policy, those of the reader included, in the order of the file."""
    problems = [*policy.errors, *policy.warnings]
    for partition in policy.partitions:
        problems += _partition_problems(partition)
    if policy.accepted and not policy.leaves_open(DEFAULT_PARTITION):
        problems += _sm_problems(policy)
    problems += _name_problems(policy)
    problems += _index0_problems(policy)
    return tuple(sorted(problems))


def _problem(at: MemberRule | Definition, severity: ProblemSeverity, code: str, message: str) -> PolicyProblem:
    return PolicyProblem(at.line, at.column, severity, code, message)


def _partition_problems(partition: Partition) -> Iterator[PolicyProblem]:
    first, *others = partition.definitions
    number = f"0x{partition.base:04x}"
    if partition.automatic:
        yield _problem(
            first,
            "warning",
            "automatic-pkey",
            f"OpenSM picks the P_Key of {partition.name!r} by itself, {number}: it depends on the order of the file, "
            "and on what was there before (`ibkeys policy-check --pin` writes it out)",
        )
    for definition in others:
        yield _problem(
            definition, "note", "continued", f"adds to partition {number}, which is defined in line {first.line}"
        )
    if not partition.rules:
        yield _problem(first, "note", "no-member", f"partition {number} has no member; OpenSM drops it")
    yield from _order_problems(partition)
    yield from _isolation_problems(partition)
    for definition in partition.definitions:
        yield from _flag_problems(definition)
    both = next((rule for rule in partition.rules if rule.membership == "both"), None)
    if both is not None:
        yield _problem(
            both, "note", "both", f"'both' in partition {number} means full, unless OpenSM runs with allow_both_pkeys"
        )


def _order_problems(partition: Partition) -> Iterator[PolicyProblem]:
    """Yield a problem for each item that a later one overrides or repeats: the last item that names a port decides."""
    by_guid: dict[int, MemberRule] = {}
    named: list[MemberRule] = []
    for rule in partition.rules:
        if rule.who == "GUID":
            before = by_guid.get(rule.guid)
            if before is not None:
                effect = (
                    "again" if before.membership == rule.membership else f"as {rule.membership}, which takes effect"
                )
                yield _problem(
                    rule, "warning", "guid-twice", f"{rule} was named in line {before.line} already; here {effect}"
                )
            by_guid[rule.guid] = rule
        elif rule.who == "ALL":
            for before in named:
                if before.membership != rule.membership and not (before.who == "SELF" and _is_default(partition)):
                    yield _problem(
                        before,
                        "warning",
                        "overridden",
                        f"ALL={rule.membership} in line {rule.line} overrides this {before.membership}: put it first",
                    )
            named = []
        if rule.who in ("GUID", "SELF"):
            named.append(rule)


def _is_default(partition: Partition) -> bool:
    return partition.base == DEFAULT_PARTITION


def _isolation_problems(partition: Partition) -> Iterator[PolicyProblem]:
    """Yield a problem if the partition isolates no port, or if its members cannot talk to each other."""
    rules, first = partition.rules, partition.definitions[0]
    number = f"0x{partition.base:04x}"
    if _is_default(partition):
        open_to_all = next((rule for rule in rules if rule.who == "ALL" and rule.membership != "limited"), None)
        if open_to_all is not None:
            yield _problem(
                open_to_all,
                "note",
                "no-isolation",
                "every port is a full member of the default partition, so every port may talk to every other",
            )
    elif rules and all(rule.membership == "limited" for rule in rules):
        yield _problem(
            first, "warning", "limited-only", f"partition {number} has only limited members: none may talk to another"
        )
    elif len(rules) == 1 and rules[0].who in ("GUID", "SELF"):
        yield _problem(
            first, "note", "one-member", f"partition {number} has one member, which has no other member to talk to"
        )


def _flag_problems(definition: Definition) -> Iterator[PolicyProblem]:
    flags, plain = definition.flags, GroupFlags()
    if flags == plain or definition.groups:
        return
    if not definition.ipoib:
        yield _problem(
            definition,
            "note",
            "no-group",
            "mtu, rate and the like have no effect here: without ipoib there is no group",
        )
    elif flags.scopes:
        yield _problem(
            definition, "note", "no-group", "scope has no effect on the broadcast group, which is always link-local"
        )


def _sm_problems(policy: Policy) -> Iterator[PolicyProblem]:
    """Yield a problem if the SM's port becomes a limited member of the default partition, where limited members cannot
    reach it.
    """
    default = policy.partition(DEFAULT_PARTITION)
    resolution = resolve(policy, [_SM, _OTHER], _SM.guid)
    members = next(each for each in resolution.memberships if each.base == DEFAULT_PARTITION)
    if default is None or _SM.guid in members.full or _OTHER.guid in members.full:
        return
    last = next(rule for rule in reversed(default.rules) if rule.who in ("ALL", "ALL_CAS", "SELF"))
    yield _problem(
        last,
        "warning",
        "sm-limited",
        f"{last}={last.membership} MAKES THE SUBNET MANAGER'S OWN PORT A LIMITED MEMBER: LIMITED MEMBERS CANNOT REACH "
        "THE SA; put SELF=full after it",
    )


def _name_problems(policy: Policy) -> Iterator[PolicyProblem]:
    names: dict[str, Partition] = {}
    for partition in policy.partitions:
        other = names.setdefault(partition.name, partition)
        if other is not partition:
            yield _problem(
                partition.definitions[0],
                "warning",
                "same-name",
                f"the name {partition.name!r} is also that of partition 0x{other.base:04x} in line "
                f"{other.definitions[0].line}: these are two partitions",
            )


def _index0_problems(policy: Policy) -> Iterator[PolicyProblem]:
    """Yield a problem for each item for which two partitions demand index 0. The last of them gets it."""
    pinned: dict[tuple[str, int], tuple[int, MemberRule]] = {}
    for definition in policy.definitions:
        for rule in definition.rules if definition.indx0 else ():
            base, before = pinned.setdefault((rule.who, rule.guid), (definition.base, rule))
            if base != definition.base:
                yield _problem(
                    rule,
                    "warning",
                    "indx0-twice",
                    f"{rule} has 0x{base:04x} at index 0 by line {before.line}, and 0x{definition.base:04x} by this "
                    "one, which takes effect",
                )
