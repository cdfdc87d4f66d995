"""The sequence common to all showing commands: read one port or every port, render, report what is missing, return the
exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from dataclasses import field as made
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.addresses import GivenPort, GivenSet, given_port, given_set
from ibkeys.cli.documents.field import Document, Field, JsonRow, parts_of
from ibkeys.cli.exits import write
from ibkeys.cli.listing.causes import say_by_cause
from ibkeys.cli.listing.filters import PortFilter
from ibkeys.cli.listing.folding import is_folded, write_folded
from ibkeys.cli.opening import load, open_source
from ibkeys.cli.options import ShownPorts, Where
from ibkeys.cli.render import heading_of, write_csv, write_details, write_json, write_table
from ibkeys.cli.screen.lines import keep_whole
from ibkeys.errors import IbkeysError, UsageError
from ibkeys.printable import counted, first_lines
from ibkeys.topology.names.folded import FoldedNames
from ibkeys.topology.port_id import IDENTITY

if TYPE_CHECKING:
    from ibkeys.discovery.wanted import OnFound, Wanted
    from ibkeys.fabric.readable_port import ReadablePort
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.reach.reach import Reach
    from ibkeys.reach.why import PacketCheck
    from ibkeys.scripting import Fabric
    from ibkeys.source import Source
    from ibkeys.topology.model import Topology, Trouble
    from ibkeys.topology.nodes import Port

LISTED_TROUBLES: Final = 10
"""More than this many ports that could not be read are only counted in tables; JSON lists all."""


@dataclass(slots=True)
class Sheet:
    """What was read, in the form of the JSON contract: the ports with their values, what failed, how many no link
    reaches. ``fabric``: what a sweep found.
    """

    ports: list[dict[str, Any]] = made(default_factory=list)
    errors: list[dict[str, Any]] = made(default_factory=list)
    unreached: int = 0
    is_sweep: bool = False
    fabric: Topology | None = None

    def document(self) -> dict[str, Any]:
        """Return the JSON document without its schema."""
        return {"ports": self.ports, "errors": self.errors, "unreached": self.unreached}


def read_sheet(
    asked: ShownPorts,
    read: Callable[[ReadablePort], object],
    values: Callable[[Port], dict[str, Any]],
    p_keys: bool = False,
    read_more: Callable[[Source, Sequence[Port]], None] = lambda source, ports: None,
    keeps: Callable[[Port], bool] | None = None,
) -> Sheet:
    """Read one port with *read*, or all by a sweep, and make each port's *values* of what was read.

    Filters choose among the ports of a sweep; so does a set of names or GUIDs (`given_set`). A host's name stands for
    all its nodes: of several each port is read.
    *read_more* reads what no sweep does, of the ports that are listed. *keeps*: a filter of this command alone. Raises
    what `Fabric.find_port` and the reads raise; a sweep goes on past what fails and lists it.
    """
    chosen, words = PortFilter(asked.listing, keeps), asked.words
    several = given_set(words, asked.kind) if not asked.every_port else None
    given = given_port(words, asked.kind, asked.every_port) if several is None else GivenPort(None, None)
    is_sweep = asked.every_port or several is not None
    if chosen.is_given and not is_sweep:
        raise UsageError("a filter selects among the ports of --all: add --all, or omit the filter")
    with open_source(asked.where) as source:
        if not is_sweep:
            ports, errors = _read_ports(source, given, read)
            sheet = Sheet([], errors, is_sweep=len(ports) > 1)
        else:
            from ibkeys.discovery.wanted import Wanted

            found = sweep_for(source, asked.where, chosen, Wanted(p_keys=p_keys), several)
            ports = chosen.kept(found)
            sheet = Sheet([], errors_of(found, chosen.concerns), found.unreached, True, found)
        read_more(source, ports)
        sheet.ports = [{**port.identity(), **values(port)} for port in ports]
    for row in sheet.ports if not source.holds_m_keys else ():
        if "m_key" in row:
            row["m_key"] = None  # that is a fingerprint
    return sheet


def _read_ports(
    source: Source, given: GivenPort, read: Callable[[ReadablePort], object]
) -> tuple[list[Port], list[dict[str, Any]]]:
    """Read the port that was *given*, or each port of a host with several nodes: there one that fails is listed.

    Return the ports and what could not be read.
    """
    from ibkeys.topology.find import SeveralNodes

    try:
        handle = source.find_port(*given)
    except SeveralNodes as several:
        if given.portnum is not None:
            raise
        return several.ports, [error for port in several.ports for error in _read_one(source, port, read)]
    read(handle)
    return [handle.port], _problems_of(handle.port)


def _read_one(source: Source, port: Port, read: Callable[[ReadablePort], object]) -> list[dict[str, Any]]:
    try:
        read(source.handle(port))
    except IbkeysError as error:
        return [{**port.identity(), "error": str(error)}]
    return _problems_of(port)


def sweep_for(
    source: Source, where: Where, chosen: PortFilter, wanted: Wanted, several: GivenSet | None = None
) -> Topology:
    """Return what a sweep finds, and let *chosen* know all that it needs to choose among it: *several* is ADDR. Raises
    AddressError for a name that is not there, and what `load` raises."""
    if chosen.since is None:
        found = sweep(source, where, wanted=replace(wanted, p_keys=wanted.p_keys or chosen.needs_tables))
    else:
        before = load(chosen.since)
        with progress_bar(where) as progress:
            now = source.take_snapshot(progress)
        say_notes(now.fabric)
        chosen.compare(before, now)
        found = now.fabric
    chosen.look_up(found, several=several)
    return found


def _problems_of(port: Port) -> list[dict[str, Any]]:
    """Return what a port that was read says about itself and cannot be, as the contract has errors."""
    from ibkeys.topology.plausible import node_problems, port_problems

    problems = node_problems(port.node.node_info) + port_problems(port)
    unsaid = () if port.node.says_capacity else ("PartitionCap",)  # a zero that no node said
    return [{**port.identity(), "error": text} for field, text in problems if field not in unsaid]


def sweep(source: Source, where: Where, p_keys: bool = False, wanted: Wanted | None = None) -> Topology:
    """Discover with a progress bar, and say what a reader should know. *wanted* stands in place of *p_keys*."""
    with progress_bar(where) as progress:
        found = source.sweep(p_keys=p_keys, progress=progress, wanted=wanted)
    say_notes(found)
    return found


def take_snapshot(fabric: Fabric, where: Where, make_secret: bool) -> Snapshot:
    """Take a snapshot with a progress bar, and say what `Fabric.take_snapshot` warns of."""
    heard = len(fabric.warnings)
    try:
        with progress_bar(where) as progress:
            return fabric.take_snapshot(progress, make_secret=make_secret)
    finally:
        exits.warn_each(fabric.warnings[heard:])


def say_notes(found: Topology) -> None:
    """Write on standard error the notes about the whole output; from now on no line breaks a node's name."""
    keep_whole(node.description for node in found.nodes)
    exits.warn_each(found.notes, "note")


def errors_of(found: Topology, counts: Callable[[Trouble], bool] = lambda trouble: True) -> list[dict[str, Any]]:
    """Return what could not be read, as the contract has it. *counts*: which of it."""
    return [{**trouble.port.identity(), "error": trouble.error} for trouble in found.troubles if counts(trouble)]


def finish(errors: Sequence[dict[str, Any]], format: str, names: FoldedNames | None = None, each: bool = False) -> int:
    """Say on standard error what could not be read, each cause once or for *each* port, and return the exit code.
    *names*: how ports are called, where more of them are known than those of *errors*."""
    if not errors:
        return exits.DONE
    say_by_cause([(error, error["error"]) for error in errors], "not read", format, names, each)
    what = "thing that should have been read was" if len(errors) == 1 else "things that should have been read were"
    exits.warn(f"the result is partial: {len(errors)} {what} not", "error")
    return exits.NOT_COMPLETED


def show(
    document: Document,
    sheet: Sheet,
    fields: Sequence[Field],
    asked: ShownPorts,
    in_table: Callable[[JsonRow], bool] = lambda row: True,
) -> int:
    """Render a sheet and return the exit code. *fields*: those of a port, without its identity. *in_table*: what the
    table of a sweep lists; ports of which all columns say the same are one row of it where that was asked for.

    Raises UsageError for a folding that does not go with the format.
    """
    format, folded = asked.format, is_folded(asked.listing, asked.format)
    names = FoldedNames([*sheet.ports, *sheet.errors], sheet.fabric)
    if format == "json":
        write_json(document, sheet.document())
    elif format == "csv":
        columns = [column for field in fields for column in parts_of(field) or (field,)]
        write_csv([*IDENTITY, *(each.name for each in columns)], sheet.ports)
    elif sheet.is_sweep:
        write_ports(fields, [row for row in sheet.ports if in_table(row)], names, folded)
        write_unreached(sheet.unreached)
    else:
        shown = [field for field in fields if field.title]
        for row in sheet.ports:
            write_details(heading_of(row), ((field.title, field.in_words(row)) for field in shown))
    return finish(sheet.errors, format, names, asked.listing.each)


def write_ports(fields: Sequence[Field], rows: Sequence[JsonRow], names: FoldedNames, folded: bool) -> None:
    """Write a table of ports, with those *fields* that have a title: a row for each port, or *folded* one for all that
    have the same values."""
    shown = [field for field in fields if field.title]
    titles = [field.short_title for field in shown]
    if folded:
        write_folded(names, rows, titles, lambda row: [field.folded_cell(row) for field in shown])
    else:
        write_table([*NAMING, *titles], ([*naming(row), *(field.cell(row) for field in shown)] for row in rows))


NAMING: Final = ("Node", "GUID", "Port", "LID")
"""Titles of the columns that name a port."""


def naming(row: JsonRow) -> list[Any]:
    """Return the cells that name a port. No line breaks its node's name."""
    keep_whole([row["node_desc"]])
    return [row["node_desc"], row["node_guid"], row["port"], row["lid"]]


def short_name(port: Port) -> str:
    """Return a port's node by name, with the number where the node has several ports of its own."""
    node = port.node
    several = not node.is_switch and node.num_ports > 1
    return (node.description or f"0x{node.guid:016x}") + (f" port {port.num}" if several else "")


def guid_of(port: Port) -> str | None:
    """Return a port's GUID as the contract has it."""
    guid = port.port_guid
    return f"0x{guid:016x}" if guid else None


PEER_PARTS: Final = ("node_guid", "node_desc", "node_type", "port")
"""What names the far end of a link."""


MAY_STOP_LISTED: Final = 8
"""Switch ports between switches that are named in words."""


def peer_document(port: Port) -> dict[str, Any] | None:
    """Return the far end of a port's link as the contract has it; None if there is none."""
    peer = port.peer
    if peer is None:
        return None
    document = peer.identity()
    return {part: document[part] for part in PEER_PARTS}


def values_of(read: object | None, names: Iterable[str]) -> dict[str, Any]:
    """Return the attributes *names* of what was *read*, as the contract has them; None of what was not read."""
    return {name: getattr(read, name) if read is not None else None for name in names}


def stop_document(stop: PacketCheck) -> dict[str, Any]:
    """Return a switch port that stops packets, as the contract has it."""
    return {**stop.port.identity(), "direction": stop.direction, "pkey": str(stop.p_key)}


def not_active_document(end: Port) -> dict[str, Any]:
    """Return an end of a link that is not Active, as the contract has it."""
    info = end.port_info
    return {**end.identity(), "state": info.port_state if info is not None else None}


def note_stops_between_switches(reach: Reach, chosen: Collection[int] = ()) -> None:
    """Say which ports on links between switches stop packets with which P_Keys (*chosen*: of these partitions), and of
    which that was not read."""
    unread = reach.unread_between_switches
    lines = [
        f"{port} is on a link between switches and stops packets with {', '.join(map(str, stopped))} "
        f"({direction} enforcement): on routes through it they are dropped, or corrupted and passed on"
        for port, direction, stopped in reach.stopped_between_switches(chosen)
    ]
    lines += [f"{port} is on a link between switches, and what it stops could not be read" for port in unread]
    more = "and {} (all of them: ibkeys matrix -f json)"
    said = first_lines(lines, MAY_STOP_LISTED, lambda left: more.format(counted(left, "more such port")))
    exits.warn_each(said, "note")


def write_unreached(unreached: int) -> None:
    """Say how many ports no link of this subnet reaches; they may have one on another."""
    if unreached:
        write(f"({counted(unreached, 'CA or router port')} not read: not linked to this subnet, or not at all)")


@contextmanager
def progress_bar(where: Where) -> Iterator[OnFound | None]:
    """Yield what a sweep tells its progress to; None if nobody watches."""
    from ibkeys.cli.screen.progress import ProgressLine

    with ProgressLine(not where.debug) as progress:
        progress.show("reading the fabric")
        told = progress.is_drawing
        yield (lambda nodes, ports: progress.show(f"reading: {nodes} nodes, {ports} ports")) if told else None
