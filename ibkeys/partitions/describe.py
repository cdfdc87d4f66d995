"""Describing a policy: in words for people, and as JSON for programs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any, Final

from ibkeys.partitions.dialect import NOT_CHECKED
from ibkeys.partitions.model import (
    DEFAULT_PARTITION,
    IPOIB_Q_KEY,
    Definition,
    GroupFlags,
    MemberRule,
    Partition,
    Policy,
    PolicyProblem,
    broadcast_mgid,
)
from ibkeys.partitions.words import mtu_in_words, rate_in_words, scope_in_words

_LISTED: Final = 3
_WORDS: Final = {
    "ALL": "all end ports",
    "ALL_CAS": "all CA ports",
    "ALL_SWITCHES": "port 0 of all switches",
    "ALL_ROUTERS": "all router ports",
    "SELF": "the subnet manager's port",
}


def in_words(policy: Policy) -> Iterator[str]:
    """Yield lines that describe the partitions of a policy. Of the members of a partition, later lines override earlier
    ones."""
    for partition in policy.partitions:
        yield head_in_words(partition)
        if partition.base == DEFAULT_PARTITION:
            yield "  limited: all end ports, full: the subnet manager's port (OpenSM begins with this)"
        for definition in partition.definitions:
            for membership, rules in groupby(definition.rules, key=lambda rule: rule.membership):
                yield f"  {'full and limited' if membership == 'both' else membership}: {_members(list(rules))}"
        if not partition.rules:
            yield "  no port: OpenSM drops it"
        yield from groups_in_words(partition)
    if policy.partition(DEFAULT_PARTITION) is None:
        yield f"Default: partition 0x{DEFAULT_PARTITION:04x}, which the file does not define"
        yield "  limited: all end ports, full: the subnet manager's port (OpenSM adds this)"


def head_in_words(partition: Partition) -> str:
    """Return the name and the P_Key of a partition in words, and whether it is at index 0 of its members."""
    pkey = f"0x{partition.base:04x}" + (" (picked by OpenSM)" if partition.automatic else "")
    at = ", at index 0 of its members" if partition.indx0 else ""
    return f"{partition.name}: partition {pkey}{at}"


def groups_in_words(partition: Partition) -> Iterator[str]:
    """Yield a line for each ``ipoib`` and ``mgid=`` of a partition, with the values of the multicast group."""
    for definition in partition.definitions:
        yield from _groups(definition)


def _members(rules: Sequence[MemberRule]) -> str:
    parts: list[str] = []
    for is_guid, group in groupby(rules, key=lambda rule: rule.who == "GUID"):
        listed = list(group)
        if not is_guid:
            parts += [_WORDS[rule.who] for rule in listed]
        elif len(listed) <= _LISTED:
            parts += map(str, listed)
        else:
            first = ", ".join(map(str, listed[:_LISTED]))
            parts.append(f"{len(listed)} ports ({first} and {len(listed) - _LISTED} more; all of them: -f json)")
    return ", ".join(parts)


def _groups(definition: Definition) -> Iterator[str]:
    if definition.ipoib:
        mgid, obstacle = ipaddress.IPv6Address(broadcast_mgid(definition.base)), definition.flags.obstacle
        values = f"OpenSM does not make it: {obstacle}"
        values = values if obstacle else _flags(definition.flags, IPOIB_Q_KEY, scopes=False)
        yield f"  IPoIB: broadcast group {mgid}, {values}"
    for group in definition.groups:
        if group.refused is None:
            mgids = ", ".join(str(ipaddress.IPv6Address(mgid)) for mgid in group.mgids())
            yield f"  group {mgids}, {_flags(group.flags, 0)}"


def _flags(flags: GroupFlags, q_key: int, scopes: bool = True) -> str:
    words = [f"MTU {mtu_in_words(flags.mtu)}", f"rate {rate_in_words(flags.rate)}"]
    words.append(f"Q_Key 0x{flags.q_key or q_key:08x}")
    words += [f"SL {flags.sl} (with QoS)"] if flags.sl else []
    words += [f"TClass 0x{flags.t_class:02x}"] if flags.t_class else []
    words += [f"FlowLabel 0x{flags.flow_label:05x}"] if flags.flow_label else []
    words += [scope_in_words(scope) for scope in sorted(flags.scopes)] if scopes else []
    return ", ".join(words)


def to_json(policy: Policy, problems: Sequence[PolicyProblem]) -> dict[str, Any]:
    """Return the document of ``policy-check -f json`` without its schema. *problems*: those that `lint` returns."""
    return {
        "file": policy.path,
        "digest": policy.digest,
        "accepted": None if any(problem.code == NOT_CHECKED for problem in problems) else policy.accepted,
        "problems": [asdict(problem) for problem in problems],
        "partitions": [_partition_json(partition) for partition in policy.partitions],
    }


def _partition_json(partition: Partition) -> dict[str, Any]:
    return {
        "partition": f"0x{partition.base:04x}",
        "name": partition.name,
        "automatic": partition.automatic,
        "indx0": partition.indx0,
        "ipoib": partition.ipoib,
        "members": [
            {
                "who": rule.who,
                "port_guid": f"0x{rule.guid:016x}" if rule.who == "GUID" else None,
                "membership": rule.membership,
                "line": rule.line,
                "column": rule.column,
            }
            for rule in partition.rules
        ],
        "groups": groups_json(partition),
    }


def groups_json(partition: Partition) -> list[dict[str, Any]]:
    """Return the multicast groups that OpenSM makes for a partition, in the form of the ``policy-check`` document."""
    return [_group_json(*group) for definition in partition.definitions for group in definition.made_groups()]


def _group_json(mgid: int, flags: GroupFlags, q_key: int) -> dict[str, Any]:
    return {
        "mgid": str(ipaddress.IPv6Address(mgid)),
        "mtu": flags.mtu,
        "rate": flags.rate,
        "q_key": f"0x{q_key:08x}",
        "sl": flags.sl,
        "t_class": f"0x{flags.t_class:02x}",
        "flow_label": f"0x{flags.flow_label:05x}",
    }
