"""The command `discover`: the nodes, ports and links of the whole fabric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ibkeys.cli import exits, options
from ibkeys.cli.comparing.replaced import note_replaced
from ibkeys.cli.documents.fabric import DISCOVER, LISTED_PORT
from ibkeys.cli.exits import write, write_each
from ibkeys.cli.given import is_typed
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.filters import PortFilter
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import Filters, Where
from ibkeys.cli.render import write_columns, write_document
from ibkeys.cli.showing import errors_of, finish, peer_document, sweep_for, write_unreached
from ibkeys.cli.sm.policy import name_partitions
from ibkeys.cli.tools.names import VALUES, show_names
from ibkeys.printable import counted
from ibkeys.topology.moves import move_in_words

if TYPE_CHECKING:
    from ibkeys.topology.model import Topology
    from ibkeys.topology.moves import Move
    from ibkeys.topology.nodes import Node, Port


@command("discover")
@click.argument("words", nargs=-1, metavar="[WHO]...")
@options.flag("--names", "by_name", help="Show only the end ports: GUID, name, LID and switch port.")
@options.option(
    "--only",
    env=False,
    type=click.Choice(list(VALUES)),
    help="With --names: print only this value, a line for each port.",
)
@options.option("--baseline", metavar="SNAPSHOT", help="Name the adapters replaced since this snapshot.")
@options.format
@options.filters
@options.reading
def discover(
    where: Where,
    by_name: bool,
    words: tuple[str, ...],
    only: str | None,
    baseline: str | None,
    filters: Filters,
    format: str,
) -> int:
    """Show nodes, ports and links of the whole fabric.

    The subnet is discovered by directed routes from the local port, so no subnet manager is needed. JSON and CSV
    have PortState and PortPhysicalState as the standard's numbers. With --names, WHO is a GUID, a LID, a name such as
    node07, 'stage[1-48]' or 'tank*', or SWITCH:3 for the port that is linked to port 3 of a switch; without WHO every
    end port is listed.
    """
    from ibkeys.discovery.wanted import Wanted
    from ibkeys.errors import UsageError

    if by_name and is_typed("baseline"):
        raise UsageError("--baseline and --names exclude each other")
    if by_name:
        return show_names(where, words, only, filters, format)
    if words or only is not None:
        raise UsageError(f"{'WHO' if words else '--only'} goes with --names")
    filter = PortFilter(filters)
    with open_source(where) as source:
        name_partitions(filter, source, bool(where.verbose))
        topology = sweep_for(source, where, filter, Wanted())
    replaced = _replaced(baseline, topology)
    errors = errors_of(topology, filter.concerns)
    nodes = {node: list(_ports(node)) for node in topology.nodes}
    if filter.is_given:
        chosen_ports = {node: [port for port in ports if filter.keeps(port)] for node, ports in nodes.items()}
        nodes = {node: ports for node, ports in chosen_ports.items() if ports}

    def document() -> dict[str, Any]:
        listed = [_document(node, ports) for node, ports in nodes.items()]
        shown = [each.to_json() for each in replaced] if replaced is not None else None
        return {"nodes": listed, "replaced": shown, "errors": errors, "unreached": topology.unreached}

    rows = (_row(port) for ports in nodes.values() for port in ports)
    if not write_document(format, DISCOVER, document, rows):
        _write_table(topology, nodes, filter.is_given)
        write_each(move_in_words(each.to_json()) for each in replaced or ())
    note_replaced(replaced or (), baseline or "")
    return finish(errors, format)


def _replaced(baseline: str | None, topology: Topology) -> list[Move] | None:
    """Return the adapters that were likely replaced since a snapshot; None without one. Raises StoreError."""
    if baseline is None:
        return None
    from ibkeys.cli.opening import load
    from ibkeys.topology.replaced import likely_pairs

    return list(likely_pairs(load(Path(baseline)).fabric, topology))


def _document(node: Node, ports: Sequence[Port]) -> dict[str, Any]:
    own = list(_ports(node))
    first = next((port for port in own if port.is_end_port and (node.is_switch or port.path is not None)), own[0])
    return {**first.identity(), "num_ports": node.num_ports, "ports": [_port_document(port) for port in ports]}


def _ports(node: Node) -> Iterator[Port]:
    """Yield every port of a node, with port 0 of a switch. Ports that no link reaches are included, but not read."""
    for num in sorted({*range(0 if node.is_switch else 1, node.num_ports + 1), *node.ports}):
        yield node.port(num)


def _port_document(port: Port) -> dict[str, Any]:
    info = port.port_info
    return {
        "port": port.num,
        "lid": port.lid,
        "state": info.port_state if info is not None else None,
        "phys_state": info.port_physical_state if info is not None else None,
        "peer": peer_document(port),
    }


def _row(port: Port) -> dict[str, Any]:
    return {**port.identity(), **_port_document(port), "num_ports": port.node.num_ports}


def _write_table(topology: Topology, ports_by_node: Mapping[Node, Sequence[Port]], is_part: bool) -> None:
    """Write a row for each port that has a link or could not be read. For grep, each row has the node's name.

    *ports_by_node*: the ports to list. *is_part*: whether a filter chose them.
    """
    ports = list(topology.ports())
    chosen_ports = {port for some in ports_by_node.values() for port in some}
    in_order = [port for port in ports if port in chosen_ports]
    listed = [port for port in in_order if port.is_end_port or port.is_linked or port.info is None]
    write_columns(LISTED_PORT, map(_row, listed))
    kinds = [node.type_name for node in topology.nodes]
    links = sum(port.peer is not None for port in ports) // 2
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    part = f"{len(ports_by_node)} listed of " if is_part else ""
    write(f"{part}{counted(len(kinds), 'node')} ({counts}), {counted(links, 'link')}")
    if len(listed) < len(in_order) and exits.explains_all():
        write(f"({counted(len(in_order) - len(listed), 'switch port')} without a link not listed; -f json has all)")
    write_unreached(topology.unreached, always=True)
