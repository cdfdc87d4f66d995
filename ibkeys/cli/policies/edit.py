"""The commands `partition-add`, `-remove`, `-delete` and `-rename`: they edit a policy file, or the policy in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.policies import PARTITION_ADD, PARTITION_DELETE, PARTITION_REMOVE, PARTITION_RENAME
from ibkeys.cli.given import refuse_given
from ibkeys.cli.help.command import command
from ibkeys.cli.policies.edit_request import EditOptions, RequestedEdit, editing_options, warn_of_unread
from ibkeys.cli.policies.flags import FlagOptions
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.cli.policies.members import PortsOfWords
    from ibkeys.partitions.editing.changes import EditedPolicy
    from ibkeys.partitions.model import MemberRule, MemberWord, Policy


M = TypeVar("M")

_OF_THE_FABRIC: Final = (
    "--allow-removals",
    "--allow-break",
    "--confirm-within",
    "--wait",
    "--sm-host",
    "--sudo",
    "--ssh-config",
)
"""Options that an edit of a file does not have."""


@dataclass(frozen=True, slots=True)
class Memberships:
    """The options for the ports that become full members and limited members."""

    full: tuple[str, ...] = options.repeated_field("--full", "WHO", "Ports that become full members.")
    limited: tuple[str, ...] = options.repeated_field("--limited", "WHO", "Ports that become limited members.")

    def memberships_by_word(self, required: bool = True) -> dict[str, MemberWord]:
        """Return the membership, full or limited, by the word of its option.

        *required*: whether there must be at least one word. Raises UsageError if there is none, and for a word of both
        options.
        """
        if required and not (self.full or self.limited):
            raise UsageError("no port is given: name ports with --full WHO or --limited WHO")
        contradictory = set(self.full) & set(self.limited)
        if contradictory:
            raise UsageError(f"{', '.join(sorted(contradictory))}: named with --full and with --limited")
        memberships: dict[str, MemberWord] = dict.fromkeys(self.full, "full")
        memberships.update(dict.fromkeys(self.limited, "limited"))
        return memberships


_members = options.group("members", Memberships)


@command("partition-add")
@click.argument("partition")
@click.argument("words", nargs=-1, metavar="[WHO]...")
@_members
@options.option("--out-of", env=False, metavar="PARTITION", help="Remove the ports from this partition, too.")
@options.group("flags", FlagOptions)
@editing_options
def partition_add(
    partition: str,
    words: tuple[str, ...],
    members: Memberships,
    out_of: str | None,
    flags: FlagOptions,
    command_options: EditOptions,
) -> int:
    """Add ports to a partition, or set its flags.

    PARTITION is a name, a P_Key such as 0x21, or both (lustre=0x21). The last form creates the partition if it does not
    exist. WHO is a name such as 'stage[1-48]' or 'tank*', a GUID, a LID, SWITCH:3, or a word such as ALL or SELF. With
    --out-of, a WHO without --full or --limited keeps its membership. The policy in force and the fabric are changed
    together, through the subnet manager; --policy FILE only edits that file. Comments, order and every other byte of
    the policy are kept.
    """
    from ibkeys.cli.policies.members import keywords_of, parse_partition
    from ibkeys.partitions.editing.changes import EditedPolicy, add_members, move_members
    from ibkeys.partitions.editing.groups import add_group, remove_group
    from ibkeys.partitions.editing.heads import set_flags
    from ibkeys.partitions.editing.partition_name import find_partition
    from ibkeys.partitions.model import MemberRule

    target = parse_partition(partition)
    source = parse_partition(out_of) if out_of is not None else None
    wanted_flags, groups = flags.flags(), flags.groups()
    _refuse_indx0("indx0" in wanted_flags, command_options)
    if words and source is None:
        raise UsageError(
            f"{words[0]}: give its membership, --full WHO or --limited WHO; it keeps one with --out-of only"
        )
    memberships = members.memberships_by_word(required=not (words or wanted_flags or groups))
    unchanged_memberships: dict[str, MemberWord | None] = dict.fromkeys(words)
    if twice := memberships.keys() & unchanged_memberships:
        raise UsageError(f"{', '.join(sorted(twice))}: named with a membership and without one")
    if source is not None:
        _refuse_keywords([*memberships, *words])

    def edit_members(policy: Policy, ports_of_words: PortsOfWords) -> EditedPolicy:
        if source is not None:
            return move_members(
                policy,
                source,
                target,
                _by_guid(ports_of_words, {**memberships, **unchanged_memberships}),
                ports_of_words.known,
            )
        rules: list[MemberRule] = [MemberRule(each, 0, memberships[each]) for each in keywords_of(memberships)]
        rules += [MemberRule("GUID", guid, how) for guid, how in _by_guid(ports_of_words, memberships).items()]
        return add_members(policy, target, rules, ports_of_words.known)

    def edit(policy: Policy, ports_of_words: PortsOfWords) -> EditedPolicy:
        is_new = find_partition(policy, target) is None
        has_members = bool(memberships or words)
        edited = edit_members(policy, ports_of_words) if has_members else EditedPolicy(policy, policy)
        if wanted_flags:
            edited = edited.followed_by(set_flags(edited.after, target, wanted_flags), with_notes=not is_new)
        for mgid, is_added in reversed(groups.items()):  # each new one comes first in the port list
            edit_group = add_group if is_added else remove_group
            edited = edited.followed_by(edit_group(edited.after, target, mgid))
        return edited

    wanted = RequestedEdit(PARTITION_ADD, [*memberships, *words], edit, target, leaves_ipoib_open=flags.ipoib is None)
    return carry_out(wanted, command_options)


@command("partition-remove")
@click.argument("partition")
@click.argument("words", nargs=-1, required=True, metavar="WHO...")
@editing_options
def partition_remove(partition: str, words: tuple[str, ...], command_options: EditOptions) -> int:
    """Remove ports from a partition.

    Refused for a port that is a member through a keyword such as ALL. A line without any port left is removed with its
    comment; every other byte of the policy stays. The policy in force and the fabric are changed together; --policy
    FILE only edits that file.
    """
    from ibkeys.cli.policies.members import parse_partition
    from ibkeys.partitions.editing.changes import remove_members

    source = parse_partition(partition)
    _refuse_keywords(words)

    def edit(policy: Policy, ports_of_words: PortsOfWords) -> EditedPolicy:
        guids = dict.fromkeys(guid for each in ports_of_words.guids.values() for guid in each)
        return remove_members(policy, source, list(guids), ports_of_words.known)

    return carry_out(RequestedEdit(PARTITION_REMOVE, words, edit, source), command_options)


@command("partition-delete")
@click.argument("partition")
@editing_options
def partition_delete(partition: str, command_options: EditOptions) -> int:
    """Delete a partition with all its members.

    The policy in force and the fabric are changed together; --policy FILE only edits that file. Partitions whose P_Key
    OpenSM picks by itself get their present P_Key written first, so that it stays.
    """
    from ibkeys.cli.policies.members import parse_partition
    from ibkeys.partitions.editing.heads import delete_partition

    target = parse_partition(partition)
    edit = RequestedEdit(PARTITION_DELETE, (), lambda policy, ports: delete_partition(policy, target), target)
    return carry_out(edit, command_options)


@command("partition-rename")
@click.argument("partition")
@click.argument("name")
@editing_options
def partition_rename(partition: str, name: str, command_options: EditOptions) -> int:
    """Give a partition another name.

    PARTITION is its name or P_Key, NAME the new name. P_Keys stay: a partition whose P_Key OpenSM picks by itself gets
    its present P_Key written first. Without --policy FILE the policy in force is changed.
    """
    from ibkeys.cli.policies.members import parse_partition
    from ibkeys.partitions.editing.heads import rename_partition

    target = parse_partition(partition)
    edit = RequestedEdit(PARTITION_RENAME, (), lambda policy, ports: rename_partition(policy, target, name), target)
    return carry_out(edit, command_options)


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
    from ibkeys.cli.policies.members import keywords_of

    if keywords := keywords_of(words):
        raise UsageError(
            f"{keywords[0]} stands for a group of ports, and its effect depends on its position: change "
            "it with an editor"
        )


def _refuse_indx0(is_given: bool, command_options: EditOptions) -> None:
    """Raise Refused (``index-0``) if index 0 of ports would change and the user has not overridden the interlock."""
    from ibkeys.change.consent import Objection

    if is_given and "index-0" not in command_options.consent.override:
        text = (
            "indx0 changes the P_Key at index 0 of every member, which programs use that name no other; drivers notice "
            "it only when they start again"
        )
        raise Objection("index-0", text).refusal()


def carry_out(requested: RequestedEdit, command_options: EditOptions) -> int:
    """Edit the policy file, or the policy in force; return the exit code.

    Nothing is written if the edit is refused. Raises UsageError, AddressError, FileFormatError, and Refused for an
    interlock.
    """
    if command_options.editing.file is None:
        from ibkeys.cli.policies import live

        return live.carry_out(requested, command_options)
    return _edit_file(requested, command_options, command_options.editing.file)


def _edit_file(requested: RequestedEdit, command_options: EditOptions, file: str) -> int:
    """Read a policy file, look the words up on the fabric, edit the policy, write and report; return the exit code.
    Raises as `_carry_out`."""
    from ibkeys.cli.opening import open_source
    from ibkeys.cli.policies.edited import PolicyFile, refuse_by_interlocks, report
    from ibkeys.cli.policies.members import PortsOfWords
    from ibkeys.cli.showing import sweep
    from ibkeys.discovery.wanted import Wanted

    editing, consent = command_options.editing, command_options.consent
    refuse_given(_OF_THE_FABRIC, "--policy FILE only edits the file, and {} is for a change of the fabric: omit it")
    policy_file = PolicyFile.read(file)
    policy_file.policy.require_accepted()
    place = PolicyFile.read_if_there(editing.out) if editing.out is not None else policy_file
    ports_of_words = PortsOfWords.none()
    if requested.words or requested.find is not None:
        with open_source(command_options.where) as source:
            topology = sweep(source, command_options.where, wanted=Wanted(p_keys=requested.find is not None))
        warn_of_unread(topology)
        ports_of_words = requested.look_up(topology)
    edited = requested.edit(policy_file.policy, ports_of_words)
    edited = edited.noted(requested.lacking_ipoib(policy_file.policy))
    has_text = edited.pending or editing.out is not None
    refused = has_text and refuse_by_interlocks(
        place, consent.force, consent.override, only_say=consent.dry_run, further=ports_of_words.objections
    )
    written = has_text and not consent.dry_run
    if written:
        place.write(edited.after.data or b"", like=policy_file)
    report(requested.document, edited, place, written, ports_of_words.ports, command_options.format)
    if refused:
        return exits.REFUSED
    return exits.SAYS_NO if consent.dry_run and edited.pending else exits.DONE
