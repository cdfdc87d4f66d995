"""Giving the memberships of ports to the ports that replaced them, in the text of a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from ibkeys.errors import Refused, UsageError
from ibkeys.partitions.editing.changes import EditedPolicy, KnownPorts, MemberChange
from ibkeys.partitions.editing.deciding_item import DecidingItems
from ibkeys.partitions.editing.text import PolicyText, TextEdit
from ibkeys.partitions.model import Definition, Partition, Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.printable import named

NEW_IS_MEMBER: Final = "new-is-member"
"""The name of the refusal of a new port that the policy names already."""


def replace_guids(policy: Policy, guids: Mapping[int, int], ports: KnownPorts) -> EditedPolicy:
    """Return the edit of *policy* in which each item that names a port by a former GUID names its new GUID.

    *guids*: former port GUID → new port GUID. Membership, place in the port list, comment and every other byte of an
    item stay, so a new port gets exactly what the policy gave the former one. What keywords such as ALL give a port
    does not change. A note lists the former GUIDs that the policy does not name. *ports*: names and kinds of the new
    ports. Raises FileFormatError for a policy that OpenSM would refuse; Refused (`NEW_IS_MEMBER`) for a new GUID that
    the policy names already; UsageError for two former ports with one new GUID, and if OpenSM would read the edited
    text otherwise than meant.
    """
    policy.require_accepted()
    _refuse_members(policy, guids, ports)
    text = PolicyText(policy)
    edits = [edit for definition in policy.definitions for edit in _other_guids(text, definition, guids)]
    after = parse_policy(text.edited(edits), policy.path)
    if not after.accepted or after.definitions != tuple(_as_replaced(each, guids) for each in policy.definitions):
        raise UsageError(f"{policy.path}: OpenSM would not read the edited GUIDs as meant: change them with an editor")
    kinds = {**{former: ports.kinds.get(new, "ca") for former, new in guids.items()}, **ports.kinds}
    changes = [
        change
        for partition in policy.partitions
        for change in _changes(partition, guids, DecidingItems(partition, kinds))
    ]
    absent = [f"0x{guid:016x}" for guid in guids if guid not in policy.named_guids]
    note = f"{policy.path} does not name {named(absent)}, so nothing is taken over from there" if absent else ""
    return EditedPolicy(policy, after, tuple(changes)).noted(note)


def _refuse_members(policy: Policy, guids: Mapping[int, int], ports: KnownPorts) -> None:
    if len({*guids.values()}) < len(guids):
        raise UsageError("two former ports have the same new port: each port takes over from one port only")
    for new in guids.values():
        if new in policy.named_guids:
            raise Refused(
                f"nothing was changed: {policy.path} names {ports.text_of(new)} already, so that port is no new one; "
                "`ibkeys partition-show` shows its partitions",
                NEW_IS_MEMBER,
            )


def _other_guids(text: PolicyText, definition: Definition, guids: Mapping[int, int]) -> Iterator[TextEdit]:
    """Yield the edits that write the new GUIDs into the items of a definition: with as many digits as the former one
    has, if these suffice."""
    new = {text.offset(rule): guids[rule.guid] for rule in definition.rules if rule.guid in guids}
    for line in text.body(definition) if new else ():
        for item in line.items:
            if item.start in new:
                written = text.text[item.start : item.name_end].lower()
                digits = len(written) - 2 if written.startswith("0x") else 16
                yield TextEdit(item.start, item.name_end, f"0x{new[item.start]:0{digits}x}")


def _as_replaced(definition: Definition, guids: Mapping[int, int]) -> Definition:
    rules = tuple(replace(rule, guid=guids.get(rule.guid, rule.guid)) for rule in definition.rules)
    return replace(definition, rules=rules)


def _changes(partition: Partition, guids: Mapping[int, int], standings: DecidingItems) -> list[MemberChange]:
    """Return the changes in one partition: each former port loses its own items, and the new port gets them."""
    changes = []
    for former, new in guids.items():
        own = standings.own.get(former)
        if own:
            membership, without = standings.membership(former), standings.membership_by_keyword(former)
            if membership == without:
                continue  # a keyword gives both ports the same
            changes.append(MemberChange(partition.base, partition.name, own[-1], membership, without))
            rule = replace(own[-1], guid=new)
            changes.append(MemberChange(partition.base, partition.name, rule, without, membership))
    return changes
