"""Resolving a policy for the ports of a fabric, as OpenSM's partition manager does: the members of each partition.

The functions are pure. `ibkeys.partitions.opensm_tables` makes tables of the result. Source: opensm osm_prtn.c,
osm_prtn_config.c.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, cast

from ibkeys.arguments import flag, refuse_wrong, require
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK, PKey
from ibkeys.partitions.model import (
    DEFAULT_NAME,
    DEFAULT_PARTITION,
    MemberRule,
    MemberWord,
    Policy,
    table_order,
)
from ibkeys.topology.nodes import Port

PortKind = Literal["ca", "switch", "router"]
KIND_OF: Final[dict[str, PortKind]] = {"ALL_CAS": "ca", "ALL_SWITCHES": "switch", "ALL_ROUTERS": "router"}


@dataclass(frozen=True, slots=True)
class EndPort:
    """The properties of an end port on which its memberships depend: the port GUID (of a switch that of port 0), and
    the kind of its node."""

    guid: int
    kind: PortKind


def end_ports_of(ports: Iterable[Port]) -> list[EndPort]:
    """Return the `EndPort` of each of *ports*. A port whose GUID could not be read is left out."""
    return [EndPort(port.guid, cast(PortKind, port.node.type_name)) for port in ports if port.guid]


@dataclass(frozen=True, slots=True)
class PartitionMembers:
    """The members of one partition, as sets of port GUIDs. A port is in both sets only with allow_both_pkeys."""

    base: int
    name: str
    full: frozenset[int]
    limited: frozenset[int]


@dataclass(frozen=True)
class Resolution:
    """The members of all partitions by a policy.

    ``memberships``: the partitions that have members, in the order of OpenSM's table (`table_order`). ``index0``: by
    port GUID, the P_Key that ``indx0`` demands at index 0. ``unmatched``: for each GUID that the policy names but no
    end port of the fabric has, the first item with it. ``fallback``: true if there is no file or OpenSM refuses it, so
    that every port is a full member of the default partition.
    """

    memberships: tuple[PartitionMembers, ...]
    index0: dict[int, PKey]
    unmatched: tuple[MemberRule, ...] = ()
    fallback: bool = False

    @cached_property
    def by_port(self) -> dict[int, tuple[PKey, ...]]:
        """The P_Keys of each port, by port GUID, in the order in which OpenSM places them: by `table_order` of the
        partition, limited before full."""
        keys: dict[int, list[PKey]] = {}
        for membership in self.memberships:
            for guids, key in (
                (membership.limited, PKey(membership.base)),
                (membership.full, PKey(membership.base | FULL_BIT)),
            ):
                for guid in guids:
                    keys.setdefault(guid, []).append(key)
        return {guid: tuple(listed) for guid, listed in keys.items()}


def uncertain_partitions(policy: Policy, knows_sm: bool = False) -> frozenset[int]:
    """Return the numbers of the partitions whose members are not known.

    These are the partitions whose members the policy does not state, and, unless *knows_sm*, those whose members depend
    on the SM's port.
    """
    if knows_sm:
        return policy.open_partitions
    named = {each.base for each in policy.partitions if any(rule.who == "SELF" for rule in each.rules)}
    return policy.open_partitions | (named | {DEFAULT_PARTITION} if policy.names_the_sm else named)


def resolve(
    policy: Policy | None,
    ports: Iterable[EndPort],
    sm_port_guid: int | None,
    allow_both: bool = False,
    *,
    emulate_fallback: bool = False,
) -> Resolution:
    """Return the members of each partition if OpenSM reads *policy* for the end ports *ports*.

    OpenSM begins with ``Default=0x7fff : ALL=limited, SELF=full`` (left out if the policy does not state the members of
    the default partition, see `Policy.leaves_open`), and then applies the items of the file. Later items override
    earlier ones, also of other definitions. Partitions without a member are left out. *policy* None: there is no file,
    so every port is a full member of the default partition. *sm_port_guid*: the port GUID of the subnet manager; with
    None, ``SELF`` names no port. *allow_both*: OpenSM's allow_both_pkeys; without it ``both`` means full.

    Raises FileFormatError for a policy that OpenSM would refuse. With *emulate_fallback* this is not raised, and the
    result is that of OpenSM: every port is a full member of the default partition. Raises UsageError for an argument of
    a wrong type.
    """
    require("policy", policy, (Policy, type(None)), "an ibkeys.partitions.Policy")
    refuse_wrong({"allow_both": allow_both, "emulate_fallback": emulate_fallback}, _RULES)
    memberships = _Memberships({port.guid: port.kind for port in ports}, sm_port_guid, allow_both)
    if policy is not None and not emulate_fallback:
        policy.require_accepted()
    if policy is not None:
        if not policy.leaves_open(DEFAULT_PARTITION):
            memberships.add(DEFAULT_PARTITION, memberships.everybody, "limited", indx0=False)
            memberships.add(DEFAULT_PARTITION, memberships.sm, "full", indx0=False)
        stop = min(((error.line, error.column) for error in policy.errors), default=(sys.maxsize, 0))
        for definition in policy.definitions:
            for rule in definition.rules:
                if (rule.line, rule.column) < stop:
                    memberships.apply(definition.base, rule, definition.indx0)
        if policy.accepted:
            return memberships.result(policy)
    # If OpenSM refuses a file, it drops the members, but keeps the P_Keys that the file demands at index 0.
    memberships.full, memberships.limited = {}, {}
    memberships.add(DEFAULT_PARTITION, memberships.everybody, "full", indx0=False)
    return memberships.result(None)


_RULES: Final = dict.fromkeys(("allow_both", "emulate_fallback"), flag())
"""The rules for the arguments of `resolve`."""


class _Memberships:
    """The memberships while a policy is applied, as in OpenSM: two sets of ports for each partition, and the P_Key that
    each port must have at index 0.
    """

    def __init__(self, kinds: dict[int, PortKind], sm_port_guid: int | None, allow_both: bool) -> None:
        self.allow_both = allow_both
        self.everybody = frozenset(kinds)
        self.kinds = kinds
        self.sm = frozenset({sm_port_guid} if sm_port_guid is not None else ()) & self.everybody
        self.full: dict[int, set[int]] = {}
        self.limited: dict[int, set[int]] = {}
        self.index0: dict[int, PKey] = {}
        self.unmatched: dict[int, MemberRule] = {}

    def apply(self, base: int, rule: MemberRule, indx0: bool) -> None:
        """Give the ports that *rule* names their membership in the partition *base*. *indx0*: at index 0."""
        if rule.who == "ALL":
            guids = self.everybody
        elif rule.who == "SELF":
            guids = self.sm
        elif rule.who == "GUID":
            guids = frozenset({rule.guid}) & self.everybody
            if not guids:
                self.unmatched.setdefault(rule.guid, rule)
        else:
            guids = frozenset(guid for guid, kind in self.kinds.items() if kind == KIND_OF[rule.who])
        self.add(base, guids, rule.membership, indx0)

    def add(self, base: int, guids: frozenset[int], membership: MemberWord, indx0: bool) -> None:
        """Make the ports *guids* members of the partition *base*, in place of their earlier membership there."""
        full, limited = self.full.setdefault(base, set()), self.limited.setdefault(base, set())
        if membership == "both" and self.allow_both:
            full |= guids
            limited |= guids
        elif membership == "limited":
            full -= guids
            limited |= guids
        else:
            limited -= guids
            full |= guids
        if indx0:
            # With both P_Keys, OpenSM queues the limited one last, so that one is at index 0.
            is_full = membership == "full" or (membership == "both" and not self.allow_both)
            self.index0.update(dict.fromkeys(guids, PKey(base | (FULL_BIT if is_full else 0))))
        elif self.index0:
            for guid in guids & self.index0.keys():
                if self.index0[guid] & PARTITION_MASK == base:
                    del self.index0[guid]

    def result(self, policy: Policy | None) -> Resolution:
        """Return the result. *policy*: has the names of the partitions; None if OpenSM has no policy that it
        accepts."""
        names = {partition.base: partition.name for partition in policy.partitions} if policy is not None else {}
        memberships = tuple(
            PartitionMembers(
                base, names.get(base, DEFAULT_NAME), frozenset(self.full[base]), frozenset(self.limited[base])
            )
            for base in sorted(self.full, key=table_order)
            if self.full[base] or self.limited[base]
        )
        return Resolution(memberships, self.index0, tuple(self.unmatched.values()), fallback=policy is None)
