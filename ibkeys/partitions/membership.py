"""Resolving a policy for the ports of a fabric, as OpenSM's partition manager does: the members of each partition.

Pure: no tables yet, no order but that of the rules. Source: opensm osm_prtn.c, osm_prtn_config.c.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, cast

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
    """The properties of a port on which membership depends: the port GUID (of a switch: that of port 0), the kind of
    node."""

    guid: int
    kind: PortKind


def end_ports_of(ports: Iterable[Port]) -> list[EndPort]:
    """Return these properties of *ports*; a port whose GUID could not be read is left out."""
    return [EndPort(port.guid, cast(PortKind, port.node.type_name)) for port in ports if port.guid]


@dataclass(frozen=True, slots=True)
class PartitionMembers:
    """The members of one partition, as port GUIDs. A port is in both sets only with allow_both_pkeys."""

    base: int
    name: str
    full: frozenset[int]
    limited: frozenset[int]


@dataclass(frozen=True)
class Resolution:
    """Memberships in the order of OpenSM's table, by the number with its bytes swapped.

    ``index0``: port GUID → the P_Key that ``indx0`` demands at index 0 there. ``unmatched``: items that name a GUID
    which is not an end port of the fabric, each once. ``fallback``: there is no file, or OpenSM refuses it: every port
    is a full member.
    """

    memberships: tuple[PartitionMembers, ...]
    index0: dict[int, PKey]
    unmatched: tuple[MemberRule, ...] = ()
    fallback: bool = False

    @cached_property
    def by_port(self) -> dict[int, tuple[PKey, ...]]:
        """Port GUID → its P_Keys in the order in which OpenSM places them: by partition, limited before full."""
        keys: dict[int, list[PKey]] = {}
        for membership in self.memberships:
            for guids, key in (
                (membership.limited, PKey(membership.base)),
                (membership.full, PKey(membership.base | FULL_BIT)),
            ):
                for guid in guids:
                    keys.setdefault(guid, []).append(key)
        return {guid: tuple(found) for guid, found in keys.items()}


def uncertain_partitions(policy: Policy, knows_sm: bool = False) -> frozenset[int]:
    """Return the partitions whose members are not known: those that the policy leaves open and, if the SM's port is not
    known, those whose members depend on it."""
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
    """Return the members of each partition when OpenSM on *sm_port_guid* (None: unknown, ``SELF`` is no port) reads
    *policy*.

    OpenSM begins with ``Default=0x7fff : ALL=limited, SELF=full``, and applies the file's items after it. Later items
    have precedence over earlier ones, across definitions. *allow_both* is OpenSM's allow_both_pkeys; without it
    ``both`` means full. Partitions without a member, and those that the policy leaves open, are left out. *policy*
    None: there is no file, and every port is a full member.

    Raises FileFormatError for a policy that OpenSM would refuse, unless *emulate_fallback*: then every port is a full
    member of the default partition, as in OpenSM.
    """
    tables = _Tables({port.guid: port.kind for port in ports}, sm_port_guid, allow_both)
    if policy is not None and not emulate_fallback:
        policy.require_accepted()
    if policy is not None:
        if not policy.leaves_open(DEFAULT_PARTITION):
            tables.add(DEFAULT_PARTITION, tables.everybody, "limited", indx0=False)
            tables.add(DEFAULT_PARTITION, tables.sm, "full", indx0=False)
        stop = min(((error.line, error.column) for error in policy.errors), default=(sys.maxsize, 0))
        for definition in policy.definitions:
            for rule in definition.rules:
                if (rule.line, rule.column) < stop:
                    tables.apply(definition.base, rule, definition.indx0)
        if policy.accepted:
            return tables.result(policy)
    # Of a file that it refuses OpenSM drops the members, but keeps the P_Keys at index 0 that it demands.
    tables.full, tables.limited = {}, {}
    tables.add(DEFAULT_PARTITION, tables.everybody, "full", indx0=False)
    return tables.result(None)


class _Tables:
    """The sets in OpenSM: two for each partition, and the index-0 key of each port."""

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
        """Add the ports that an item names."""
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
        """Make *guids* members. This replaces their earlier membership, except for ``both``."""
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
            # With both, the limited key is queued last and is the one at index 0.
            is_full = membership == "full" or (membership == "both" and not self.allow_both)
            self.index0.update(dict.fromkeys(guids, PKey(base | (FULL_BIT if is_full else 0))))
        elif self.index0:
            for guid in guids & self.index0.keys():
                if self.index0[guid] & PARTITION_MASK == base:
                    del self.index0[guid]

    def result(self, policy: Policy | None) -> Resolution:
        """Return the partitions that have members."""
        names = {partition.base: partition.name for partition in policy.partitions} if policy is not None else {}
        memberships = tuple(
            PartitionMembers(
                base, names.get(base, DEFAULT_NAME), frozenset(self.full[base]), frozenset(self.limited[base])
            )
            for base in sorted(self.full, key=table_order)
            if self.full[base] or self.limited[base]
        )
        return Resolution(memberships, self.index0, tuple(self.unmatched.values()), fallback=policy is None)
