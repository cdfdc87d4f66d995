"""Making a policy that names every member by its GUID.

The meaning of such a policy depends neither on keywords nor on the port of the subnet manager. The headers of its
definitions, with their groups, are copied from other policies. The functions are pure. Source: opensm
osm_prtn_config.c, osm_prtn.c.
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
    """Return a policy by which each port has exactly the P_Keys in *keys*, and at index 0 the P_Key in *index0*.

    *keys* and *index0*: by port GUID. *heads*: a function that returns, for the number of a partition, the definitions
    from which it takes its name, flags and groups; their ports are ignored. *path*: the name of the policy in messages.

    Of several groups with the same MGID, even in different partitions, only the first is written: OpenSM 3.3.23 ignores
    the others, and it crashed in a sequence of policies with one MGID in two partitions. A port with both P_Keys of a
    partition is written as ``both``, which OpenSM reads as full unless it has allow_both_pkeys.

    The policy cannot exclude members that OpenSM adds by itself. A port without a P_Key of the default partition in
    *keys* becomes a limited member of it, and the subnet manager's port a full one.
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
    definitions: list[Definition] = []
    for ipoib, flags, groups in _groups(base, heads, mgids):
        # Only the first definition names the ports.
        own = rules if not definitions else ()
        definitions.append(Definition(name, base, ipoib=ipoib, flags=flags, groups=groups, rules=own))
    if rules and not definitions:
        definitions.append(Definition(name, base, rules=rules))
    if pinned:
        definitions.append(Definition(name, base, indx0=True, rules=_rules({guid: members[guid] for guid in pinned})))
    return definitions


def _rules(members: Mapping[int, MemberWord]) -> tuple[MemberRule, ...]:
    return tuple(MemberRule("GUID", guid, members[guid]) for guid in sorted(members))


def _groups(
    base: int, heads: Iterable[Definition], written: set[int]
) -> list[tuple[bool, GroupFlags, tuple[MgidGroup, ...]]]:
    """Return (whether it makes the broadcast group, flags, other groups) for each of *heads* that makes a group.

    *written*: the MGIDs of groups that are written already. Groups with these are left out, and the MGIDs of the
    returned groups are added.
    """
    headers = []
    for head in heads:
        ipoib = head.ipoib and broadcast_mgid(base) not in written
        if ipoib and head.makes_broadcast:
            written.add(broadcast_mgid(base))
        groups = []
        for group in head.groups:
            # OpenSM also leaves a group out if its MGID, before scope= changes it, exists.
            if group.refused is None and written.isdisjoint([group.mgid, *group.mgids()]):
                written.update(group.mgids())
                groups.append(group)
        if ipoib or groups:
            headers.append((ipoib, head.flags, tuple(groups)))
    return headers
