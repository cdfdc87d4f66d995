"""Adding ports to partitions of a policy, removing and moving them. Each edited text is checked: it must change nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ibkeys.arguments import require
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.partitions.editing.adding import append_definition, append_items, change_memberships
from ibkeys.partitions.editing.deciding_item import DecidingItems
from ibkeys.partitions.editing.partition_name import (
    PartitionName,
    find_partition,
    no_partition,
    require_partition,
)
from ibkeys.partitions.editing.proof import unwanted_difference
from ibkeys.partitions.editing.removing import remove_items
from ibkeys.partitions.editing.text import PolicyText, TextEdit
from ibkeys.partitions.membership import PortKind, end_ports_of
from ibkeys.partitions.model import (
    DEFAULT_NAME,
    DEFAULT_PARTITION,
    MemberRule,
    MemberWord,
    Partition,
    Policy,
    stored_name,
)
from ibkeys.partitions.reader import parse_policy
from ibkeys.printable import Detail, clean, counted, named
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port


@dataclass(frozen=True, slots=True)
class KnownPorts:
    """Facts about ports, by port GUID. ``labels``: names for comments and messages. ``kinds``: the kind of node."""

    labels: Mapping[int, str] = field(default_factory=dict)
    kinds: Mapping[int, PortKind] = field(default_factory=dict)

    def text_of(self, guid: int) -> str:
        """Return the GUID and the name of a port, for messages."""
        label = self.labels.get(guid)
        return f"0x{guid:016x}" + (f" ({clean(label)})" if label else "")


@dataclass(frozen=True, slots=True)
class MemberChange:
    """The change of the membership of a port, or of the ports of a keyword. ``base`` and ``partition``: the number and
    name of the partition. ``before`` and ``after``: None for no membership.
    """

    base: int
    partition: str
    rule: MemberRule
    before: MemberWord | None
    after: MemberWord | None


@dataclass(frozen=True, slots=True)
class EditedPolicy:
    """A policy before and after an edit. ``unchanged``: the GUIDs of ports that needed no change. ``notes``: messages
    for the user."""

    before: Policy
    after: Policy
    changes: tuple[MemberChange, ...] = ()
    unchanged: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def pending(self) -> bool:
        """Whether the edit changes the text."""
        return self.before.data != self.after.data

    def followed_by(self, other: EditedPolicy, with_notes: bool = True) -> EditedPolicy:
        """Return this edit together with *other*, an edit of its result. *with_notes*: whether the notes of *other*
        count."""
        notes = (*self.notes, *(other.notes if with_notes else ()))
        changes, unchanged = (*self.changes, *other.changes), (*self.unchanged, *other.unchanged)
        return EditedPolicy(self.before, other.after, changes, unchanged, notes)

    def noted(self, *notes: str) -> EditedPolicy:
        """Return this edit with further notes; empty ones are left out."""
        return replace(self, notes=(*self.notes, *filter(None, notes)))


def add_members(policy: Policy, where: PartitionName, rules: Sequence[MemberRule], ports: KnownPorts) -> EditedPolicy:
    """Return the edit of *policy* that makes ports members of a partition, or changes their membership there.

    A partition that does not exist is made. *rules*: the ports with their memberships, each port once. A port that has
    this membership already is not changed. Keywords are allowed only in a new partition, where they come first.
    *ports*: names for comments, and kinds of nodes. Raises FileFormatError for a policy that OpenSM would refuse;
    UsageError for a partition that cannot be made or is ambiguous, for keywords in an existing partition, and if other
    memberships would change too.
    """
    policy.require_accepted()
    partition = find_partition(policy, where)
    keywords = [rule for rule in rules if rule.who != "GUID"]
    if partition is None:
        return _new_partition(policy, where, [*keywords, *(rule for rule in rules if rule.who == "GUID")], ports)
    if keywords:
        raise UsageError(
            f"{policy.path}: partition {partition.name} exists already, and the effect of {keywords[0]} depends on its "
            "place among the other items: add it with an editor"
        )
    text, standings = PolicyText(policy), DecidingItems(partition, ports.kinds)
    changes: list[MemberChange] = []
    unchanged: list[int] = []
    new: list[MemberRule] = []
    in_place: dict[int, MemberWord] = {}
    for rule in rules:
        present, deciding_item = standings.membership(rule.guid), standings.deciding_item(rule.guid)
        if present == rule.membership:
            unchanged.append(rule.guid)
            continue
        changes.append(MemberChange(partition.base, partition.name, rule, present, rule.membership))
        if deciding_item is not None and deciding_item.who == "GUID":
            in_place[text.offset(deciding_item)] = rule.membership
        else:
            new.append(rule)
    if not changes:
        return EditedPolicy(policy, policy, (), tuple(unchanged), _of_later_self(partition, rules, ports.kinds))
    wanted = {(partition.base, each.rule.guid): each.after for each in changes}
    edits = change_memberships(text, partition.definitions, in_place)
    candidates = list(_possible_appends(text, policy, partition, new, ports)) if new else [[]]
    after = _first_that_fits(policy, text, ([*edits, *each] for each in candidates), wanted, ports)
    notes = _of_later_self(require_partition(after, where), rules, ports.kinds)
    return EditedPolicy(policy, after, tuple(changes), tuple(unchanged), notes)


def _of_later_self(
    partition: Partition, wanted: Sequence[MemberRule], kinds: Mapping[int, PortKind]
) -> tuple[str, ...]:
    """Return a note if *partition* has the item SELF, which names no port, with another membership than one of *wanted*
    and after the item that decides for that port."""
    items = [rule for rule in partition.rules if rule.who == "SELF"]
    if not items:
        return ()
    standings, last = DecidingItems(partition, kinds), items[-1]
    for rule in wanted:
        item = standings.deciding_item(rule.guid)
        if rule.membership != last.membership and (item is None or (item.line, item.column) < (last.line, last.column)):
            return (f"the port of the master SM stays a {last.membership} member, by SELF in line {last.line}",)
    return ()


def add_member(policy: Policy, found: Topology, port: Port, key: PKey) -> Policy:
    """Return *policy* with *port* as a member of the partition of *key*.

    A P_Key such as 0x8010 makes the port a full member, and 0x0010 a limited one. A partition that does not exist is
    made. Comments, order and every other byte of the text stay. *found*: the sweep with all ports, whose kinds decide
    what keywords mean. Raises FileFormatError for a policy that OpenSM would refuse, UsageError if other memberships
    would change too or an argument has a wrong type.
    """
    require("policy", policy, Policy, "an ibkeys.partitions.Policy")
    require("found", found, Topology, "an ibkeys.Topology, the result of sweep()")
    require("port", port, Port, "an ibkeys.Port")
    require("key", key, PKey, "an ibkeys.PKey")
    kinds = {each.guid: each.kind for each in end_ports_of(found.end_ports())}
    known_ports = KnownPorts({port.guid: port.node.description or ""}, kinds)
    rule = MemberRule("GUID", port.guid, "full" if key.is_full else "limited")
    return add_members(policy, PartitionName(None, key.partition), [rule], known_ports).after


def remove_members(
    policy: Policy, where: PartitionName, guids: Sequence[int], ports: KnownPorts, must_be_there: bool = False
) -> EditedPolicy:
    """Return the edit of *policy* that removes the ports *guids* from a partition.

    A port that is not a member is ``unchanged``, or an error with *must_be_there*. Raises FileFormatError for a policy
    that OpenSM would refuse; UsageError for a partition that does not exist, for a port that is not a member
    (*must_be_there*), if other memberships would change too, and for ports that are members by a keyword, because a
    policy cannot exclude single ports of a keyword.
    """
    policy.require_accepted()
    partition = require_partition(policy, where)
    standings = DecidingItems(partition, ports.kinds)
    changes: list[MemberChange] = []
    unchanged: list[int] = []
    stay: list[int] = []
    for guid in guids:
        own, remaining = standings.own.get(guid), standings.membership_by_keyword(guid)
        if remaining is not None and (partition.base != DEFAULT_PARTITION or not own):
            stay.append(guid)
        elif own:
            changes.append(MemberChange(partition.base, partition.name, own[-1], standings.membership(guid), remaining))
        else:
            unchanged.append(guid)
    if stay:
        by = standings.keyword_item(stay[0])
        raise UsageError(_why_it_stays(policy, partition, ports.text_of(stay[0]), by, len(stay) - 1))
    if unchanged and must_be_there:
        no_members = named([ports.text_of(guid) for guid in unchanged])
        raise UsageError(f"{policy.path}: no member of partition {partition.name}: {no_members}")
    notes = (
        ["every port stays in the default partition"] if partition.base == DEFAULT_PARTITION else _of_self(partition)
    )
    if not changes:
        return EditedPolicy(policy, policy, (), tuple(unchanged), tuple(notes))
    text = PolicyText(policy)
    removed = {each.rule.guid for each in changes}
    edits: list[TextEdit] = []
    for definition in partition.definitions:
        starts = {text.offset(rule) for rule in definition.rules if rule.who == "GUID" and rule.guid in removed}
        edits += remove_items(text, definition, starts) if starts else []
    wanted = {(partition.base, each.rule.guid): each.after for each in changes}
    after = _first_that_fits(policy, text, [edits], wanted, ports)
    return EditedPolicy(policy, after, tuple(changes), tuple(unchanged), tuple(notes))


def _of_self(partition: Partition) -> list[str]:
    """Return a note for a removal from a partition with the item SELF, which names no port."""
    lines = [rule.line for rule in partition.rules if rule.who == "SELF"]
    return [f"the port of the master SM stays a member, by SELF in line {lines[-1]}"] if lines else []


def move_members(
    policy: Policy,
    source: PartitionName,
    target: PartitionName,
    memberships: Mapping[int, MemberWord | None],
    ports: KnownPorts,
) -> EditedPolicy:
    """Return the edit of *policy* that moves ports from the partition *source* to *target*.

    *memberships*: the membership in *target*, by port GUID; None keeps that of the port in *source*. Raises the errors
    of `remove_members` and `add_members`; UsageError for a port that is not a member of *source*, if both partitions
    are the same, and if *source* is the default partition, in which every port stays.
    """
    removed = remove_members(policy, source, list(memberships), ports, must_be_there=True)
    if removed.changes and removed.changes[0].base == DEFAULT_PARTITION:
        raise UsageError(f"{policy.path}: every port stays in the default partition; add it to {target} instead")
    rules = [
        MemberRule("GUID", each.rule.guid, memberships[each.rule.guid] or each.before or "limited")
        for each in removed.changes
    ]
    existing = find_partition(removed.after, target)
    if existing is not None and removed.changes and existing.base == removed.changes[0].base:
        raise UsageError(f"{source} and {target} are the same partition")
    added = add_members(removed.after, target, rules, ports)
    return EditedPolicy(policy, added.after, (*removed.changes, *added.changes), added.unchanged, removed.notes)


# --- one partition ----------------------------------------------------------------------------------------------------


def _possible_appends(
    text: PolicyText, policy: Policy, partition: Partition, rules: Sequence[MemberRule], ports: KnownPorts
) -> Iterator[list[TextEdit]]:
    """Yield the possible edits that add *rules*: at the end of the last definition without indx0, at the end of the
    last definition, and as a new definition."""
    *_, last = partition.definitions
    plain = next((each for each in reversed(partition.definitions) if not each.indx0), last)
    for definition in (plain, last):
        yield append_items(text, definition, rules, ports.labels)
    head = f"{partition.definitions[0].name or ''}=0x{partition.base:04x}"
    yield append_definition(text, policy.definitions[-1], head, rules, ports.labels)


def _first_that_fits(
    policy: Policy,
    text: PolicyText,
    candidates: Iterable[list[TextEdit]],
    wanted: Mapping[tuple[int, int], MemberWord | None],
    ports: KnownPorts,
) -> Policy:
    """Return the first edited policy that makes only the *wanted* change. *candidates*: lists of edits to try. Raises
    UsageError if each would change something else."""
    difference: str | None = None
    for edits in candidates:
        after = parse_policy(text.edited(edits), policy.path)
        difference = unwanted_difference(policy, after, wanted, ports.kinds)
        if difference is None:
            return after
    raise UsageError(f"{policy.path}: this edit would also change {difference}")


def _new_partition(
    policy: Policy, where: PartitionName, rules: Sequence[MemberRule], ports: KnownPorts
) -> EditedPolicy:
    base = DEFAULT_PARTITION if where.name == DEFAULT_NAME else where.base
    if base is None:
        raise no_partition(policy, where, f" (to make one, give its P_Key too: {where}=0x21)")
    name = where.name or (DEFAULT_NAME if base == DEFAULT_PARTITION else "")
    text = PolicyText(policy)
    head = f"{name}=0x{base:04x}"
    edits = append_definition(text, policy.definitions[-1], head, rules, ports.labels)
    after = parse_policy(text.edited(edits), policy.path)
    definition = after.definitions[-1]
    is_as_meant = (stored_name(definition.name or ""), definition.base, definition.rules) == (name, base, tuple(rules))
    # A new partition has only these members. Those of the default partition follow from keywords too.
    born = base if base != DEFAULT_PARTITION or any(rule.who != "GUID" for rule in rules) else None
    wanted = {} if born is not None else {(base, rule.guid): rule.membership for rule in rules}
    difference = unwanted_difference(policy, after, wanted, ports.kinds, born)
    if not is_as_meant or difference is not None:
        raise UsageError(
            f"{policy.path}: a partition {where} cannot be written so that OpenSM reads it as meant: "
            f"{difference or 'its name or members'}"
        )
    changes = [MemberChange(base, name or f"{base:04x}", rule, None, rule.membership) for rule in rules]
    return EditedPolicy(policy, after, tuple(changes), notes=(Detail(f"partition {where} is new"),))


def _why_it_stays(policy: Policy, partition: Partition, port: str, by: MemberRule | None, more: int) -> str:
    """Return the message about ports that cannot be removed from *partition*.

    *port*: the first of them; *more*: the number of others. *by*: the keyword item that names it; None for OpenSM's
    rule for the default partition.
    """
    others = f" (and {counted(more, 'more port')})" if more else ""
    if by is None:
        return f"{policy.path}: {port}{others} stays in the default partition, which OpenSM gives to every port"
    return (
        f"{policy.path}: {port}{others} is a member of partition {partition.name} by {by} in line {by.line}, and no "
        "policy can leave out single ports of that: name the members one by one instead"
    )
