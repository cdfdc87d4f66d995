"""The commands `partition-add` and `partition-remove`: add, move and remove ports of a policy file, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.field import Document
from ibkeys.cli.documents.policies import PARTITION_ADD, PARTITION_REMOVE
from ibkeys.cli.help.command import command
from ibkeys.cli.options import Where
from ibkeys.errors import UsageError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.cli.policies.members import PortsOfWords
    from ibkeys.partitions.editing.changes import EditedPolicy
    from ibkeys.partitions.model import MemberRule, MemberWord, Policy


M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Editing:
    """The options of an edit: the policy, the fabric with the names, the file to write, and the user's consent.

    ``file`` must be typed. The site file and the environment name the policy in force, and a user who forgets to type
    the name of a draft must not edit that policy.
    """

    where: Where
    file: str = options.field(
        "--policy", "file", env=False, required=True, metavar="FILE", help="The policy file to edit."
    )
    out: str | None = options.field(
        "--out", env=False, metavar="FILE", help="Write the edited policy to this file, and leave the other unchanged."
    )
    dry_run: bool = options.flag_field("--dry-run", help="Show what would change, write nothing.")
    force: bool = options.flag_field("--force", help="Edit a policy that an OpenSM on this host reads.")
    override: tuple[str, ...] = options.field_of(options.override, ())
    format: str = options.field_of(options.format, "table")


_editing = options.group("editing", Editing, options.reading)


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
@_editing
def partition_add(
    partition: str, words: tuple[str, ...], members: Memberships, out_of: str | None, editing: Editing
) -> int:
    """Add ports to a partition in a policy, or move them.

    PARTITION is a name, a P_Key such as 0x21, or both (lustre=0x21). The last form creates the partition if it does not
    exist. WHO is a name such as 'stage[1-48]' or 'tank*', a GUID, a LID, SWITCH:3, or a word such as ALL or SELF. With
    --out-of, a WHO without --full or --limited keeps its membership. Comments, order and every other byte are kept.
    """
    from ibkeys.cli.policies.members import keywords_of, parse_partition
    from ibkeys.partitions.editing.changes import add_members, move_members
    from ibkeys.partitions.model import MemberRule

    target = parse_partition(partition)
    source = parse_partition(out_of) if out_of is not None else None
    if words and source is None:
        raise UsageError(
            f"{words[0]}: give its membership, --full WHO or --limited WHO; it keeps one with --out-of only"
        )
    memberships = members.memberships_by_word(required=not words)
    unchanged_memberships: dict[str, MemberWord | None] = dict.fromkeys(words)
    if twice := memberships.keys() & unchanged_memberships:
        raise UsageError(f"{', '.join(sorted(twice))}: named with a membership and without one")
    if source is not None:
        _refuse_keywords([*memberships, *words])

    def edit(policy: Policy, ports_of_words: PortsOfWords) -> EditedPolicy:
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

    return _carry_out(PARTITION_ADD, [*memberships, *words], editing, edit)


@command("partition-remove")
@click.argument("partition")
@click.argument("words", nargs=-1, required=True, metavar="WHO...")
@_editing
def partition_remove(partition: str, words: tuple[str, ...], editing: Editing) -> int:
    """Remove ports from a partition in a policy.

    Refused for a port that is a member through a keyword such as ALL. A line without any port left is removed with
    its comment; every other byte stays.
    """
    from ibkeys.cli.policies.members import parse_partition
    from ibkeys.partitions.editing.changes import remove_members

    source = parse_partition(partition)
    _refuse_keywords(words)

    def edit(policy: Policy, ports_of_words: PortsOfWords) -> EditedPolicy:
        guids = dict.fromkeys(guid for each in ports_of_words.guids.values() for guid in each)
        return remove_members(policy, source, list(guids), ports_of_words.known)

    return _carry_out(PARTITION_REMOVE, words, editing, edit)


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


def _carry_out(
    document: Document, words: Sequence[str], editing: Editing, edit: Callable[[Policy, PortsOfWords], EditedPolicy]
) -> int:
    """Read the policy file, look *words* up on the fabric, edit the policy, write and report; return the exit code.

    *document*: the document of the command. *edit*: makes the edit. Nothing is written if the edit is refused. Raises
    UsageError, AddressError, FileFormatError, and Refused for an interlock.
    """
    from ibkeys.cli.opening import open_source
    from ibkeys.cli.policies.edited import PolicyFile, refuse_by_interlocks, report
    from ibkeys.cli.policies.members import look_up
    from ibkeys.cli.showing import sweep
    from ibkeys.discovery.wanted import Wanted

    policy_file = PolicyFile.read(editing.file)
    policy_file.policy.require_accepted()
    place = PolicyFile.read_if_there(editing.out) if editing.out is not None else policy_file
    with open_source(editing.where) as source:
        topology = sweep(source, editing.where, wanted=Wanted())
    if topology.troubles:
        unread = counted(len(topology.troubles), "thing")
        exits.warn(f"{unread} could not be read, so a name may belong to more ports: see discover")
    ports_of_words = look_up(topology, words)
    edited = edit(policy_file.policy, ports_of_words)
    has_text = edited.pending or editing.out is not None
    refused = has_text and refuse_by_interlocks(place, editing.force, editing.override, only_say=editing.dry_run)
    written = has_text and not editing.dry_run
    if written:
        place.write(edited.after.data or b"", like=policy_file)
    report(document, edited, place, written, ports_of_words.ports, editing.format)
    if refused:
        return exits.REFUSED
    return exits.SAYS_NO if editing.dry_run and edited.pending else exits.DONE
