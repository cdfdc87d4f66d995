"""The work of `matrix --pairs`: each pair of ports, and the chosen part of a fabric."""

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
    """The ports that a filter chose: its end ports, their number, and the number of all end ports."""

    ports: frozenset[Port]
    looked_at: LookedAt


def looked_at(part: ChosenPorts | None) -> dict[str, int] | None:
    """Return the ``looked_at`` of the document for *part*; None for the whole fabric."""
    return part.looked_at.to_json() if part is not None else None


def missing_data(found: Topology, reach: Reach, chosen: set[int]) -> dict[str, Any]:
    """Return the fields of the document about missing data.

    These are unread ports, stops on some routes, and links that are not Active.
    """
    return {
        "may_be_stopped_by": [stop_document(stop) for stop in reach.stops_between_switches(chosen)],
        "unread": [port.identity() for port in (*reach.unread, *reach.unread_between_switches)],
        "virtualized": [port.identity() for port in reach.virtualized],
        "not_active": [not_active_document(end) for end in reach.not_active],
        "errors": errors_of(found),
        "unreached": found.unreached,
    }


def write_pairs(found: Topology, reach: Reach, chosen: set[int], part: ChosenPorts | None, format: str) -> None:
    """Write one line for each pair as soon as it is found, because there may be very many.

    *part*: only pairs with one of its ports; None: all. *chosen*: only pairs by these partitions; empty: all. A one-way
    pair is written from its first port to its second.
    """

    def named(pairs: Iterable[tuple[Port, Port]], is_named: Callable[[Match], bool | None]) -> Iterator[PortPair]:
        for a, b in pairs:
            if part is None or a in part.ports or b in part.ports:
                matches = (each for each in reach.matches(a, b) if not chosen or each.a_pkey.partition in chosen)
                yield a, b, [match for match in matches if is_named(match)]

    talking = named(reach.talking_pairs(chosen), lambda match: match.passes)
    one_way = named(reach.one_way_pairs(chosen), lambda match: match.gets_there)
    unknown = named(reach.unknown_pairs(chosen), lambda match: None in (match.gets_there, match.gets_back))
    if format == "json":
        part_text = json.dumps(looked_at(part))
        write_exact(f'{{"schema": "{MATRIX.schema}", "looked_at": {part_text}, "pairs": [')
        write_json_items(map(_document, talking))
        write_exact('], "one_way": [')
        write_json_items(map(_document, one_way))
        write_exact('], "unknown": [')
        write_json_items(map(_document, unknown))
        rest = json.dumps(missing_data(found, reach, chosen))[1:]
        write_exact(f'], "inbound_check": "{reach.inbound_check}", {rest}')
    elif format == "csv":
        write_rows(MATRIX.other_rows, _csv_rows({"both": talking, "a_to_b": one_way, "unknown": unknown}))
    else:
        names = FoldedNames(port.identity() for port in found.ports())
        if part is not None:
            write(f"{part.looked_at}: pairs with such a port")
        for pairs, arrow in ((talking, "-"), (one_way, "-> one way to"), (unknown, "- not known, the route decides -")):
            for a, b, matches in pairs:
                keys = ", ".join(f"{match.a_pkey} with {match.b_pkey}" for match in matches)
                write(exits.clean(f"{_called(a, names)} {arrow} {_called(b, names)}: {keys}"))


def _called(port: Port, names: FoldedNames) -> str:
    """Return the name of a port's node.

    With its GUID if several nodes have the name, and the port number if the node has several ports.
    """
    several = not port.node.is_switch and port.node.num_ports > 1
    return names.port(port.identity()) if several else names.called(port.identity())


def _document(pair: PortPair) -> dict[str, Any]:
    a, b, matches = pair
    by = [{"a_pkey": str(match.a_pkey), "b_pkey": str(match.b_pkey)} for match in matches]
    return {"a": a.identity(), "b": b.identity(), "by": by}


def _csv_rows(by_way: Mapping[str, Iterable[PortPair]]) -> Iterator[dict[str, Any]]:
    for way, pairs in by_way.items():
        for a, b, matches in pairs:
            ends = {"a": a.identity(), "b": b.identity(), "way": way}
            for match in matches:
                yield {**ends, "a_pkey": str(match.a_pkey), "b_pkey": str(match.b_pkey)}
