"""The command `history`: changes at a port, at a GUID or in a partition, over a folder of snapshots."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.addresses import parse_portnum
from ibkeys.cli.comparing.words import in_colour
from ibkeys.cli.documents.comparing import HISTORY
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.partition_names import partition_number
from ibkeys.cli.opening import load
from ibkeys.cli.render import heading_of, write_document
from ibkeys.cli.sm.policy import partition_names_here
from ibkeys.cli.types import parse_p_key
from ibkeys.errors import AddressError, StoreError, UsageError
from ibkeys.grouping import grouped
from ibkeys.printable import counted
from ibkeys.similar_names import did_you_mean_one_of, near_nodes
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.fabric.history import PortEvent, PortHistory
    from ibkeys.topology.nodes import Port

_P_KEY: Final = re.compile(r"0[xX][0-9a-fA-F]{1,4}(?::(?:full|limited))?", re.ASCII)


@command("history")
@click.argument("words", nargs=-1, required=True, metavar="WHAT [PORTNUM] DIR")
@options.format
@options.common
def history(words: tuple[str, ...], format: str) -> int:
    """Show when a port's keys or a partition's members changed.

    DIR is a folder written by `snapshot --into`. WHAT is a P_Key (0x and up to four digits: its partition), a port or
    node GUID (0x and more digits), a LID (decimal), or the name of a node, or of a partition where this host's OpenSM
    has it; PORTNUM is one port of that node. Each change is shown with the two snapshots between which it happened.
    """
    from ibkeys.fabric.history import PortHistory
    from ibkeys.fabric.snapshot_folder import SnapshotFolder

    what, portnum, folder = _words(words)
    files = SnapshotFolder(Path(folder)).snapshots()
    if not files:
        raise StoreError(f"{folder}: it has no snapshot; `ibkeys snapshot --into {folder}` takes one")
    partition = parse_p_key(what).partition if _P_KEY.fullmatch(what) else None
    if partition is not None and portnum is not None:
        raise UsageError("a P_Key is searched at every port: omit PORTNUM")
    wanted = _wanted(what, portnum, files) if partition is None else None
    if partition is None and wanted is None and portnum is None:
        names = partition_names_here()
        partition = partition_number(what, names) if what in names.values() else None
    found = PortHistory(wanted or (lambda port: partition is not None), partition)
    taken: list[str] = []
    events: list[PortEvent] = []
    for file in files:
        snapshot = load(file)
        events += found.add(snapshot)
        taken.append(snapshot.about.finished)
    if not found.found_any and partition is None:
        near = near_nodes(what, (node.description or "" for node in snapshot.fabric.nodes))
        raise AddressError(f"{what}: no snapshot in {folder} has such a port{did_you_mean_one_of(near)}")
    if not found.found_any:
        exits.note(f"no port is in partition 0x{partition:04x} in any of these snapshots")
    about = {"folder": folder, "what": what, "snapshots": len(taken), "first": taken[0], "last": taken[-1]}
    rows = (each.to_json() for each in events)
    if not write_document(format, HISTORY, lambda: _document(about, events, found), rows):
        _write_table(about, events)
    return _finish(found)


def _words(words: Sequence[str]) -> tuple[str, int | None, str]:
    if len(words) == 2:
        return words[0], None, words[1]
    if len(words) == 3:
        return words[0], parse_portnum(words[1]), words[2]
    raise UsageError("give WHAT, then PORTNUM if you mean one port, then the folder of snapshots")


def _wanted(what: str, portnum: int | None, files: Sequence[Path]) -> Callable[[Port], bool] | None:
    """Return a test for the ports that the user means; None if no snapshot has them.

    A LID or name is looked up in the newest snapshot that has it.
    All nodes of one host are meant by its name. Raises AddressError if *what* is no address, or the NodeDescription of
    several nodes.
    """
    from ibkeys.client.address import GuidAddress, as_address
    from ibkeys.topology.find import SeveralNodes, find_ports
    from ibkeys.topology.matching import match_key

    address = as_address(what)
    if isinstance(address, GuidAddress):
        guid = address.guid
        return lambda port: guid in (port.node.guid, port.port_guid) and portnum in (None, port.num)
    for file in reversed(files):
        fabric = load(file).fabric
        try:
            ends = find_ports(fabric, address)
        except SeveralNodes as several:
            ends = several.ports
        keys = {match_key(port) for port in fabric.ports() if port.end_port in ends and portnum in (None, port.num)}
        if keys:
            return lambda port: match_key(port) in keys
    return None


def _document(about: dict[str, Any], events: Sequence[PortEvent], found: PortHistory) -> dict[str, Any]:
    unread = [{**port.to_json(), "attribute": attribute} for port, attribute in found.unread]
    listed = [each.to_json() for each in events]
    return {**about, "m_keys_comparable": found.keys_comparable, "events": listed, "unread": unread}


def _write_table(about: dict[str, Any], events: Sequence[PortEvent]) -> None:
    span = f"{counted(about['snapshots'], 'snapshot')}, {about['first']} to {about['last']}"
    if not events:
        write(f"no change in {span}")
        return
    write(f"{counted(len(events), 'change')} in {span}")
    last = None
    for each in sorted(events, key=lambda event: (event.port.key, event.taken)):
        if each.port.key != last:
            last = each.port.key
            write(heading_of(each.port.to_json()))
        write(f"  {each.since} .. {each.taken}  {in_colour(each.to_json())}")


def _say_unread(found: PortHistory) -> None:
    """Warn about attributes that the newest snapshot lacks: each attribute once, with its ports."""
    names = FoldedNames(port.to_json() for port, _ in found.unread)
    why = "was not read in the newest snapshot, so later changes are not known"
    for what, pairs in grouped(found.unread, lambda pair: pair[1]).items():
        unread = dict.fromkeys(port for port, _ in pairs)
        who = ", ".join(names.words(port.to_json() for port in unread))
        exits.warn(f"{counted(len(unread), 'port')}: {what} {why}: {who}", "error")


def _finish(found: PortHistory) -> int:
    if not found.keys_comparable:
        exits.warn(
            "M_Keys of some snapshots cannot be compared: their fingerprints were made with different secrets; only "
            "whether a key is set, ProtectBits and lease are compared"
        )
    _say_unread(found)
    return exits.NOT_COMPLETED if found.unread else exits.DONE
