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
    from ibkeys.cli.policies.members import Meant
    from ibkeys.partitions.editing.changes import EditedPolicy
    from ibkeys.partitions.model import MemberRule, MemberWord, Policy


M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Editing:
    """The options of an edit: the policy, the fabric with the names, the file to write, and the user's consent.

    ``file`` never comes from the site file or the environment: those name the policy in force, and a user who forgets
    to name a draft would edit that policy.
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
    override: tuple[str, ...] = options.taken(options.override, ())
    format: str = options.taken(options.format, "table")


_editing = options.group("editing", Editing, options.reading)


@dataclass(frozen=True, slots=True)
class Memberships:
    """The options for the ports that become full members and limited members."""

    full: tuple[str, ...] = options.repeated_field("--full", "WHO", "Ports that become full members.")
    limited: tuple[str, ...] = options.repeated_field("--limited", "WHO", "Ports that become limited members.")

    def memberships_by_word(self, required: bool = True) -> dict[str, MemberWord]:
        """Return the membership that each word is given.

        Raises UsageError for a word that has both, and if no word is given but one is *required*.
        """
        if required and not (self.full or self.limited):
            raise UsageError("no port is given: name ports with --full WHO or --limited WHO")
        both = set(self.full) & set(self.limited)
        if both:
            raise UsageError(f"{', '.join(sorted(both))}: named with --full and with --limited")
        found: dict[str, MemberWord] = dict.fromkeys(self.full, "full")
        found.update(dict.fromkeys(self.limited, "limited"))
        return found


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
    given = members.memberships_by_word(required=not words)
    kept: dict[str, MemberWord | None] = dict.fromkeys(words)
    if twice := given.keys() & kept:
        raise UsageError(f"{', '.join(sorted(twice))}: named with a membership and without one")
    if source is not None:
        _refuse_keywords([*given, *words])

    def edit(policy: Policy, meant: Meant) -> EditedPolicy:
        if source is not None:
            return move_members(policy, source, target, _by_guid(meant, {**given, **kept}), meant.known)
        rules: list[MemberRule] = [MemberRule(each, 0, given[each]) for each in keywords_of(given)]
        rules += [MemberRule("GUID", guid, how) for guid, how in _by_guid(meant, given).items()]
        return add_members(policy, target, rules, meant.known)

    return _carry_out(PARTITION_ADD, [*given, *words], editing, edit)


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

    def edit(policy: Policy, meant: Meant) -> EditedPolicy:
        guids = dict.fromkeys(guid for each in meant.guids.values() for guid in each)
        return remove_members(policy, source, list(guids), meant.known)

    return _carry_out(PARTITION_REMOVE, words, editing, edit)


def _by_guid(meant: Meant, memberships: Mapping[str, M]) -> dict[int, M]:
    """Return the membership of each port by its GUID.

    Raises UsageError for a port that two words give different ones.
    """
    found: dict[int, M] = {}
    for word, guids in meant.guids.items():
        for guid in guids:
            if found.setdefault(guid, memberships[word]) != memberships[word]:
                raise UsageError(
                    f"{meant.known.shown(guid)}: two names select it with different memberships; one of them is "
                    f"{word!r}"
                )
    return found


def _refuse_keywords(words: Sequence[str]) -> None:
    from ibkeys.cli.policies.members import keywords_of

    if keywords := keywords_of(words):
        raise UsageError(
            f"{keywords[0]} stands for a group of ports, and its effect depends on its position: change "
            "it with an editor"
        )


def _carry_out(
    document: Document, words: Sequence[str], editing: Editing, edit: Callable[[Policy, Meant], EditedPolicy]
) -> int:
    """Read the file, look the words up, edit, report and write; return the exit code.

    Nothing is written if a step is refused.
    """
    from ibkeys.cli.opening import open_source
    from ibkeys.cli.policies.edited import PolicyFile, refuse_what_objects, report
    from ibkeys.cli.policies.members import look_up
    from ibkeys.cli.showing import sweep
    from ibkeys.discovery.wanted import Wanted

    given = PolicyFile.read(editing.file)
    given.policy.require_accepted()
    place = PolicyFile.look(editing.out) if editing.out is not None else given
    with open_source(editing.where) as source:
        found = sweep(source, editing.where, wanted=Wanted())
    if found.troubles:
        unread = counted(len(found.troubles), "thing")
        exits.warn(f"{unread} could not be read, so a name may belong to more ports: see discover")
    meant = look_up(found, words)
    edited = edit(given.policy, meant)
    has_text = edited.pending or editing.out is not None
    refused = has_text and refuse_what_objects(place, editing.force, editing.override, only_say=editing.dry_run)
    written = has_text and not editing.dry_run
    if written:
        place.write(edited.after.data or b"", like=given)
    report(document, edited, place, written, meant.ports, editing.format)
    if refused:
        return exits.REFUSED
    return exits.SAYS_NO if editing.dry_run and edited.pending else exits.DONE
