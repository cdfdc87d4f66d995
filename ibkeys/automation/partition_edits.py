"""The edits of a policy that a user asks for by a verb: partition-add, -remove, -delete and -rename."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ibkeys.apply.by_sm.changed_together import ChangedTogether
from ibkeys.arguments import given
from ibkeys.automation.named_ports import PortsOfWords, keywords_of
from ibkeys.change.consent import Consent, Objection
from ibkeys.errors import UsageError
from ibkeys.partitions.editing.changes import EditedPolicy, add_members, move_members, remove_members
from ibkeys.partitions.editing.flag_texts import FlagTexts
from ibkeys.partitions.editing.groups import add_group, remove_group
from ibkeys.partitions.editing.heads import delete_partition, lacking_ipoib, rename_partition, set_flags
from ibkeys.partitions.editing.partition_name import PartitionName, find_partition
from ibkeys.partitions.model import MemberRule, MemberWord, Policy
from ibkeys.printable import clean
from ibkeys.topology.model import Topology

M = TypeVar("M")
_INDEX_0 = "index-0"


@dataclass(frozen=True, slots=True)
class RequestedEdit:
    """An edit that a user asked for.

    ``command``: the command that makes it. ``words``: the words that name ports. ``edit``: makes the edit of a policy.
    ``target``: the partition whose members may be removed; None: those that the edit changes. ``leaves_ipoib_open``:
    whether the user could give ipoib to the partition, and did not say whether it gets it. ``moves_index_0``: whether
    the P_Key at index 0 of members may change. ``find``: looks the words up on a fabric; None: as `look_up`.
    ``changed_together``: returns the files and places that change together with the policy, known after ``edit``; None:
    there are none. ``out_of``: the partition from which the ports are moved; ``new_name``: the name that the partition
    gets; "" if it keeps its own. ``flags``: the options that set flags of the partition.
    """

    command: str
    words: Sequence[str]
    edit: Callable[[Policy, PortsOfWords], EditedPolicy]
    target: PartitionName | None
    leaves_ipoib_open: bool = False
    moves_index_0: bool = False
    find: Callable[[Topology], PortsOfWords] | None = None
    changed_together: Callable[[Topology], ChangedTogether] | None = None
    out_of: PartitionName | None = None
    new_name: str = ""
    flags: Sequence[str] = ()

    @property
    def subject(self) -> str:
        """The partitions, the words and the flags, for the journal: ``hpc db03,db04 out of lab``, ``hpc -> compute``,
        ``hpc --mtu``; without a partition the words."""
        words = [clean(word) for word in self.words]
        if self.target is None:
            return " ".join(words)
        out_of = f"out of {self.out_of}" if self.out_of is not None else ""
        new_name = f"-> {clean(self.new_name)}" if self.new_name else ""
        return " ".join(filter(None, (str(self.target), ",".join(words), out_of, new_name, *self.flags)))

    def lacking_ipoib(self, policy: Policy) -> str:
        """Return a remark if the partition is new in *policy* and lacks the ipoib of most others; "" otherwise."""
        if self.target is None or not self.leaves_ipoib_open or find_partition(policy, self.target) is not None:
            return ""
        return lacking_ipoib(policy)

    def refuse_index_0(self, edited: EditedPolicy, consent: Consent) -> None:
        """Raise Refused (``index-0``) if *edited*, the edit that was made, changes index 0 of ports, unless *consent*
        covers that."""
        had, has = ({each.base: each.indx0 for each in policy.partitions} for policy in (edited.before, edited.after))
        changes = any(is_set != had.get(base, False) for base, is_set in has.items())
        if self.moves_index_0 and changes and not consent.covers(_INDEX_0):
            text = (
                "indx0 changes the P_Key at index 0 of every member, which programs use that name no other; drivers "
                "notice it only when they start again"
            )
            raise Objection(_INDEX_0, text).refusal()


def added(
    target: PartitionName,
    full: Sequence[str],
    limited: Sequence[str],
    flags: FlagTexts,
    out_of: PartitionName | None = None,
    keeping: Sequence[str] = (),
) -> RequestedEdit:
    """Return the edit that adds ports to *target*, or sets its flags; the partition is made if it does not exist.

    *full*, *limited*: the words of the ports that become such members. *out_of*: the partition from which all ports are
    moved. *keeping*: the words of ports that keep their membership; only with *out_of*. Raises UsageError for an edit
    without members and flags, a word with two memberships, and *keeping* without *out_of*.
    """
    wanted_flags, groups = flags.flags(), flags.groups()
    if keeping and out_of is None:
        raise UsageError(
            f"{keeping[0]}: give its membership, {given('--full WHO', 'full=')} or "
            f"{given('--limited WHO', 'limited=')}; a port keeps its membership only with {given('--out-of')}"
        )
    memberships = _memberships(full, limited, required=not (keeping or wanted_flags or groups))
    unchanged_memberships: dict[str, MemberWord | None] = dict.fromkeys(keeping)
    if twice := memberships.keys() & unchanged_memberships:
        raise UsageError(f"{', '.join(sorted(twice))}: named with a membership and without one")
    words = [*memberships, *keeping]
    if out_of is not None:
        _refuse_keywords(words)

    def edit_members(policy: Policy, ports_of_words: PortsOfWords) -> EditedPolicy:
        known = ports_of_words.known
        if out_of is not None:
            by_guid = _by_guid(ports_of_words, {**memberships, **unchanged_memberships})
            return move_members(policy, out_of, target, by_guid, known)
        rules: list[MemberRule] = [MemberRule(each, 0, memberships[each]) for each in keywords_of(memberships)]
        rules += [MemberRule("GUID", guid, how) for guid, how in _by_guid(ports_of_words, memberships).items()]
        return add_members(policy, target, rules, known)

    def edit(policy: Policy, ports_of_words: PortsOfWords) -> EditedPolicy:
        is_new = find_partition(policy, target) is None
        edited = edit_members(policy, ports_of_words) if words else EditedPolicy(policy, policy)
        if wanted_flags:
            edited = edited.followed_by(set_flags(edited.after, target, wanted_flags), with_notes=not is_new)
        for mgid, is_added in reversed(groups.items()):  # each new one comes first in the port list
            edit_group = add_group if is_added else remove_group
            edited = edited.followed_by(edit_group(edited.after, target, mgid))
        return edited

    leaves_ipoib_open, moves_index_0 = flags.ipoib is None, "indx0" in wanted_flags
    return RequestedEdit(
        "partition-add", words, edit, target, leaves_ipoib_open, moves_index_0, out_of=out_of, flags=flags.options()
    )


def removed(source: PartitionName, words: Sequence[str]) -> RequestedEdit:
    """Return the edit that removes the ports of *words* from *source*. Raises UsageError without words, and for a
    keyword."""
    if not words:
        raise UsageError("no port is given")
    _refuse_keywords(words)

    def edit(policy: Policy, ports_of_words: PortsOfWords) -> EditedPolicy:
        guids = dict.fromkeys(guid for each in ports_of_words.guids.values() for guid in each)
        return remove_members(policy, source, list(guids), ports_of_words.known)

    return RequestedEdit("partition-remove", words, edit, source)


def deleted(target: PartitionName) -> RequestedEdit:
    """Return the edit that deletes a partition with all its members."""
    return RequestedEdit("partition-delete", (), lambda policy, ports: delete_partition(policy, target), target)


def renamed(target: PartitionName, name: str) -> RequestedEdit:
    """Return the edit that gives a partition another name."""

    def edit(policy: Policy, ports_of_words: PortsOfWords) -> EditedPolicy:
        return rename_partition(policy, target, name)

    return RequestedEdit("partition-rename", (), edit, target, new_name=name)


def _memberships(full: Sequence[str], limited: Sequence[str], required: bool) -> dict[str, MemberWord]:
    """Return the membership by the word of the ports that get it. *required*: whether there must be at least one word.
    Raises UsageError if there is none, and for a word with both memberships."""
    as_full, as_limited = given("--full WHO", "full="), given("--limited WHO", "limited=")
    if required and not (full or limited):
        raise UsageError(f"no port is given: name ports with {as_full} or {as_limited}")
    contradictory = set(full) & set(limited)
    if contradictory:
        names = [each.removesuffix(" WHO") for each in (as_full, as_limited)]
        raise UsageError(f"{', '.join(sorted(contradictory))}: named with {names[0]} and with {names[1]}")
    memberships: dict[str, MemberWord] = dict.fromkeys(full, "full")
    memberships.update(dict.fromkeys(limited, "limited"))
    return memberships


def _by_guid(ports_of_words: PortsOfWords, memberships: Mapping[str, M]) -> dict[int, M]:
    """Return the membership of each port by its GUID. *memberships*: the membership by the word that names the port.

    Raises UsageError for a port to which two words give different memberships.
    """
    by_guid: dict[int, M] = {}
    for word, guids in ports_of_words.guids.items():
        for guid in guids:
            if by_guid.setdefault(guid, memberships[word]) != memberships[word]:
                port = ports_of_words.known.text_of(guid)
                raise UsageError(f"{port}: two names select it with different memberships; one of them is {word!r}")
    return by_guid


def _refuse_keywords(words: Sequence[str]) -> None:
    if keywords := keywords_of(words):
        raise UsageError(
            f"{keywords[0]} stands for a group of ports, and its effect depends on its position: change "
            "it with an editor"
        )
