"""The command `partition-show`: the partitions of a policy, with their members on the fabric by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.policies import PARTITION_SHOW
from ibkeys.cli.exits import clean, write_each
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.aliases import note_aliases
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import SmHosts, Where
from ibkeys.cli.policies.members import parse_partition
from ibkeys.cli.render import write_document
from ibkeys.cli.showing import errors_of, finish, sweep
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.automation.shown_partitions import ShownPartition
    from ibkeys.partitions.model import Partition
    from ibkeys.topology.model import Topology


@dataclass(frozen=True, slots=True)
class _ShowOptions:
    """The options of `partition-show`. ``file``: the policy file; None: the policy in force."""

    where: Where
    sm_hosts: SmHosts
    file: str | None = options.field(
        "--policy", "file", env=False, metavar="FILE", help="Show this file.  [default: the policy in force]"
    )
    format: str = options.field_of(options.format, "table")


@command("partition-show")
@click.argument("partition", required=False)
@options.group("command_options", _ShowOptions, options.sm_hosts, options.reading)
def partition_show(partition: str | None, command_options: _ShowOptions) -> int:
    """Show partitions, with their members by name.

    PARTITION is a name or a P_Key such as 0x21; without it, all are shown. The policy is the one in force, of the
    master OpenSM on this host or one of --sm-host, or that of --policy FILE. Members are those that OpenSM gives the
    partition on this fabric, also by words such as ALL; `ibkeys compare` says whether the ports have these P_Keys.
    """
    from ibkeys.automation.shown_partitions import choose_partitions, show_partitions
    from ibkeys.cli.sm.hosts import hosts_of
    from ibkeys.cli.sm.policy import is_opensm, master_policy, require_file
    from ibkeys.discovery.wanted import Wanted
    from ibkeys.partitions.reader import read_policy

    where, format = command_options.where, command_options.format
    file = None if is_opensm(command_options.file) else command_options.file
    wanted = parse_partition(partition) if partition is not None else None
    allow_both = False
    if file is not None:
        require_file(file, "partition-show shows a file, or the policy in force; UFM's: `ibkeys policy-check ufm:URL`")
        policy = read_policy(file)
        policy.require_accepted()
    with open_source(where) as source:
        if file is None:
            master = master_policy(source, hosts_of(where, command_options.sm_hosts))
            policy, allow_both = master.policy, bool(master.allow_both_pkeys)
        chosen = choose_partitions(policy, wanted)
        topology = sweep(source, where, wanted=Wanted(sm_info=True))
        source.read_alias_guids(topology, policy.named_guids)
    shown = show_partitions(policy, chosen, topology, allow_both)
    exits.warn_each(shown.notes, "note")
    note_aliases(topology, policy.path, shown.unmatched)
    partitions = [_document(each) for each in shown.partitions]
    content = {"file": policy.path, "digest": policy.digest, "partitions": partitions, "errors": errors_of(topology)}
    rows = (
        {**member, "partition": each["partition"], "name": each["name"]}
        for each in partitions
        for member in each["members"]
    )
    if not write_document(format, PARTITION_SHOW, lambda: {**content, "unreached": topology.unreached}, rows):
        _write_words(chosen, partitions, topology)
    return finish(errors_of(topology), format)


def _document(shown: ShownPartition) -> dict[str, Any]:
    """Return what the document says of a partition."""
    from ibkeys.partitions.describe import groups_json

    partition = shown.partition
    return {
        "partition": f"0x{partition.base:04x}",
        "name": partition.name,
        "automatic": partition.automatic,
        "indx0": partition.indx0,
        "ipoib": partition.ipoib,
        "members": [{**each.port.identity(), "membership": each.membership} for each in shown.members],
        "absent": [f"0x{guid:016x}" for guid in shown.absent],
        "groups": groups_json(partition),
    }


def _write_words(shown: Sequence[Partition], partitions: Sequence[dict[str, Any]], topology: Topology) -> None:
    names = FoldedNames((port.identity() for port in topology.end_ports()), topology)
    for partition, content in zip(shown, partitions, strict=True):
        write_each(map(clean, _lines(partition, content, names)))


def _lines(partition: Partition, content: dict[str, Any], names: FoldedNames) -> Iterator[str]:
    from ibkeys.partitions.describe import groups_in_words, head_in_words

    yield head_in_words(partition)
    yield from groups_in_words(partition)
    for membership in ("full", "limited", "both"):
        members = [each for each in content["members"] if each["membership"] == membership]
        if members:
            words = "full and limited" if membership == "both" else membership
            yield f"  {words}, {len(members)}: {', '.join(names.words(members))}"
    if content["absent"]:
        yield f"  no port of this fabric: {', '.join(content['absent'])}"
    if not content["members"]:
        yield "  no member on this fabric: OpenSM drops it"
