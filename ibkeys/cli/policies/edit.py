"""The commands `partition-add`, `-remove`, `-delete` and `-rename`: they edit a policy file, or the policy in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.policies import PARTITION_ADD, PARTITION_DELETE, PARTITION_REMOVE, PARTITION_RENAME
from ibkeys.cli.given import refuse_given
from ibkeys.cli.help.command import command
from ibkeys.cli.policies.edit_request import EditOptions, editing_options
from ibkeys.cli.policies.flags import FlagOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibkeys.apply.by_sm.changed_together import LocalFile
    from ibkeys.automation.partition_edits import RequestedEdit
    from ibkeys.cli.documents.field import Document

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
    from ibkeys.automation.partition_edits import added
    from ibkeys.cli.policies.members import parse_partition
    from ibkeys.cli.tools.names import exempt_guids

    exempt_guids([*words, *members.full, *members.limited])
    target = parse_partition(partition)
    source = parse_partition(out_of) if out_of is not None else None
    return carry_out(added(target, members.full, members.limited, flags, source, words), PARTITION_ADD, command_options)


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
    from ibkeys.automation.partition_edits import removed
    from ibkeys.cli.policies.members import parse_partition

    return carry_out(removed(parse_partition(partition), words), PARTITION_REMOVE, command_options)


@command("partition-delete")
@click.argument("partition")
@editing_options
def partition_delete(partition: str, command_options: EditOptions) -> int:
    """Delete a partition with all its members.

    The policy in force and the fabric are changed together; --policy FILE only edits that file. Partitions whose P_Key
    OpenSM picks by itself get their present P_Key written first, so that it stays.
    """
    from ibkeys.automation.partition_edits import deleted
    from ibkeys.cli.policies.members import parse_partition

    return carry_out(deleted(parse_partition(partition)), PARTITION_DELETE, command_options)


@command("partition-rename")
@click.argument("partition")
@click.argument("name")
@editing_options
def partition_rename(partition: str, name: str, command_options: EditOptions) -> int:
    """Give a partition another name.

    PARTITION is its name or P_Key, NAME the new name. P_Keys stay: a partition whose P_Key OpenSM picks by itself gets
    its present P_Key written first. Without --policy FILE the policy in force is changed.
    """
    from ibkeys.automation.partition_edits import renamed
    from ibkeys.cli.policies.members import parse_partition

    return carry_out(renamed(parse_partition(partition), name), PARTITION_RENAME, command_options)


def carry_out(requested: RequestedEdit, document: Document, command_options: EditOptions) -> int:
    """Edit the policy file, or the policy in force; return the exit code. *document*: of the edit of a file.

    Nothing is written if the edit is refused. Raises UsageError, AddressError, FileFormatError, and Refused for an
    interlock.
    """
    if command_options.editing.file is None:
        from ibkeys.cli.policies import live

        return live.carry_out(requested, command_options)
    return _edit_file(requested, document, command_options, command_options.editing.file)


def _edit_file(requested: RequestedEdit, document: Document, command_options: EditOptions, file: str) -> int:
    """Read a policy file, look the words up on the fabric, edit the policy, write and report; return the exit code.
    Raises as `carry_out`."""
    from ibkeys.automation.absent_hosts import find_replaced, look_up_also_absent
    from ibkeys.automation.named_ports import PortsOfWords, unread_in
    from ibkeys.change.consent import Consent
    from ibkeys.cli.opening import open_source
    from ibkeys.cli.policies.edited import PolicyFile, refuse_by_interlocks, report, write_local_files
    from ibkeys.cli.policies.members import look_up
    from ibkeys.cli.showing import sweep
    from ibkeys.discovery.wanted import Wanted
    from ibkeys.partitions.living_groups import LivingGroups

    editing, consent = command_options.editing, command_options.consent
    refuse_given(_OF_THE_FABRIC, "--policy FILE only edits the file, and {} is for a change of the fabric: omit it")
    policy_file = PolicyFile.read(file)
    policy_file.policy.require_accepted()
    place = PolicyFile.read_if_there(editing.out) if editing.out is not None else policy_file
    ports_of_words, topology = PortsOfWords.none(), None
    if requested.words or requested.find is not None:
        with open_source(command_options.where) as source:
            topology = sweep(source, command_options.where, wanted=Wanted(p_keys=requested.find is not None))
        exits.warn_each(unread_in(topology))
        if requested.find is not None:
            ports_of_words = find_replaced(
                source, policy_file.policy, topology, "".join(requested.words[:1]), requested.find
            )
        else:
            words, policy = requested.words, policy_file.policy
            ports_of_words = look_up_also_absent(source, policy, topology, words, look_up)
    edited = requested.edit(policy_file.policy, ports_of_words)
    requested.refuse_index_0(edited, Consent(overrides=frozenset(consent.override)))
    changed_together: Sequence[LocalFile] = ()
    if requested.changed_together is not None and topology is not None:
        changed_together = requested.changed_together(topology).files
    groups = LivingGroups.between(edited.before, edited.after)
    edited = edited.noted(requested.lacking_ipoib(policy_file.policy), *groups.notes())
    has_text = edited.pending or editing.out is not None or bool(changed_together)
    refused = has_text and refuse_by_interlocks(
        place, consent.force, consent.override, only_say=consent.dry_run, further=ports_of_words.objections
    )
    written = has_text and not consent.dry_run
    if written:
        place.write(edited.after.data or b"", like=policy_file)
        write_local_files(changed_together)
    report(document, edited, place, written, ports_of_words.ports, command_options.format, changed_together)
    if refused:
        return exits.REFUSED
    return exits.SAYS_NO if consent.dry_run and (edited.pending or changed_together) else exits.DONE
