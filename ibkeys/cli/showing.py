"""The sequence common to the commands that show ports: read one port or all, write them, report errors, return an exit
code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from dataclasses import field as made
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.addresses import NodeSet, PortArguments, node_set, port_arguments
from ibkeys.cli.documents.field import Document, Field, JsonRow, parts_of
from ibkeys.cli.exits import write
from ibkeys.cli.listing.causes import say_by_cause
from ibkeys.cli.listing.filters import PortFilter
from ibkeys.cli.listing.folding import write_folded
from ibkeys.cli.listing.partition_names import names_in
from ibkeys.cli.opening import load, open_source
from ibkeys.cli.options import ShowPortsOptions, Where
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
    from ibkeys.partitions.model import Policy
    from ibkeys.reach.reach import Reach
    from ibkeys.reach.why import PacketCheck
    from ibkeys.scripting import Fabric
    from ibkeys.source import Source
    from ibkeys.topology.model import Topology, Trouble
    from ibkeys.topology.nodes import Port

LISTED_TROUBLES: Final = 10
"""Most causes of unread ports in a table; further ones are only counted. JSON lists all."""


ROUTES_DECIDE: Final = "the routes decide, which were not read, or not all (--routes reads the forwarding tables)"
"""The end of a message about pairs for which a port between switches decides."""


@dataclass(slots=True)
class PortListing:
    """The ports that a command has read, each with its values in the form of the JSON document.

    ``errors``: the reads that failed. ``unreached``: how many CA and router ports no link of this subnet reaches.
    ``is_sweep``: whether the ports are shown as a table. ``fabric``: the topology, if the ports are from a sweep.
    """

    ports: list[dict[str, Any]] = made(default_factory=list)
    errors: list[dict[str, Any]] = made(default_factory=list)
    unreached: int = 0
    is_sweep: bool = False
    fabric: Topology | None = None

    def document(self) -> dict[str, Any]:
        """Return the JSON document without its schema."""
        return {"ports": self.ports, "errors": self.errors, "unreached": self.unreached}


def read_port_listing(
    command_options: ShowPortsOptions,
    read: Callable[[ReadablePort], object],
    values: Callable[[Port], dict[str, Any]],
    policy_of: Callable[[Source, bool], Policy | None],
    p_keys: bool = False,
    read_more: Callable[[Source, Sequence[Port]], None] = lambda source, ports: None,
    keeps: Callable[[Port], bool] | None = None,
) -> PortListing:
    """Read one port, or all ports by a sweep, and return the ports with their values.

    *read*: reads one port. *values*: returns the values of a port for the document. *policy_of*: returns the policy
    whose names --partition takes. *p_keys*: whether a sweep reads P_Key tables. *read_more*: reads more of the listed
    ports than a sweep does. *keeps*: a filter that only this command has.

    Filters, and a set of names or GUIDs (`node_set`), choose among the ports of a sweep. A host's name stands for all
    of its nodes, and each of their ports is read. Raises UsageError for filters without a sweep, and for a single port
    the errors of `Fabric.find_port` and of the read. With several ports, failed reads are listed instead.
    """
    words = command_options.words
    several = node_set(words, command_options.kind) if not command_options.every_port else None
    named_port = (
        port_arguments(words, command_options.kind, command_options.every_port)
        if several is None
        else PortArguments(None, None)
    )
    is_sweep = command_options.every_port or several is not None
    if not is_sweep and (keeps is not None or command_options.listing.is_given):
        raise UsageError("a filter selects among the ports of --all: add --all, or omit the filter")
    filters = PortFilter(command_options.listing, keeps) if is_sweep else None
    with open_source(command_options.where) as source:
        if filters is None:
            ports, errors = _read_ports(source, named_port, read)
            port_listing = PortListing([], errors, is_sweep=len(ports) > 1)
        else:
            from ibkeys.discovery.wanted import Wanted

            if filters.partition_names:
                filters.take_partitions(names_in(policy_of(source, bool(command_options.where.verbose))))
            topology = sweep_for(source, command_options.where, filters, Wanted(p_keys=p_keys), several)
            ports = filters.chosen_ports(topology)
            port_listing = PortListing([], errors_of(topology, filters.concerns), topology.unreached, True, topology)
        read_more(source, ports)
        port_listing.ports = [{**port.identity(), **values(port)} for port in ports]
    for row in port_listing.ports if not source.holds_m_keys else ():
        if "m_key" in row:
            row["m_key"] = None  # a snapshot without M_Keys has a fingerprint here
    return port_listing


def _read_ports(
    source: Source, named_port: PortArguments, read: Callable[[ReadablePort], object]
) -> tuple[list[Port], list[dict[str, Any]]]:
    """Read the port *named_port*, or each port of a host with several nodes. Return the ports, and the errors.

    Raises the error of reading a single port. If there are several ports, their errors are returned instead.
    """
    from ibkeys.topology.find import SeveralNodes

    try:
        handle = source.find_port(*named_port)
    except SeveralNodes as several:
        if named_port.portnum is not None:
            raise
        return several.ports, [error for port in several.ports for error in _read_port(source, port, read)]
    read(handle)
    return [handle.port], _problems_of(handle.port)


def _read_port(source: Source, port: Port, read: Callable[[ReadablePort], object]) -> list[dict[str, Any]]:
    try:
        read(source.handle(port))
    except IbkeysError as error:
        return [{**port.identity(), "error": str(error)}]
    return _problems_of(port)


def sweep_for(
    source: Source, where: Where, filters: PortFilter, wanted: Wanted, several: NodeSet | None = None
) -> Topology:
    """Return the topology of a sweep, and prepare *filters* to choose among its ports.

    *wanted*: the data to read. *several*: ADDR, if it stands for several nodes. Raises AddressError for a name that no
    node has, UsageError for a partition's name that was not looked up, and the errors of `load` and of a sweep.
    """
    if filters.since is None:
        topology = sweep(source, where, wanted=replace(wanted, p_keys=wanted.p_keys or filters.needs_tables))
    else:
        before = load(filters.since)
        with progress_bar(where) as progress:
            now = source.take_snapshot(progress)
        say_notes(now.fabric)
        filters.compare(before, now)
        topology = now.fabric
    filters.look_up(topology, several=several)
    return topology


def _problems_of(port: Port) -> list[dict[str, Any]]:
    """Return the impossible values that a port reports about itself, as errors of the document."""
    from ibkeys.topology.impossible_values import node_problems, port_problems

    problems = node_problems(port.node.node_info) + port_problems(port)
    # In a node from imported files that lack PartitionCap it is 0, which the node did not report.
    not_reported = () if port.node.says_capacity else ("PartitionCap",)
    return [{**port.identity(), "error": text} for field, text in problems if field not in not_reported]


def sweep(source: Source, where: Where, p_keys: bool = False, wanted: Wanted | None = None) -> Topology:
    """Sweep the fabric with a progress bar, write the notes of the sweep, and return the topology.

    *wanted*: the data to read; None: only P_Key tables are added, if *p_keys*.
    """
    with progress_bar(where) as progress:
        topology = source.sweep(p_keys=p_keys, progress=progress, wanted=wanted)
    say_notes(topology)
    return topology


def take_snapshot(fabric: Fabric, where: Where, make_secret: bool) -> Snapshot:
    """Take a snapshot with a progress bar, and write the warnings of `Fabric.take_snapshot`.

    *make_secret*: whether to create the secret for fingerprints of M_Keys if there is none.
    """
    already_written = len(fabric.warnings)
    try:
        with progress_bar(where) as progress:
            return fabric.take_snapshot(progress, make_secret=make_secret)
    finally:
        exits.warn_each(fabric.warnings[already_written:])


def say_notes(topology: Topology) -> None:
    """Write the notes of a topology to standard error.

    This also registers the names of its nodes: no later line is folded within one of them.
    """
    keep_whole(node.description for node in topology.nodes)
    exits.warn_each(topology.notes, "note")


def errors_of(topology: Topology, counts: Callable[[Trouble], bool] = lambda trouble: True) -> list[dict[str, Any]]:
    """Return the failed reads as errors of the document. *counts*: returns whether to include a trouble."""
    return [{**trouble.port.identity(), "error": trouble.error} for trouble in topology.troubles if counts(trouble)]


def finish(errors: Sequence[dict[str, Any]], format: str, names: FoldedNames | None = None, each: bool = False) -> int:
    """Write failed reads to standard error, and return the exit code.

    Each cause is written once, or for each port with *each*. *names*: the folded names of ports; None: they are made
    from *errors*.
    """
    if not errors:
        return exits.DONE
    say_by_cause([(error, error["error"]) for error in errors], "not read", format, names, each)
    what = "thing that should have been read was" if len(errors) == 1 else "things that should have been read were"
    exits.warn(f"the result is partial: {len(errors)} {what} not", "error")
    return exits.NOT_COMPLETED


def show(
    document: Document,
    port_listing: PortListing,
    fields: Sequence[Field],
    command_options: ShowPortsOptions,
    in_table: Callable[[JsonRow], bool] = lambda row: True,
) -> int:
    """Write *port_listing* in the format of the options, and return the exit code.

    *fields*: the fields of a port, without its identity. *in_table*: returns whether the table of a sweep lists a row.
    Raises UsageError for a folding option that does not go with the format.
    """
    format, folded = command_options.format, command_options.listing.is_folded(command_options.format)
    names = FoldedNames([*port_listing.ports, *port_listing.errors], port_listing.fabric)
    if format == "json":
        write_json(document, port_listing.document())
    elif format == "csv":
        columns = [column for field in fields for column in parts_of(field) or (field,)]
        write_csv([*IDENTITY, *(each.name for each in columns)], port_listing.ports)
    elif port_listing.is_sweep:
        write_ports(fields, [row for row in port_listing.ports if in_table(row)], names, folded)
        write_unreached(port_listing.unreached)
    else:
        titled = [field for field in fields if field.title]
        for row in port_listing.ports:
            write_details(heading_of(row), ((field.title, field.in_words(row)) for field in titled))
    return finish(port_listing.errors, format, names, command_options.listing.each)


def write_ports(fields: Sequence[Field], rows: Sequence[JsonRow], names: FoldedNames, folded: bool) -> None:
    """Write a table of ports with the *fields* that have a title.

    *folded*: whether ports with equal values share a row; else each port has a row.
    """
    titled = [field for field in fields if field.title]
    titles = [field.short_title for field in titled]
    if folded:
        write_folded(names, rows, titles, lambda row: [field.folded_cell(row) for field in titled])
    else:
        write_table(
            [*NAME_TITLES, *titles], ([*name_cells(row), *(field.cell(row) for field in titled)] for row in rows)
        )


NAME_TITLES: Final = ("Node", "GUID", "Port", "LID")
"""Titles of the columns that name a port."""


def name_cells(row: JsonRow) -> list[Any]:
    """Return the cells that name a port. This registers the name of its node: no later line is folded within it."""
    keep_whole([row["node_desc"]])
    return [row["node_desc"], row["node_guid"], row["port"], row["lid"]]


def guid_of(port: Port) -> str | None:
    """Return a port's GUID as text of the document; None if it was not read."""
    guid = port.port_guid
    return f"0x{guid:016x}" if guid else None


PEER_PARTS: Final = ("node_guid", "node_desc", "node_type", "port")
"""The fields that name the far end of a link."""


MAY_STOP_LISTED: Final = 8
"""Most switch ports on links between switches that a text names."""


def peer_document(port: Port) -> dict[str, Any] | None:
    """Return the far end of a port's link for the document; None if there is none."""
    peer = port.peer
    if peer is None:
        return None
    document = peer.identity()
    return {part: document[part] for part in PEER_PARTS}


def values_of(source: object | None, names: Iterable[str]) -> dict[str, Any]:
    """Return the attributes *names* of the object *source* for the document; each is None if *source* is None."""
    return {name: getattr(source, name) if source is not None else None for name in names}


def stop_document(stop: PacketCheck) -> dict[str, Any]:
    """Return a switch port that stops packets, for the document."""
    return {**stop.port.identity(), "direction": stop.direction, "pkey": str(stop.p_key)}


def not_active_document(end: Port) -> dict[str, Any]:
    """Return the end of a link that is not Active, for the document."""
    info = end.port_info
    return {**end.identity(), "state": info.port_state if info is not None else None}


def note_stops_between_switches(reach: Reach, chosen: Collection[int] = ()) -> None:
    """Write notes about ports on links between switches: the ports that stop packets, and the ports that were not read.

    *chosen*: only packets with P_Keys of these partitions count; empty: all.
    """
    unread = reach.unread_between_switches
    lines = [
        f"{port} is on a link between switches and stops packets with {', '.join(map(str, stopped))} "
        f"({direction} enforcement): on routes through it they are dropped, or corrupted and passed on"
        for port, direction, stopped in reach.stopped_between_switches(chosen)
    ]
    lines += [f"{port} is on a link between switches, and what it stops could not be read" for port in unread]
    more = "and {} (all of them: ibkeys matrix -f json)"
    listed = first_lines(lines, MAY_STOP_LISTED, lambda left: more.format(counted(left, "more such port")))
    exits.warn_each(listed, "note")


def write_unreached(unreached: int, always: bool = False) -> None:
    """Write the number of ports that no link of this subnet reaches, if there are any: with -v, or *always*. They may
    be linked to another subnet; ports without a cable are normal on hosts with several ports, so `discover` alone
    always names them."""
    if unreached and (always or exits.explains_all()):
        write(f"({counted(unreached, 'CA or router port')} not read: not linked, or linked to another subnet)")


@contextmanager
def progress_bar(where: Where) -> Iterator[OnFound | None]:
    """Yield the callback for the progress of a sweep; None if no progress is drawn."""
    from ibkeys.cli.screen.progress import ProgressLine

    with ProgressLine(not where.debug) as progress:
        progress.show("reading the fabric")
        is_drawn = progress.is_drawing
        yield (lambda nodes, ports: progress.show(f"reading: {nodes} nodes, {ports} ports")) if is_drawn else None
