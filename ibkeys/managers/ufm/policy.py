"""UFM's partitions as a policy: it wants the partitions as UFM stores them, and leaves the rest as it is.

The members of the default partition, of a partition with an empty list, and of partitions that are not listed at all
are unknown: nothing may be concluded from their absence. `Policy.says` has the partitions whose members are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ibkeys.managers.ufm.access import PREFIX
from ibkeys.managers.ufm.answers import UfmPartition
from ibkeys.partitions.export import to_conf
from ibkeys.partitions.model import DEFAULT_PARTITION, Definition, GroupFlags, MemberRule, Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.printable import counted, named

_NOTHING: Final = Definition(None, DEFAULT_PARTITION, True, "limited", False, False, GroupFlags(), (), ())
"""The text used if UFM lists the members of no partition: OpenSM does not accept an empty file."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,30}")


def policy_of(url: str, partitions: Iterable[UfmPartition]) -> Policy:
    """Return the policy that the *partitions* of the UFM at *url* are, with a text of its own."""
    listed = sorted(partitions, key=lambda each: each.base)
    known = [each for each in listed if each.members is not None]
    path = f"{PREFIX}{url}"
    made = Policy(path, tuple(definition for each in known for definition in _definitions(each)) or (_NOTHING,))
    text = f"# {path}: only the partitions whose members UFM lists\n{to_conf(made)}"
    return replace(parse_policy(text.encode(), path), says=frozenset(each.base for each in known))


def notes_on(partitions: Iterable[UfmPartition]) -> list[str]:
    """Return notes on the members that the answer leaves unknown, in words."""
    empty = [f"{each.base:#x}" for each in sorted(partitions, key=lambda each: each.base) if each.members is None]
    what = f"UFM does not say who is in {counted(len(empty), 'partition')} ({named(empty)}), nor in those that it does "
    if not empty:
        what = "UFM does not say who is in partitions that it does "
    return [f"{what}not list: their members are unknown, and stay as they are"]


def _definitions(each: UfmPartition) -> Iterable[Definition]:
    name = each.name if each.name is not None and _NAME.fullmatch(each.name) else None
    members = each.members or {}
    for index0 in (False, True):
        rules = tuple(
            MemberRule("GUID", guid, member.membership)
            for guid, member in sorted(members.items())
            if bool(member.index0) is index0
        )
        if rules:
            ipoib = bool(each.ip_over_ib) and (not index0 or len(rules) == len(members))
            yield Definition(name, each.base, True, "limited", index0, ipoib, GroupFlags(), (), rules)
