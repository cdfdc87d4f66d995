"""The command `matrix`: partitions with their members, and which pairs of ports can talk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.reach import MATRIX
from ibkeys.cli.exits import write, write_each, write_exact
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.filters import PortFilter
from ibkeys.cli.listing.folding import indented
from ibkeys.cli.listing.partition_names import is_number, names_in, partition_number
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import Filters, Where
from ibkeys.cli.partitions.matrix_pairs import ChosenPorts, counts_document, missing_data, write_pairs
from ibkeys.cli.render import table_lines, write_document
from ibkeys.cli.showing import ROUTES_DECIDE, errors_of, finish, note_stops_between_switches, stop_document, sweep_for
from ibkeys.cli.sm.policy import is_opensm, master_policy, policy_if_known, read_accepted
from ibkeys.cli.sm.ufm import UfmOptions, ufm_names, ufm_options
from ibkeys.cli.types import parse_p_key
from ibkeys.errors import UsageError
from ibkeys.printable import counted
from ibkeys.topology.forwarding import lids_of
from ibkeys.topology.names.folded import FoldedNames
from ibkeys.topology.port_id import LookedAt

if TYPE_CHECKING:
    from ibkeys.audit.pictures.fabric_map import Colouring
    from ibkeys.keys.pkey import InboundCheck
    from ibkeys.reach.reach import PartitionPorts, Reach
    from ibkeys.topology.model import Topology

_LISTED: Final = 8
"""Most lines with members of one partition, in a table of all partitions."""


@dataclass(frozen=True, slots=True)
class _MatrixData:
    """The data to show.

    ``memberships``: the partitions to show. ``names``: the names of partitions. ``chosen``: the partitions of
    --partition; empty: all. ``part``: the ports that a filter chooses; None: all.
    """

    topology: Topology
    reach: Reach
    memberships: Sequence[PartitionPorts]
    names: Mapping[int, str]
    chosen: set[int]
    part: ChosenPorts | None
    color_by: Colouring


@command("matrix")
@click.option(
    "--partition",
    "partitions",
    metavar="PARTITION",
    multiple=True,
    help="Only this partition, by P_Key or name; repeatable.",
)
@options.flag("--pairs", help="List every pair of ports that can talk, also in one direction only, with the P_Keys.")
@options.partition_names
@options.inbound_check
@options.format_of(
    ["table", "json", "csv", "svg", "html", "map", "dot"],
    "Form of the output; svg, html, map and dot are pictures.  [default: table]",
)
@options.option(
    "--color-by",
    type=click.Choice(["partition", "level"]),
    default="partition",
    help="What the colours of -f map show: P_Keys, or M_Key and ProtectBits.  [default: partition]",
)
@options.filters_but_partition
@ufm_options
@options.reading
def matrix(
    where: Where,
    ufm: UfmOptions,
    filters: Filters,
    partitions: tuple[str, ...],
    pairs: bool,
    policy: str | None,
    inbound_check: InboundCheck,
    format: str,
    color_by: Colouring,
) -> int:
    """Show each partition's members, and who can talk to whom.

    The result is computed from the current P_Key tables and from the enforcement of the leaf switch ports; a policy
    file only adds names. A port with the full and the limited P_Key of a partition is in both lists and acts as a full
    member. A filter selects ports: it shows their partitions with all members, and the pairs that include one of them.
    Exits 1 when a partition named with --partition has no member. That
    tenants are isolated: audit --check PK005 --policy FILE proves it, or names the pairs that can talk.
    """
    from ibkeys.discovery.wanted import Wanted
    from ibkeys.reach.reach import Reach

    port_filter = PortFilter(filters)
    if pairs and format in _PICTURES:
        raise UsageError(f"--pairs is a list; -f {format} is a picture")
    if port_filter.is_given and format in _PICTURES:
        raise UsageError(f"-f {format} is a picture of all ports: filters work only with table, json and csv")
    names = _names_of(policy, ufm)
    for text in filter(is_number, partitions):
        parse_p_key(text)  # an invalid one is refused before the fabric is opened
    with open_source(where) as source:
        if is_opensm(policy):
            names = names_in(master_policy(source).policy)
        elif policy is None and (known := policy_if_known(source, bool(where.verbose))) is not None:
            names = names_in(known)
        chosen = {partition_number(text, names) for text in partitions}
        topology = sweep_for(source, where, port_filter, Wanted(p_keys=True))
    reach = Reach(topology, inbound_check=inbound_check)
    part = _part(topology, port_filter)
    memberships = [each for each in reach.memberships() if _is_shown(each, chosen, part)]
    data = _MatrixData(topology, reach, memberships, names, chosen, part, color_by)
    if format in _PICTURES:
        write_exact(_PICTURES[format](data).rstrip("\n"))
    elif pairs:
        write_pairs(topology, reach, chosen, part, format)
    elif not write_document(format, MATRIX, lambda: _document(data), _csv_rows(data)):
        _write_table(data)
    empty = sorted(chosen - {each.partition for each in memberships})
    who = "no port" if part is None else "no port that the filter selects"
    for partition in empty:
        exits.note(f"{who} is in partition 0x{partition:04x}" + (", as far as was read" if reach.unread else ""))
    note_stops_between_switches(reach, chosen)
    if inactive := len(reach.not_active):
        one, many = ("has a link that is", "that link were"), ("have links that are", "those links were")
        have, were = one if inactive == 1 else many
        exits.note(f"{counted(inactive, 'end port')} {have} not Active: the pairs are shown as if {were} Active")
    if inactive := _inactive_between_switches(topology):
        are, were = ("is", "it were") if inactive == 1 else ("are", "they were")
        exits.note(
            f"{counted(inactive, 'link')} between switches {are} not Active: the pairs are shown as if {were}; "
            "ibkeys why A B says whether a route crosses such a link"
        )
    if sharing := _sharing_a_lid(topology):
        exits.note(
            f"{sharing} end ports have a LID that another one has too: the pairs are shown as if each had its own; "
            "ibkeys why A B says which port gets the packets"
        )
    if reach.count(chosen, part.ports if part is not None else None).unknown:
        exits.warn(f"the result is partial: of some pairs {ROUTES_DECIDE}", "error")
        return finish(errors_of(topology), format) or exits.NOT_COMPLETED
    return finish(errors_of(topology), format) or (exits.SAYS_NO if empty else exits.DONE)


def _inactive_between_switches(topology: Topology) -> int:
    """Return the number of links between switches with an end that is not Active."""
    links = {
        frozenset((port, port.peer))
        for port in topology.ports()
        if port.is_between_switches and port.peer is not None and port.peer.node is not port.node
    }
    return sum(any(end.is_known_inactive for end in link) for link in links)


def _sharing_a_lid(topology: Topology) -> int:
    """Return the number of end ports that have a LID of another end port."""
    ports = [port for port in topology.end_ports() if not port.is_known_inactive]
    owners = Counter(lid for port in ports for lid in lids_of(port))
    return sum(any(owners[lid] > 1 for lid in lids_of(port)) for port in ports)


def _part(topology: Topology, filter: PortFilter) -> ChosenPorts | None:
    """Return the end ports that *filter* chooses; None without a filter."""
    if not filter.is_given:
        return None
    every = list(topology.end_ports())
    ports = frozenset(port for port in every if filter.keeps(port))
    return ChosenPorts(ports, LookedAt(len(ports), len(every)))


def _is_shown(each: PartitionPorts, chosen: set[int], part: ChosenPorts | None) -> bool:
    is_chosen = not chosen or each.partition in chosen
    return is_chosen and (part is None or any(port in part.ports for port in each.members))


def _names_of(policy: str | None, ufm: UfmOptions) -> Mapping[int, str]:
    """Return the names of partitions, by their 15 bits, in a policy file or a UFM.

    For ``opensm`` the mapping is empty: the master's policy is read later, because that needs the fabric. Raises the
    errors of `read_accepted`, also for a file that OpenSM would reject.
    """
    from ibkeys.managers.ufm.access import is_ufm

    if policy is not None and is_ufm(policy):
        return ufm_names(policy, ufm)
    read = read_accepted(policy) if policy is not None else None
    return names_in(read)


# --- members ---------------------------------------------------------------------------------------------------------


def _document(data: _MatrixData) -> dict[str, Any]:
    reach, part = data.reach, data.part
    pairs, one_way, unknown = reach.count(data.chosen, part.ports if part is not None else None)
    return {
        "looked_at": counts_document(part),
        "partitions": [
            {
                "partition": f"0x{each.partition:04x}",
                "name": data.names.get(each.partition),
                "full": [port.identity() for port in each.full],
                "limited": [port.identity() for port in each.limited],
                "stopped": [stop_document(stop) for stop in reach.stops_in(each)],
            }
            for each in data.memberships
        ],
        "pairs": pairs,
        "one_way": one_way,
        "unknown": unknown,
        "inbound_check": reach.inbound_check,
        "ports_depending_on_inbound_check": len(reach.depending_on_inbound_check()),
        **missing_data(data.topology, reach, data.chosen),
    }


def _csv_rows(data: _MatrixData) -> Iterator[dict[str, Any]]:
    for each in data.memberships:
        for membership, ports in (("full", each.full), ("limited", each.limited)):
            for port in ports:
                yield {
                    **port.identity(),
                    "partition": f"0x{each.partition:04x}",
                    "name": data.names.get(each.partition),
                    "membership": membership,
                }


def _write_table(data: _MatrixData) -> None:
    reach, part = data.reach, data.part
    titles = ("Partition", "Name", "Members", "Full", "Limited", "Both", "Stopped")
    rows, members = [], []
    folded_names = FoldedNames((port.identity() for port in data.topology.ports()), data.topology)
    for each in data.memberships:
        both = len(each.full) + len(each.limited) - len(each.members)
        stopped = len({stop.port for stop in reach.stops_in(each)})
        counts = [len(each.members), len(each.full), len(each.limited), both, stopped]
        rows.append([f"0x{each.partition:04x}", data.names.get(each.partition, ""), *counts])
        members.append(list(_member_lines(each, folded_names, cut=not data.chosen)))
    if part is not None:
        write(f"{part.counts}; below are the partitions of these ports, with all members")
    write_each(table_lines(titles, rows, members))
    count, one_way, unknown = reach.count(data.chosen, part.ports if part is not None else None)
    where = "by the partitions named" if data.chosen else "over all partitions"
    ports = "of ports" if part is None else "with at least one of these ports"
    write(f"{counted(count, 'pair')} {ports} can talk, {where} (each: --pairs)")
    if one_way:
        is_one_way = "pairs are one way" if one_way != 1 else "pair is one way"
        write(f"{one_way} {is_one_way}: packets reach the other port, but no answer comes back (each: --pairs)")
    if unknown:
        write(
            f"{counted(unknown, 'pair')} not known: whether they can talk, or one way only, depends on the route "
            "(each: --pairs)"
        )
    if depending := len(reach.depending_on_inbound_check()):
        ports = f"port{'s' if depending != 1 else ''}"
        write(
            f"(for {depending} {ports}, what they can send depends on what inbound enforcement checks: "
            "see --inbound-check)"
        )
    if reach.unread:
        write(f"({counted(len(reach.unread), 'port')} left out: P_Key table could not be read)")
    if reach.virtualized:
        ports = counted(len(reach.virtualized), "port")
        write(f"({ports} with virtual ports, whose P_Keys cannot be read: they may reach more than this)")


def _member_lines(each: PartitionPorts, names: FoldedNames, cut: bool) -> Iterator[str]:
    """Yield lines with the members of a partition: the full ones, then the limited ones.

    *cut*: whether to yield at most `_LISTED` lines of each.
    """
    for title, ports in (("full: ", each.full), ("limited: ", each.limited)):
        lines = indented(names, (port.identity() for port in ports), "    " + title) if ports else []
        listed = lines[:_LISTED] if cut else lines
        yield from listed
        if rest := len(lines) - len(listed):
            yield f"    {title}{counted(rest, 'more line')} of them: --partition 0x{each.partition:04x}"


# --- pictures --------------------------------------------------------------------------------------------------------


def _svg(data: _MatrixData) -> str:
    from ibkeys.audit.pictures.columns import lay_out
    from ibkeys.audit.pictures.matrix import matrix_svg

    return matrix_svg(lay_out(data.reach, data.names, data.chosen))


def _html(data: _MatrixData) -> str:
    from ibkeys.audit.formats.matrix_page import render_matrix
    from ibkeys.audit.pictures.columns import lay_out
    from ibkeys.audit.pictures.fabric_map import fabric_map
    from ibkeys.version import __version__

    nodes = data.topology.nodes
    source = f"{counted(len(nodes), 'node')}, seen from {nodes[0].description or hex(nodes[0].guid)}"
    matrix = lay_out(data.reach, data.names, data.chosen)
    return render_matrix(matrix, fabric_map(data.topology, data.names), source=source, version=__version__)


def _map(data: _MatrixData) -> str:
    from ibkeys.audit.pictures.fabric_map import fabric_map
    from ibkeys.audit.pictures.map_svg import map_svg

    return map_svg(fabric_map(data.topology, data.names), data.color_by)


def _dot(data: _MatrixData) -> str:
    from ibkeys.audit.pictures.dot import fabric_dot

    return fabric_dot(data.topology, data.names)


_PICTURES: Final[Mapping[str, Callable[[_MatrixData], str]]] = {"svg": _svg, "html": _html, "map": _map, "dot": _dot}
