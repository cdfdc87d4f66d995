"""UFM's partitions as a policy, which has the members that UFM stores.

The members of the default partition, of partitions with an empty list, and of partitions that UFM does not list are not
known, so the policy says nothing about them. `Policy.says` has the partitions whose members are known.
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
"""The only line of the policy if UFM lists the members of no partition, because OpenSM accepts no empty policy."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,30}")


def policy_of(url: str, partitions: Iterable[UfmPartition]) -> Policy:
    """Return the policy for the *partitions* of the UFM at *url*, with the text of a partitions.conf."""
    listed = sorted(partitions, key=lambda each: each.base)
    known = [each for each in listed if each.members is not None]
    path = f"{PREFIX}{url}"
    policy = Policy(path, tuple(definition for each in known for definition in _make_definitions(each)) or (_NOTHING,))
    text = f"# {path}: only the partitions whose members UFM lists\n{to_conf(policy)}"
    return replace(parse_policy(text.encode(), path), says=frozenset(each.base for each in known))


def notes_on(partitions: Iterable[UfmPartition]) -> list[str]:
    """Return a note for the user about partitions whose members UFM does not list."""
    empty = [f"{each.base:#x}" for each in sorted(partitions, key=lambda each: each.base) if each.members is None]
    what = f"UFM does not say who is in {counted(len(empty), 'partition')} ({named(empty)}), nor in those that it does "
    if not empty:
        what = "UFM does not say who is in partitions that it does "
    return [f"{what}not list: their members are unknown, and stay as they are"]


def _make_definitions(each: UfmPartition) -> Iterable[Definition]:
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
