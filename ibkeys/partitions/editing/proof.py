"""Verifying that an edited policy makes the wanted change and no other, by parsing and resolving it again.

Both policies are resolved for all ports that either of them names, and for one port of each kind that neither names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ibkeys.keys.pkey import PKey
from ibkeys.partitions.membership import EndPort, PortKind, Resolution, resolve
from ibkeys.partitions.model import Definition, MemberWord, Policy

WantedMembers = Mapping[tuple[int, int], MemberWord | None]
"""(partition, port GUID) → the membership that the port should have there, None for no membership."""
_Members = dict[tuple[int, int], tuple[bool, bool]]

_NOBODY: Final = 1 << 64
_SM: Final = EndPort(_NOBODY, "ca")
_OTHERS: Final = (EndPort(_NOBODY + 1, "ca"), EndPort(_NOBODY + 2, "switch"), EndPort(_NOBODY + 3, "router"))


def unwanted_difference(
    before: Policy, after: Policy, wanted: WantedMembers, kinds: Mapping[int, PortKind], born: int | None = None
) -> str | None:
    """Return the first difference between *before* and *after* that is not *wanted*, in words; None if there is none.

    *kinds*: the kind of node by port GUID; a port that is missing there counts as a CA port. *born*: the number of a
    new partition, whose members are not compared.
    """
    if not after.accepted:
        return f"OpenSM would refuse it: {min(after.errors).message}"
    heads = _heads(after)
    if _heads(before) not in (heads, heads[:-1]):  # a new definition at the end is allowed
        return "the head of a definition"
    guids = {rule.guid for policy in (before, after) for each in policy.definitions for rule in each.rules}
    guids |= {guid for _, guid in wanted}
    ports = [_SM, *_OTHERS, *(EndPort(guid, kinds.get(guid, "ca")) for guid in sorted(guids - {0}))]
    for allow_both in (False, True):
        old, new = (resolve(policy, ports, _SM.guid, allow_both) for policy in (before, after))
        expected = {key: word for key, word in _members(old).items() if key[0] != born}
        for key, word in wanted.items():
            expected.pop(key, None)
            if word is not None:
                expected[key] = _as_sets(word, allow_both)
        actual = {key: word for key, word in _members(new).items() if key[0] != born}
        if expected != actual:
            base, guid = min(key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key))
            return f"the membership of {_name(guid)} in partition 0x{base:04x}"
        port = _port_with_other_index0(old.index0, new.index0, wanted)
        if port is not None:
            return f"the P_Key at index 0 of {_name(port)}"
    return None


def _heads(policy: Policy) -> list[Definition]:
    return [replace(definition, rules=()) for definition in policy.definitions]


def _members(resolution: Resolution) -> _Members:
    return {
        (each.base, guid): (guid in each.full, guid in each.limited)
        for each in resolution.memberships
        for guid in each.full | each.limited
    }


def _as_sets(word: MemberWord, allow_both: bool) -> tuple[bool, bool]:
    return (word != "limited", word == "limited" or (word == "both" and allow_both))


def _port_with_other_index0(old: Mapping[int, PKey], new: Mapping[int, PKey], wanted: WantedMembers) -> int | None:
    """Return the GUID of a port whose P_Key at index 0 differs, although the port is not in *wanted*; None if there is
    none."""
    concerned = {guid for _, guid in wanted}
    return next(
        (guid for guid in sorted(old.keys() | new.keys()) if guid not in concerned and old.get(guid) != new.get(guid)),
        None,
    )


def _name(guid: int) -> str:
    return "a port that is not named" if guid >= _NOBODY else f"0x{guid:016x}"
