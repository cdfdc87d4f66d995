"""What changed between two snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.exits import write, write_exact
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import load
from ibkeys.cli.render import IDENTITY, NOTHING, heading_of, schema, write_csv, write_json
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.showing import guid_of
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.fabric.compare import Comparison, Difference
    from ibkeys.fabric.history import Event
    from ibkeys.keys.pkey import InboundCheck
    from ibkeys.reach.difference import Change, Gain, ReachComparison
    from ibkeys.topology.model import Node, Port

_COLUMNS: Final = (*IDENTITY, "kind", "index", "pkey", "field", "before", "after", "delta")
_LISTED: Final = 8
"""Ports of a group that a table names."""


@command("diff")
@click.argument("a")
@click.argument("b", required=False)
@click.option("--reach", is_flag=True, help="Show pairs of ports that gained or lost reach, also one way.")
@click.option("--pairs", is_flag=True, help="With --reach: list every pair.")
@options.inbound_check
@options.format
@options.common
def diff(a: str, b: str | None, reach: bool, pairs: bool, inbound_check: InboundCheck, format: str) -> int:
    """Show what changed between two snapshots.

    A is the earlier, B the later one; A alone is a folder of `snapshot --into`, and its last two are taken. Cables that
    moved, hosts that were swapped, replaced HCAs, changed names; other nodes and links that came and went; P_Keys
    added, removed, moved to another index, memberships; M_Key, ProtectBits, lease, enforcement; counters. What could
    not be read in one of them is named and never shown as a change. Exit status 1 when anything differs.
    """
    from ibkeys.fabric.compare import compare
    from ibkeys.reach.difference import compare_reach

    a, b = (a, b) if b is not None else _last_two(Path(a))
    before, after = load(Path(a)), load(Path(b))
    if reach or pairs:
        gained = compare_reach(before.fabric, after.fabric, inbound_check=inbound_check)
        _write_reach({"a": a, "b": b, "inbound_check": inbound_check}, gained, pairs, format)
        why = "it, or a P_Key table that decides for it, was not read in both snapshots"
        unread = [f"{port}: {why}" for port in gained.unread]
        return _finish(unread, bool(gained.changes))
    found = compare(before, after)
    if not found.keys_comparable:
        exits.warn(
            "the M_Keys of these snapshots cannot be compared: their fingerprints are of different secrets; whether a "
            "key is set, its ProtectBits and lease are compared"
        )
    if hidden := found.keys_hidden:
        ports = f"port{'s' if len(hidden) != 1 else ''}"
        exits.warn(
            f"{len(hidden)} {ports} hid the M_Key in one of the snapshots or both ({_listed(hidden)}): whether a key "
            "changed there cannot be said; take both snapshots with the keys (--security-keys, --keystore)"
        )
    _write_comparison(a, b, found, format)
    return _finish([f"{each.port}: {each.what}: {each.why}" for each in found.unknown], found.differs)


def _last_two(folder: Path) -> tuple[str, str]:
    from ibkeys.fabric.snapshot_folder import SnapshotFolder

    if not folder.is_dir():
        raise UsageError(f"{folder}: is no folder of snapshots: give two snapshots, A and B, or such a folder")
    before, after = SnapshotFolder(folder).last(2)
    return str(before), str(after)


def _finish(unknown: Sequence[str], differs: bool) -> int:
    for line in unknown[:_LISTED]:
        exits.warn(line, "not compared")
    if len(unknown) > _LISTED:
        exits.warn(f"and {len(unknown) - _LISTED} more (all of them: -f json)", "not compared")
    if unknown:
        return exits.NOT_COMPLETED
    return exits.SAYS_NO if differs else exits.DONE


# --- what changed ----------------------------------------------------------------------------------------------------


def _write_comparison(a: str, b: str, found: Comparison, format: str) -> None:
    if format == "json":
        write_json("diff", {"a": a, "b": b, **_document(found)})
    elif format == "csv":
        moved = (row for each in found.moves.moved for row in each.rows())
        write_csv(_COLUMNS, chain(moved, (each.to_json() for each in found.changes)))
    else:
        _write_table(found)


def _document(found: Comparison) -> dict[str, Any]:
    return {
        "nodes": {
            "added": [_node(node) for node in found.nodes_added],
            "removed": [_node(node) for node in found.nodes_removed],
        },
        "links": {
            "added": [_link(ends) for ends in found.links_added],
            "removed": [_link(ends) for ends in found.links_removed],
        },
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


def _write_table(found: Comparison) -> None:
    if not found.differs:
        write("no difference" + (" in what was read" if found.unknown or found.keys_hidden else ""))
        return
    for move in found.moves.moved:
        write(str(move))
    for title, nodes in (("node added", found.nodes_added), ("node removed", found.nodes_removed)):
        for node in nodes:
            if node not in found.moves.nodes:
                name = exits.clean(node.description or "name not readable")
                write(f"{_title(title)}: {name} ({node.type_name} 0x{node.guid:016x})")
    for title, links in (("link added", found.links_added), ("link removed", found.links_removed)):
        for ends in links:
            if not found.moves.explains(ends):
                write(f"{_title(title)}: {_end(ends[0])} - {_end(ends[1])}")
    port: Port | None = None
    for each in found.changes:
        if each.port is not port:
            port = each.port
            write(heading_of(port.identity()))
        write(f"  {in_colour(each)}")


def _title(title: str) -> str:
    """Return ``node added`` in the colour of its last word."""
    return paint(title, title.rpartition(" ")[2])


def _end(port: Port) -> str:
    return exits.clean(f"{port.node.description or f'0x{port.node.guid:016x}'} port {port.num}")


def in_colour(each: Difference | Event) -> str:
    """Return `in_words` with the colour of what happened."""
    return paint(in_words(each), _ROLES.get(each.kind, "changed"))


_ROLES: Final[Mapping[str, str]] = {
    "appeared": "added",
    "disappeared": "removed",
    "pkey-added": "added",
    "pkey-removed": "removed",
}


def in_words(each: Difference | Event) -> str:
    """Return a change as one line without its port."""
    if each.kind in ("appeared", "disappeared"):
        return "the port is there" if each.kind == "appeared" else "the port is gone"
    if each.kind == "cable-moved":
        return exits.clean(f"cable moved: {each.before} -> {each.after}")
    if each.kind == "renamed":
        return exits.clean(f"renamed: {each.before!r} -> {each.after!r}")
    if each.kind == "pkey-added":
        return f"P_Key {each.after} added at index {each.index}"
    if each.kind == "pkey-removed":
        return f"P_Key {each.before} removed from index {each.index}"
    if each.kind == "pkey-moved":
        return f"P_Key {each.pkey} moved from index {each.before} to {each.after}: running QPs hold the old index"
    if each.kind == "membership":
        what = "raised to full" if int(each.after, 16) & 0x8000 else "lowered to limited"
        return f"membership {what} at index {each.index}: {each.before} -> {each.after}"
    if each.kind == "counter":
        return f"{_name(each)}: {each.before} -> {each.after} ({each.after - each.before:+d})"
    if each.kind == "m_key":
        return f"M_Key: {each.before} -> {each.after}"
    return f"{_name(each)}: {int(each.before)} -> {int(each.after)}"


def _name(each: Difference | Event) -> str:
    from ibkeys.mad.attributes import PortInfo

    return PortInfo.rows[each.field or each.kind].name


# --- who gained and lost reach ---------------------------------------------------------------------------------------


_IN_WORDS: Final[Mapping[Change, tuple[str, str]]] = {
    "gained": ("pair gained reach", "pairs gained reach"),
    "lost": ("pair lost reach", "pairs lost reach"),
    "one-way-gained": ("pair is one way now", "pairs are one way now"),
    "one-way-lost": ("pair is no longer one way", "pairs are no longer one way"),
}
"""What happened to one pair, to several."""
_REACH_ROLES: Final[Mapping[str, str]] = {"gained": "added", "lost": "removed"}
_ONE_WAY: Final = ("one-way-gained", "one-way-lost")


def _write_reach(about: dict[str, Any], found: ReachComparison, pairs: bool, format: str) -> None:
    counts = {change: found.count(change) for change in _IN_WORDS}
    if format == "json":
        changes = (_pair(*each) for each in _pairs(found)) if pairs else _groups(found)
        unread = [port.identity() for port in found.unread]
        totals = {change.replace("-", "_"): count for change, count in counts.items()}
        _write_reach_json({**about, "unknown": unread, "reach": totals}, changes)
    elif format == "csv":
        columns = ("change", "a_port_guid", "a_node_desc", "b_port_guid", "b_node_desc")
        write_csv(columns, (_flat(*each) for each in _pairs(found)))
    elif not found.changes:
        write("no pair of ports gained or lost reach" + (", as far as was read" if found.unread else ""))
    else:
        for change, count in counts.items():
            if count or change not in _ONE_WAY:
                write(paint(f"{count} {_IN_WORDS[change][count != 1]}", _REACH_ROLES.get(change, "changed")))
            if pairs:
                for each, one, other in _pairs(found):
                    if each == change:
                        write(f"  {_end(one)} {'->' if change in _ONE_WAY else '-'} {_end(other)}")
            else:
                for group in found.changes:
                    if group.change == change:
                        write(f"  {_names(group)}")


def _write_reach_json(document: dict[str, Any], changes: Iterable[dict[str, Any]]) -> None:
    """Write *document*, whose last item is "reach", with its "changes" as they are found: there may be very many."""
    import json

    head = json.dumps({"schema": schema("diff"), **document})
    write_exact(head.removesuffix("}}") + ', "changes": [')
    separator = ""
    for each in changes:
        write_exact(separator + json.dumps(each))
        separator = ","
    write_exact("]}}")


def _pairs(found: ReachComparison) -> Any:
    for each in found.changes:
        for one, other in combinations(each.a, 2) if each.a is each.b else product(each.a, each.b):
            yield each.change, one, other


def _pair(change: str, a: Port, b: Port) -> dict[str, Any]:
    return {"change": change, "a": a.identity(), "b": b.identity()}


def _flat(change: str, a: Port, b: Port) -> dict[str, Any]:
    one, other = a.identity(), b.identity()
    return {
        "change": change,
        "a_port_guid": one["port_guid"],
        "a_node_desc": one["node_desc"],
        "b_port_guid": other["port_guid"],
        "b_node_desc": other["node_desc"],
    }


def _groups(found: ReachComparison) -> Iterator[dict[str, Any]]:
    guid = cache(guid_of)  # a port is in many groups
    for each in found.changes:
        yield {
            "change": each.change,
            "pairs": each.pairs,
            "a": [guid(port) for port in each.a],
            "b": [guid(port) for port in each.b],
        }


def _names(group: Gain) -> str:
    if group.a is group.b:
        return f"{group.pairs} among {_listed(group.a)}"
    if group.change in _ONE_WAY:
        return f"{group.pairs} from {_listed(group.a)} to {_listed(group.b)}"
    return f"{group.pairs} between {_listed(group.a)} and {_listed(group.b)}"


def _listed(ports: Sequence[Port]) -> str:
    more = f" and {len(ports) - _LISTED} more" if len(ports) > _LISTED else ""
    return ", ".join(_end(port) for port in ports[:_LISTED]) + more or NOTHING
