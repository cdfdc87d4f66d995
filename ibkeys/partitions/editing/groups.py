"""Adding ``mgid=`` lines to a partition and removing them. Each edited text is read again: it must mean the former
policy with this change, and nothing else.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.keys.pkey import FULL_BIT
from ibkeys.partitions.editing.changes import EditedPolicy
from ibkeys.partitions.editing.partition_name import PartitionName, require_partition
from ibkeys.partitions.editing.removing import remove_items
from ibkeys.partitions.editing.text import PolicyText, TextEdit
from ibkeys.partitions.model import DEFAULT_SCOPE, Definition, MgidGroup, Partition, Policy, is_ip_group, scope_of
from ibkeys.partitions.reader import parse_policy
from ibkeys.printable import clean

_INDENT: Final = "    "


def add_group(policy: Policy, where: PartitionName, mgid: int) -> EditedPolicy:
    """Return the edit of *policy* that adds the multicast group *mgid* (128 bits) to a partition.

    The line comes first in the port list of the first definition with ipoib, else of the first one, and has the flags
    of the head; a scope that is not link-local is written. A group that the partition has already is not added. Raises
    FileFormatError for a policy that OpenSM would refuse; UsageError for a partition that does not exist, and for a
    group of which OpenSM would make none or another one.
    """
    policy.require_accepted()
    partition = require_partition(policy, where)
    text = _as_text(mgid)
    if any(group.refused is None for group in _groups_of(partition, mgid)):
        return EditedPolicy(policy, policy, notes=(f"partition {clean(partition.name)} has the group {text} already",))
    place = next((each for each in partition.definitions if each.ipoib), partition.definitions[0])
    policy_text = PolicyText(policy)
    # Without the flag, OpenSM makes a link-local group, whatever the MGID is.
    flag = "" if scope_of(mgid) == DEFAULT_SCOPE else f",scope={scope_of(mgid)}"
    after = parse_policy(policy_text.edited([_insertion(policy_text, place, text + flag)]), policy.path)
    new = _added(policy, place, after)
    if new is None:
        raise UsageError(f"{policy.path}: OpenSM would not read the group {text} as meant: add it with an editor")
    if new.refused is not None:
        raise UsageError(f"{policy.path}: OpenSM would leave the group {text} out: {new.refused}")
    if new.mgid not in new.mgids():
        made = ", ".join(map(_as_text, new.mgids()))
        raise UsageError(f"{policy.path}: OpenSM would make {made} of the group {text}, by scope= of the definition")
    return EditedPolicy(policy, after)


def remove_group(policy: Policy, where: PartitionName, mgid: int) -> EditedPolicy:
    """Return the edit of *policy* that removes each ``mgid=`` line with the group *mgid* (128 bits) from a partition.

    A group that the partition does not have is no error. Raises FileFormatError for a policy that OpenSM would refuse;
    UsageError for a partition that does not exist, and if OpenSM would read the edited text otherwise than meant.
    """
    policy.require_accepted()
    partition = require_partition(policy, where)
    text, name = _as_text(mgid), clean(partition.name)
    if not _groups_of(partition, mgid):
        return EditedPolicy(policy, policy, notes=(f"partition {name} has no line with the group {text}",))
    policy_text = PolicyText(policy)
    edits: list[TextEdit] = []
    wanted = []
    for definition in policy.definitions:
        gone = _groups_of(partition, mgid) if definition.base == partition.base else []
        kept = [group for group in definition.groups if group not in gone]
        if len(kept) < len(definition.groups):
            lines = [item for line in policy_text.body(definition) for item in line.items if item.is_group]
            starts = {item.start for item, group in zip(lines, definition.groups, strict=True) if group in gone}
            edits += remove_items(policy_text, definition, starts)
        wanted.append(replace(definition, groups=tuple(kept)))
    after = parse_policy(policy_text.edited(edits), policy.path)
    if not after.accepted or list(after.definitions) != wanted:
        raise UsageError(f"{policy.path}: OpenSM would misread the policy without the group {text}: use an editor")
    return EditedPolicy(policy, after)


def _groups_of(partition: Partition, mgid: int) -> list[MgidGroup]:
    """Return the groups of *partition* with the MGID *mgid*. In the MGID of an IP group without a P_Key, OpenSM writes
    that of the partition."""
    if is_ip_group(mgid) and not mgid >> 80 & 0xFFFF:
        mgid |= (partition.base | FULL_BIT) << 80
    return [group for group in partition.groups if group.mgid == mgid]


def _insertion(text: PolicyText, definition: Definition, mgid: str) -> TextEdit:
    """Return the edit that puts a line for the group *mgid* first into the port list of a definition. OpenSM takes the
    rest of the line as flags of the group, so what follows the head moves to the next line."""
    first = text.body(definition)[0]
    line = f"{_INDENT}mgid={mgid}\n"
    if not first.items and first.close is None:
        newline = "" if text.text[first.line_end - 1 : first.line_end] == "\n" else "\n"
        return TextEdit(first.line_end, first.line_end, newline + line)
    start = first.items[0].start if first.items else first.start
    after = _INDENT if first.items else f"{_INDENT}NONE"  # a semicolon must not stand alone
    return TextEdit(first.start, start, f"\n{line}{after}")


def _added(before: Policy, place: Definition, after: Policy) -> MgidGroup | None:
    """Return the group that *after* has in the definition *place* and *before* has not; None if they differ in anything
    else."""
    if not after.accepted or len(after.definitions) != len(before.definitions):
        return None
    new: Sequence[MgidGroup] = ()
    for old, found in zip(before.definitions, after.definitions, strict=True):
        if old is place and found == replace(old, groups=found.groups) and found.groups[1:] == old.groups:
            new = found.groups[:1]
        elif old != found:
            return None
    return new[0] if new else None


def _as_text(mgid: int) -> str:
    return str(ipaddress.IPv6Address(mgid))
