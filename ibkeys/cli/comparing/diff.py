"""The command `diff`: changes between two snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.comparing.reach import what_was_not_compared, write_reach
from ibkeys.cli.comparing.replaced import note_replaced
from ibkeys.cli.comparing.words import in_colour
from ibkeys.cli.documents.comparing import DIFF
from ibkeys.cli.documents.field import JsonRow
from ibkeys.cli.exits import write, write_each
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.filters import PortFilter
from ibkeys.cli.listing.folding import indented
from ibkeys.cli.opening import load
from ibkeys.cli.options import Listing
from ibkeys.cli.render import heading_of, write_document
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.sm.policy import partition_names_here
from ibkeys.errors import UsageError
from ibkeys.grouping import grouped
from ibkeys.printable import counted, first_lines
from ibkeys.topology.matching import match_key
from ibkeys.topology.moves import move_in_words
from ibkeys.topology.names.folded import FoldedNames
from ibkeys.topology.port_id import LookedAt

if TYPE_CHECKING:
    from ibkeys.fabric.compare import Comparison
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.keys.pkey import InboundCheck
    from ibkeys.topology.matching import MatchKey
    from ibkeys.topology.model import Topology
    from ibkeys.topology.moves import UnknownFact
    from ibkeys.topology.nodes import Node, Port

_LISTED: Final = 8
"""Most lines about values that were not compared."""
_HOW: Final = ("added", "removed")
"""How nodes and links differ: names in the document, and words of the text."""


@command("diff")
@click.argument("a")
@click.argument("b", required=False)
@options.flag("--reach", help="Show pairs of ports that gained or lost reachability, in one or both directions.")
@options.flag("--pairs", help="With --reach: list every pair.")
@options.inbound_check
@options.format
@options.listing_as_is
@options.common
def diff(
    a: str, b: str | None, reach: bool, pairs: bool, inbound_check: InboundCheck, listing: Listing, format: str
) -> int:
    """Show what changed between two snapshots.

    A is the earlier and B the later snapshot. If only A is given, it is a folder written by `snapshot --into`, and its
    last two snapshots are compared. Shows moved cables, swapped hosts, replaced HCAs and changed names, and other nodes
    and links that appeared or disappeared. Also shows P_Keys that were added, removed or moved to another index, and
    changes of memberships, M_Key, ProtectBits, lease, enforcement and counters. Data that is missing in one snapshot is
    named and never shown as a change. Exit status 1 when anything differs.
    """
    from ibkeys.fabric.compare import compare
    from ibkeys.reach.difference import compare_reach

    folded, chosen = listing.is_folded(format), PortFilter(listing)
    if chosen.is_given and (reach or pairs):
        raise UsageError("a filter selects changes at ports, so it cannot be combined with --reach or --pairs")
    if chosen.partition_names:
        chosen.take_partitions(partition_names_here())
    a, b = (a, b) if b is not None else _last_two(Path(a))
    before, after = load(Path(a)), load(Path(b))
    if reach or pairs:
        names = _names(before, after)
        gained = compare_reach(before.fabric, after.fabric, inbound_check=inbound_check)
        write_reach({"a": a, "b": b, "inbound_check": inbound_check}, gained, names, pairs, format)
        return _finish(what_was_not_compared(gained), names, gained.differs, folded)
    found, looked_at = compare(before, after), None
    names = _names(before, after, None if found.is_recabled else after.fabric)
    if chosen.is_given:
        wanted, looked_at = _wanted(before, after, chosen)
        found = found.only(wanted)
    if not found.keys_comparable:
        exits.warn(
            "the M_Keys of these snapshots cannot be compared: their fingerprints were made with different secrets; "
            "only whether a key is set, ProtectBits and lease are compared"
        )
    if hidden := found.keys_hidden:
        listed = ", ".join(names.words(port.identity() for port in hidden))
        exits.warn(
            f"{counted(len(hidden), 'port')} hid the M_Key in one of the snapshots or both ({listed}): it is not known "
            "whether a key changed there; take both snapshots with the keys (--security-keys, --keystore)"
        )
    about = {"a": a, "b": b, "looked_at": looked_at.to_json() if looked_at is not None else None}
    document = {**about, **_document(found)}
    moved = (row for each in found.moves.moved for row in each.rows())
    if not write_document(format, DIFF, lambda: document, chain(moved, document["changes"])):
        if looked_at is not None:
            write(str(looked_at))
        nodes = FoldedNames(_as_one_port(_node(node)) for each in (before, after) for node in each.fabric.nodes)
        write_each(_lines(document, names, nodes, folded))
    note_replaced(found.moves.moved, a)
    return _finish(_unknown(found.unknown), names, found.differs, folded)


def _last_two(folder: Path) -> tuple[str, str]:
    from ibkeys.fabric.snapshot_folder import SnapshotFolder

    if not folder.is_dir():
        raise UsageError(f"{folder}: is not a folder of snapshots: give two snapshots, A and B, or such a folder")
    before, after = SnapshotFolder(folder).last(2)
    return str(before), str(after)


def _names(before: Snapshot, after: Snapshot, fabric: Topology | None = None) -> FoldedNames:
    """Return the names of the ports of both snapshots.

    *fabric*: a topology with the links of both; None if there is none.
    """
    return FoldedNames((port.identity() for each in (before, after) for port in each.fabric.ports()), fabric)


def _wanted(before: Snapshot, after: Snapshot, chosen: PortFilter) -> tuple[set[MatchKey], LookedAt]:
    """Return the ports that the filter keeps in either snapshot, and how many of all ports they are."""
    chosen.look_up(before.fabric, after.fabric)
    ports = [port for each in (before, after) for port in each.fabric.ports()]
    wanted = {match_key(port) for port in ports if chosen.keeps(port)}
    return wanted, LookedAt(len(wanted), len({match_key(port) for port in ports}))


def _unknown(unknown: Iterable[UnknownFact]) -> dict[str, list[Port]]:
    """Return the ports of comparisons that could not be made, by the value and the reason, in words."""
    by_reason = grouped(unknown, lambda each: f"{each.what}: {each.why}")
    return {what: [each.port for each in alike] for what, alike in by_reason.items()}


def _finish(unknown: Mapping[str, Sequence[Port]], names: FoldedNames, differs: bool, folded: bool) -> int:
    """Warn about values that were not compared, and return the exit code."""
    lines = [
        f"{who}: {what}"
        for what, ports in unknown.items()
        for who in ([", ".join(names.words(port.identity() for port in ports))] if folded and ports else ports)
    ]
    exits.warn_each(first_lines(lines, _LISTED, "and {} more (all of them: -f json)".format), "not compared")
    if lines:
        return exits.NOT_COMPLETED
    return exits.SAYS_NO if differs else exits.DONE


# --- documents -------------------------------------------------------------------------------------------------------


def _document(found: Comparison) -> dict[str, Any]:
    def nodes(some: Iterable[Node]) -> list[dict[str, Any]]:
        return [{**_node(node), "explained": node in found.moves.nodes} for node in some]

    def links(some: Iterable[tuple[Port, Port]]) -> list[dict[str, Any]]:
        return [{**_link(ends), "explained": found.moves.explains(ends)} for ends in some]

    return {
        "nodes": {"added": nodes(found.nodes_added), "removed": nodes(found.nodes_removed)},
        "links": {"added": links(found.links_added), "removed": links(found.links_removed)},
        "moved": [each.to_json() for each in found.moves.moved],
        "changes": [each.to_json() for each in found.changes],
        "unknown": [{**each.port.identity(), "what": each.what, "why": each.why} for each in found.unknown],
        "m_keys_comparable": found.keys_comparable,
        "m_keys_hidden": [port.identity() for port in found.keys_hidden],
    }


def _node(node: Node) -> dict[str, Any]:
    first = next((port for _, port in sorted(node.ports.items()) if port.is_end_port), None)
    return (first or node.port(0 if node.is_switch else 1)).identity()


def _link(ends: tuple[Port, Port]) -> dict[str, Any]:
    return {"a": ends[0].identity(), "b": ends[1].identity()}


# --- in words --------------------------------------------------------------------------------------------------------


def _lines(document: JsonRow, names: FoldedNames, nodes: FoldedNames, folded: bool) -> Iterator[str]:
    """Yield lines for the changes in *document*. *folded*: ports with the same change share an entry.

    *names*, *nodes*: the names of ports and of nodes.
    """
    came_and_went = [document[what][how] for what in ("nodes", "links") for how in _HOW]
    if not any((*came_and_went, document["moved"], document["changes"])):
        yield "no difference" + (" in what was read" if document["unknown"] or document["m_keys_hidden"] else "")
        return
    yield from map(move_in_words, document["moved"])
    for how in _HOW:
        yield from _node_lines(how, _unexplained(document["nodes"][how]), nodes, folded)
    for how in _HOW:
        for link in _unexplained(document["links"][how]):
            yield f"{paint(f'link {how}', how)}: {names.port(link['a'])} - {names.port(link['b'])}"
    yield from _folded(document["changes"], names) if folded else _each(document["changes"])


def _unexplained(rows: Iterable[JsonRow]) -> list[JsonRow]:
    """Return the nodes or links that were added or removed. Nodes and links that a move explains are left out."""
    return [row for row in rows if not row["explained"]]


def _node_lines(how: str, rows: Sequence[JsonRow], names: FoldedNames, folded: bool) -> Iterator[str]:
    """Yield lines for nodes that were added or removed.

    One line for each; if *folded*, one for each node type, with the *names* below it.
    """
    for kind, alike in grouped(rows, lambda row: row["node_type" if folded else "node_guid"]).items():
        if len(alike) == 1:
            (row,) = alike
            name = exits.clean(row["node_desc"] or "name not readable")
            yield f"{paint(f'node {how}', how)}: {name} ({row['node_type'] or 'node'} {row['node_guid']})"
        else:
            yield f"{paint(f'nodes {how}', how)}: {len(alike)} {kind or 'of no known type'}"
            yield from indented(names, map(_as_one_port, alike))


def _as_one_port(node: JsonRow) -> dict[str, Any]:
    """Return a node as the row of a port whose number is not written."""
    return {"node_desc": node["node_desc"], "node_guid": node["node_guid"], "node_type": "ca", "port": 1}


def _each(changes: Iterable[JsonRow]) -> Iterator[str]:
    """Yield a heading for each port, and its changes below it."""
    heading = ""
    for row in changes:
        if heading_of(row) != heading:
            heading = heading_of(row)
            yield heading
        yield f"  {in_colour(row)}"


def _folded(changes: Iterable[JsonRow], names: FoldedNames) -> Iterator[str]:
    """Yield each change once, with its ports below it."""
    for change, changed in grouped(changes, in_colour).items():
        yield f"{change}: {counted(len(changed), 'port')}"
        yield from indented(names, changed)
