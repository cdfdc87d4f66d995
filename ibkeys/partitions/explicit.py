"""A policy with a GUID for every member: given memberships as definitions that name every port.

So its meaning depends neither on keywords nor on the port of the subnet manager. The headers of other policies, with
their groups, are copied. Pure. Source: opensm osm_prtn_config.c, osm_prtn.c.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ibkeys.keys.pkey import PKey
from ibkeys.partitions.model import (
    Definition,
    GroupFlags,
    MemberRule,
    MemberWord,
    MgidGroup,
    Policy,
    broadcast_mgid,
    stored_name,
)


def explicit_policy(
    keys: Mapping[int, Collection[PKey]],
    index0: Mapping[int, PKey],
    heads: Callable[[int], Iterable[Definition]],
    path: str = "<text>",
) -> Policy:
    """Return a policy by which each port, named by its GUID, has exactly *keys*, and at index 0 the key in *index0*.

    *heads*: returns for a partition the definitions whose name and groups it has; their ports do not count. Of groups
    with one MGID, even in several partitions, only the first is written: OpenSM 3.3.23 leaves the others out, and
    crashed in a sequence of policies with one MGID in two partitions. A port with both P_Keys of a partition is written
    as ``both``, which OpenSM takes for full unless it has allow_both_pkeys.

    Members that OpenSM adds by itself cannot be excluded: each port that is not in *keys*, or has no P_Key of the
    default partition there, becomes a limited member of that, the subnet manager's port a full one.
    """
    members: dict[int, dict[int, MemberWord]] = {}
    for guid, its_keys in keys.items():
        for key in its_keys:
            word: MemberWord = "full" if key.is_full else "limited"
            before = members.setdefault(key.partition, {}).get(guid, word)
            members[key.partition][guid] = word if before == word else "both"
    definitions: list[Definition] = []
    mgids: set[int] = set()
    for base in sorted(members):
        pinned = {guid for guid in members[base] if guid in index0 and index0[guid].partition == base}
        definitions += _partition(base, members[base], pinned, heads(base), mgids)
    return Policy(path, tuple(definitions))


def _partition(
    base: int, members: Mapping[int, MemberWord], pinned: Collection[int], heads: Iterable[Definition], mgids: set[int]
) -> list[Definition]:
    heads = list(heads)
    name = next((stored_name(head.name) for head in heads if head.name), None)
    rules = _rules({guid: word for guid, word in members.items() if guid not in pinned})
    found: list[Definition] = []
    for ipoib, flags, groups in _groups(base, heads, mgids):
        # the ports are in the first definition
        own = rules if not found else ()
        found.append(Definition(name, base, ipoib=ipoib, flags=flags, groups=groups, rules=own))
    if rules and not found:
        found.append(Definition(name, base, rules=rules))
    if pinned:
        found.append(Definition(name, base, indx0=True, rules=_rules({guid: members[guid] for guid in pinned})))
    return found


def _rules(members: Mapping[int, MemberWord]) -> tuple[MemberRule, ...]:
    return tuple(MemberRule("GUID", guid, members[guid]) for guid in sorted(members))


def _groups(
    base: int, heads: Iterable[Definition], known: set[int]
) -> list[tuple[bool, GroupFlags, tuple[MgidGroup, ...]]]:
    """Return the headers that make groups, each with whether it makes the broadcast group, its flags, and its other
    groups.

    *known*: the MGIDs that are written already; those of these groups are added.
    """
    found = []
    for head in heads:
        ipoib = head.ipoib and broadcast_mgid(base) not in known
        if ipoib:
            known.add(broadcast_mgid(base))
        groups = []
        for group in head.groups:
            if group.refused is None and known.isdisjoint(group.mgids()):
                known.update(group.mgids())
                groups.append(group)
        if ipoib or groups:
            found.append((ipoib, head.flags, tuple(groups)))
    return found
