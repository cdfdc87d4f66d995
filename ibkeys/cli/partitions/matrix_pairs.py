"""The output of `matrix --pairs`: one line for each pair of ports. Also the ports that filters of `matrix` choose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits
from ibkeys.cli.documents.reach import MATRIX
from ibkeys.cli.exits import write, write_exact
from ibkeys.cli.render import write_json_items, write_rows
from ibkeys.cli.showing import errors_of, not_active_document, stop_document
from ibkeys.topology.names.folded import FoldedNames
from ibkeys.topology.port_id import LookedAt

if TYPE_CHECKING:
    from ibkeys.reach.reach import Reach
    from ibkeys.reach.why import Match
    from ibkeys.topology.model import Topology
    from ibkeys.topology.nodes import Port

PortPair = tuple["Port", "Port", list["Match"]]


@dataclass(frozen=True, slots=True)
class ChosenPorts:
    """The end ports that a filter chose. ``counts``: their number, and the number of all end ports."""

    ports: frozenset[Port]
    counts: LookedAt


def counts_document(part: ChosenPorts | None) -> dict[str, int] | None:
    """Return the field ``looked_at`` of the document for *part*; None for the whole fabric."""
    return part.counts.to_json() if part is not None else None


def missing_data(topology: Topology, reach: Reach, chosen: set[int]) -> dict[str, Any]:
    """Return the fields of the document about data that is missing or uncertain.

    These are unread ports, ports on links between switches that stop packets, ports with virtual ports, and links that
    are not Active. *chosen*: only ports that stop packets of these partitions; empty: of all.
    """
    return {
        "may_be_stopped_by": [stop_document(stop) for stop in reach.stops_between_switches(chosen)],
        "unread": [port.identity() for port in (*reach.unread, *reach.unread_between_switches)],
        "virtualized": [port.identity() for port in reach.virtualized],
        "not_active": [not_active_document(end) for end in reach.not_active],
        "errors": errors_of(topology),
        "unreached": topology.unreached,
    }


def write_pairs(topology: Topology, reach: Reach, chosen: set[int], part: ChosenPorts | None, format: str) -> None:
    """Write one line for each pair as soon as it is found, because there may be very many pairs.

    *chosen*: write only pairs that can talk by these partitions; empty: by any. *part*: write only pairs with one of
    these ports; None: all pairs. A one-way pair is written from its first port to its second.
    """

    def with_matches(pairs: Iterable[tuple[Port, Port]], matters: Callable[[Match], bool | None]) -> Iterator[PortPair]:
        for a, b in pairs:
            if part is None or a in part.ports or b in part.ports:
                matches = (each for each in reach.matches(a, b) if not chosen or each.a_pkey.partition in chosen)
                yield a, b, [match for match in matches if matters(match)]

    talking = with_matches(reach.talking_pairs(chosen), lambda match: match.passes)
    one_way = with_matches(reach.one_way_pairs(chosen), lambda match: match.gets_there)
    unknown = with_matches(reach.unknown_pairs(chosen), lambda match: None in (match.gets_there, match.gets_back))
    if format == "json":
        part_text = json.dumps(counts_document(part))
        write_exact(f'{{"schema": "{MATRIX.schema}", "looked_at": {part_text}, "pairs": [')
        write_json_items(map(_document, talking))
        write_exact('], "one_way": [')
        write_json_items(map(_document, one_way))
        write_exact('], "unknown": [')
        write_json_items(map(_document, unknown))
        rest = json.dumps(missing_data(topology, reach, chosen))[1:]
        write_exact(f'], "inbound_check": "{reach.inbound_check}", {rest}')
    elif format == "csv":
        write_rows(MATRIX.other_rows, _csv_rows({"both": talking, "a_to_b": one_way, "unknown": unknown}))
    else:
        names = FoldedNames(port.identity() for port in topology.ports())
        if part is not None:
            write(f"{part.counts}; each pair below has at least one of these ports")
        for pairs, arrow in ((talking, "-"), (one_way, "-> one way to"), (unknown, "- not known, the route decides -")):
            for a, b, matches in pairs:
                keys = ", ".join(f"{match.a_pkey} with {match.b_pkey}" for match in matches)
                write(exits.clean(f"{_node_name(a, names)} {arrow} {_node_name(b, names)}: {keys}"))


def _node_name(port: Port, names: FoldedNames) -> str:
    """Return the name of a port's node, with the port number if the node is a CA or router with several ports.

    The GUID is added if several nodes have the same name.
    """
    several = not port.node.is_switch and port.node.num_ports > 1
    return names.port(port.identity()) if several else names.called(port.identity())


def _document(pair: PortPair) -> dict[str, Any]:
    a, b, matches = pair
    keys = [{"a_pkey": str(match.a_pkey), "b_pkey": str(match.b_pkey)} for match in matches]
    return {"a": a.identity(), "b": b.identity(), "by": keys}


def _csv_rows(by_direction: Mapping[str, Iterable[PortPair]]) -> Iterator[dict[str, Any]]:
    for direction, pairs in by_direction.items():
        for a, b, matches in pairs:
            ends = {"a": a.identity(), "b": b.identity(), "way": direction}
            for match in matches:
                yield {**ends, "a_pkey": str(match.a_pkey), "b_pkey": str(match.b_pkey)}
