"""Verifying that an edited policy equals the former one plus the change: it is parsed and resolved again.

It is resolved for all ports that either policy names, and for one port of each kind that neither names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ibkeys.keys.pkey import PKey
from ibkeys.partitions.membership import EndPort, PortKind, Resolution, resolve
from ibkeys.partitions.model import Definition, MemberWord, Policy

WantedMembers = Mapping[tuple[int, int], MemberWord | None]
"""(Partition, port GUID) → the membership that the port should have there; None: none."""
_Members = dict[tuple[int, int], tuple[bool, bool]]

_NOBODY: Final = 1 << 64
_SM: Final = EndPort(_NOBODY, "ca")
_OTHERS: Final = (EndPort(_NOBODY + 1, "ca"), EndPort(_NOBODY + 2, "switch"), EndPort(_NOBODY + 3, "router"))


def what_else_changed(
    before: Policy, after: Policy, wanted: WantedMembers, kinds: Mapping[int, PortKind], born: int | None = None
) -> str | None:
    """Return in words the first difference between *after* and *before* besides the change *wanted*; None if there is
    none.

    *kinds*: of the ports that are known; the others count as CA ports. *born*: a partition that is new, whose members
    are those of its one definition.
    """
    if not after.accepted:
        return f"OpenSM would refuse it: {min(after.errors).message}"
    heads = _heads(after)
    if _heads(before) not in (heads, heads[:-1]):  # one more definition may be at the end
        return "the head of a definition"
    guids = {rule.guid for policy in (before, after) for each in policy.definitions for rule in each.rules}
    guids |= {guid for _, guid in wanted}
    ports = [_SM, *_OTHERS, *(EndPort(guid, kinds.get(guid, "ca")) for guid in sorted(guids - {0}))]
    for both in (False, True):
        was, now = (resolve(policy, ports, _SM.guid, both) for policy in (before, after))
        expected = {key: word for key, word in _members(was).items() if key[0] != born}
        for key, word in wanted.items():
            expected.pop(key, None)
            if word is not None:
                expected[key] = _as_sets(word, both)
        found = {key: word for key, word in _members(now).items() if key[0] != born}
        if expected != found:
            base, guid = min(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
            return f"the membership of {_name(guid)} in partition 0x{base:04x}"
        moved = _moved(was.index0, now.index0, wanted)
        if moved is not None:
            return f"the P_Key at index 0 of {_name(moved)}"
    return None


def _heads(policy: Policy) -> list[Definition]:
    return [replace(definition, rules=()) for definition in policy.definitions]


def _members(resolution: Resolution) -> _Members:
    return {
        (each.base, guid): (guid in each.full, guid in each.limited)
        for each in resolution.memberships
        for guid in each.full | each.limited
    }


def _as_sets(word: MemberWord, both: bool) -> tuple[bool, bool]:
    return (word != "limited", word == "limited" or (word == "both" and both))


def _moved(was: Mapping[int, PKey], now: Mapping[int, PKey], wanted: WantedMembers) -> int | None:
    """Return a port whose P_Key at index 0 changed, though the change does not concern it."""
    concerned = {guid for _, guid in wanted}
    return next(
        (guid for guid in sorted(was.keys() | now.keys()) if guid not in concerned and was.get(guid) != now.get(guid)),
        None,
    )


def _name(guid: int) -> str:
    return "a port that is not named" if guid >= _NOBODY else f"0x{guid:016x}"
