"""The command `why`: the proof that two ports can talk, talk one way only, or are stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.addresses import parse_address, parse_portnum
from ibkeys.cli.documents.field import JsonRow
from ibkeys.cli.documents.reach import WHY, WHY_PACKET
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.partition_names import is_number, names_in, packet_key
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import AddressKinds, Where
from ibkeys.cli.partitions.paths import path_document
from ibkeys.cli.partitions.proof import write_packet_proof, write_proof
from ibkeys.cli.partitions.trap import read_trap, show_trap
from ibkeys.cli.partitions.why_hosts import show_pairs, show_partners
from ibkeys.cli.render import write_document
from ibkeys.cli.showing import errors_of, finish, not_active_document, stop_document, sweep
from ibkeys.cli.sm.policy import policy_if_known
from ibkeys.cli.types import parse_p_key
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.client.address import Address
    from ibkeys.keys.pkey import InboundCheck, PKey
    from ibkeys.reach.reach import Reach
    from ibkeys.reach.why import Match, PacketCheck, PairVerdict
    from ibkeys.topology.model import Topology
    from ibkeys.topology.nodes import Port

_EXIT_CODES: Final = {
    "delivered": exits.DONE,
    "stopped": exits.SAYS_NO,
    "lost": exits.SAYS_NO,
    "unknown": exits.NOT_COMPLETED,
}
"""By the outcome of a packet."""


@command("why")
@options.end_kind
@click.argument("a", required=False, metavar="[A]")
@click.argument("b", required=False, metavar="[B]")
@options.option(
    "--trap", env=False, metavar="TEXT", help="Explain a refused packet: a trap, a log line, or two LIDs and a P_Key."
)
@options.option(
    "--history", metavar="DIR", help="With --trap: folder of snapshots, to find since when the packet is refused."
)
@options.option(
    "--packet",
    env=False,
    metavar="PARTITION",
    help="Follow one packet from A to B, with this P_Key or that of A in the partition of this name.",
)
@options.inbound_check
@options.adaptive_routing
@options.format
@options.reading
def why(
    where: Where,
    kind: AddressKinds,
    a: str | None,
    b: str | None,
    trap: str | None,
    history: str | None,
    packet: str | None,
    inbound_check: InboundCheck,
    adaptive_routing: bool,
    format: str,
) -> int:
    """Show whether two ports can talk, or what blocks them.

    Shows the P_Keys by which they can talk, or the port that stops them, and the route of the packets hop by hop. A
    and B are each a LID, a directed route, a GUID or a node's name; -L, -D, -G or -N sets the kind of both. For a node
    with several ports, add the port after a slash, as in 'node07 mlx5_0/2'. A host's name means all nodes of that host;
    then one line says how many pairs can talk, and -v shows each. Without B: who all ports of A can talk to, by
    partition. Exit status 1 when a pair cannot talk, or when packets get through in one direction only.
    """
    from ibkeys.reach.reach import Reach

    if trap is not None:
        _refuse_beside_trap(a, packet, adaptive_routing)
        refused = read_trap(trap)
        with open_source(where) as source:
            found = sweep(source, where, p_keys=True)
            return show_trap(source, found, refused, inbound_check, history, format)
    if a is None or history is not None:
        raise UsageError(
            "--history goes with --trap TEXT" if a is not None else "give two ports, A and B, or --trap TEXT"
        )
    if b is None:
        return _partners(where, _parse_end(a, kind), inbound_check, adaptive_routing, format, packet)
    ends = [_parse_end(text, kind) for text in (a, b)]
    if packet is not None and adaptive_routing:
        raise UsageError("--packet follows the forwarding tables, which --adaptive-routing does not trust: omit one")
    names: Mapping[int, str] = {}
    if packet is not None and is_number(packet):
        parse_p_key(packet)  # an invalid one is refused before the fabric is opened
    with open_source(where) as source:
        if packet is not None and not is_number(packet):
            names = names_in(policy_if_known(source, bool(where.verbose)))
        found = sweep(source, where, p_keys=True)
        pairs = _pairs(*(_ports(found, *end, only_one=format != "table") for end in ends))
        known = len(found.troubles)
        source.read_routes(found, pairs)
    for trouble in found.troubles[known:]:
        exits.warn(trouble.error, "not read")
    if packet is not None:
        return max(
            _show_packet(one, other, packet_key(packet, names, one), inbound_check, format) for one, other in pairs
        )
    reach = Reach(found, inbound_check=inbound_check, adaptive_routing=adaptive_routing)
    if len(pairs) > 1 and not where.verbose:
        return show_pairs(reach, pairs)
    return max(_show(reach, one, other, format) for one, other in pairs)


def _partners(
    where: Where,
    end: tuple[Address, int | None],
    inbound_check: InboundCheck,
    adaptive_routing: bool,
    format: str,
    packet: str | None,
) -> int:
    """Show the partners of one host or port by partition. Raises UsageError for options that are about two ports."""
    from ibkeys.reach.reach import Reach

    if format != "table" or packet is not None:
        raise UsageError("of one host `why` shows its partners in words: -f and --packet need A and B")
    with open_source(where) as source:
        names = names_in(policy_if_known(source, bool(where.verbose)))
        found = sweep(source, where, p_keys=True)
    reach = Reach(found, inbound_check=inbound_check, adaptive_routing=adaptive_routing)
    code = show_partners(found, reach, _all_ports(found, *end), names)
    return finish(errors_of(found), format) or code


def _refuse_beside_trap(a: str | None, packet: str | None, adaptive_routing: bool) -> None:
    """Raise UsageError for an argument or option that does not go with --trap."""
    if a is not None or packet is not None or adaptive_routing:
        raise UsageError("--trap has the ports and the key: omit A, B, --packet and --adaptive-routing")


def _ports(found: Topology, address: Address, portnum: int | None, only_one: bool) -> list[Port]:
    """Return the port with this address, or all ports of a host with several nodes.

    Raises the errors of `find_port`; SeveralNodes only with *only_one* or a port number; UsageError for an external
    port of a switch.
    """
    from ibkeys.topology.find import SeveralNodes, find_port

    try:
        ports = [find_port(found, address, portnum)]
    except SeveralNodes as several:
        if only_one or portnum is not None:
            raise
        ports = several.ports
    for port in ports:
        if port.is_external:
            raise UsageError(f"{port} is an external port of a switch: it sends and receives nothing; name an end port")
    return ports


def _all_ports(found: Topology, address: Address, portnum: int | None) -> list[Port]:
    """Return all end ports of the host or node with this address, or the one port that a LID, a port GUID or *portnum*
    names. Raises as `_ports`."""
    from ibkeys.topology.find import find_ports

    ports = _ports(found, address, portnum, only_one=False)
    return find_ports(found, address) if len(ports) == 1 and portnum is None and not ports[0].node.is_switch else ports


def _pairs(ones: Sequence[Port], others: Sequence[Port]) -> list[tuple[Port, Port]]:
    pairs = [(one, other) for one in ones for other in others if one is not other]
    if not pairs:
        raise UsageError(f"A and B are the same port: {ones[0]}")
    return pairs


def _show_packet(one: Port, other: Port, p_key: PKey, inbound_check: InboundCheck, format: str) -> int:
    """Write the outcome of packets with a P_Key to each LID of a port, and return the exit code for the base LID."""
    from ibkeys.reach.packet import packets_to

    if not other.lid:
        raise UsageError(f"{other} has no LID, or it was not read: no packet can be sent to it")
    paths = packets_to(one, other, [p_key], inbound_check)
    packets = [path_document("a_to_b", path) for path in paths]
    document = {
        "a": _end_document(one),
        "b": _end_document(other),
        "packets": packets,
        "inbound_check": inbound_check,
    }
    if not write_document(format, WHY_PACKET, lambda: document, packets):
        write_packet_proof(document)
    return _EXIT_CODES[paths[0].outcome]


def _show(reach: Reach, one: Port, other: Port, format: str) -> int:
    """Write the verdict about two ports and return the exit code."""
    verdict = reach.why(one, other)
    rows = (_by(match, verdict) for match in verdict.matches)
    if not write_document(format, WHY, lambda: _why_document(reach, one, other, verdict), rows):
        write_proof(_why_document(reach, one, other, verdict))
    for port in verdict.unread:
        exits.warn(f"{port}: its P_Key table or its enforcement state could not be read", "not read")
    if None in verdict.ways:
        return exits.NOT_COMPLETED
    return exits.DONE if verdict.can_talk else exits.SAYS_NO


def _parse_end(text: str, kind: AddressKinds) -> tuple[Address, int | None]:
    from ibkeys.client.address import as_address

    node, slash, num = text.rpartition("/")
    portnum = None
    if slash and num.isdigit():
        text, portnum = node, parse_portnum(num)
    if any((kind.lid, kind.direct, kind.guid, kind.name)):
        address = parse_address(text, kind)
        assert address is not None
        return address, portnum
    return as_address(text), portnum


def _paths(verdict: PairVerdict, one: Port, other: Port) -> list[JsonRow]:
    """Return the packets with the P_Keys that match, in both directions, as far as forwarding tables were read."""
    from ibkeys.reach.packet import packets_to

    found = []
    there, back = verdict.routes
    for way, route, ends in (("a_to_b", there, (one, other)), ("b_to_a", back, (other, one))):
        if route is None:
            continue
        nodes = len(route.hops) + ends[0].node.is_switch
        if nodes > 1 + (route.end == "table not read") or route.end == "LID of another port":
            keys = dict.fromkeys(each.a_pkey if way == "a_to_b" else each.b_pkey for each in verdict.matches)
            found += [path_document(way, path) for path in packets_to(*ends, keys, verdict.inbound_check)]
    return found


def _why_document(reach: Reach, one: Port, other: Port, verdict: PairVerdict) -> JsonRow:
    checks = [(match, row) for match in verdict.matches for row in _checks_of(match)]
    stops = {check: way for _, (way, check, some) in checks if check.index is None and not some}
    may_stop = {check: way for _, (way, check, some) in checks if some}
    ways = {"a_to_b": reach.raw.path(one, other), "b_to_a": reach.raw.path(other, one)}
    return {
        "a": _end_document(one),
        "b": _end_document(other),
        **verdict.ways._asdict(),
        "by": [
            {**_by(each, verdict), "checks": [_check_document(*row) for match, row in checks if match is each]}
            for each in verdict.matches
        ],
        "stopped_by": [{**stop_document(stop), "way": way} for stop, way in stops.items()],
        "may_be_stopped_by": [{**stop_document(stop), "way": way} for stop, way in may_stop.items()],
        "unread": [port.identity() for port in verdict.unread],
        "virtualized": [port.identity() for port in verdict.virtualized],
        "not_active": [not_active_document(end) for end in verdict.not_active],
        "inbound_check": verdict.inbound_check,
        "depends_on_inbound_check": verdict.depends_on_inbound_check,
        "otherwise": verdict.otherwise._asdict(),
        "packets": _paths(verdict, one, other),
        "if_adaptive": verdict.if_adaptive._asdict(),
        "traffic": {
            # SMPs pass a link that is not Active, but not one that is down.
            "smps": all(end.is_linked for end in verdict.not_active),
            "gmps": verdict.can_talk,
            **{f"raw_{name}": way.passes for name, way in ways.items()},
            "raw_dropped_by": [
                {**each.port.identity(), "field": each.field, "way": name, "on_some_routes": some}
                for name, way in ways.items()
                for some, filters in ((False, way.dropped_by), (True, way.may_be_dropped_by))
                for each in filters
            ],
            "reliable_datagram": verdict.can_talk,
        },
    }


def _checks_of(match: Match) -> Iterator[tuple[str, PacketCheck, bool]]:
    """Yield the checks of packets with two P_Keys, each with its direction and whether it is on some routes only."""
    for way, checks in (("a_to_b", match.a_to_b), ("b_to_a", match.b_to_a)):
        yield from ((way, check, False) for check in checks)
    for way, may in (("a_to_b", match.a_to_b_may), ("b_to_a", match.b_to_a_may)):
        yield from ((way, check, True) for check in may.stops)


def _check_document(way: str, check: PacketCheck, on_some_routes: bool) -> JsonRow:
    return {
        **stop_document(check),
        "way": way,
        "index": check.index,
        "entry": None if check.entry is None else str(check.entry),
        "on_some_routes": on_some_routes,
        "peer": None if check.port.peer is None else _counted_document(check.port.peer),
    }


def _end_document(port: Port) -> JsonRow:
    p_keys = None if port.occupied is None else [str(key) for _, key in port.occupied]
    return {**_counted_document(port), "pkeys": p_keys}


def _counted_document(port: Port) -> JsonRow:
    """Return the identity of a port with the number of ports of its node."""
    return {**port.identity(), "num_ports": port.node.num_ports}


def _by(match: Match, verdict: PairVerdict) -> dict[str, Any]:
    there, back = match.gets_there, match.gets_back
    return {
        "a_pkey": str(match.a_pkey),
        "b_pkey": str(match.b_pkey),
        "stopped": None if match.passes is None else not match.passes,
        "a_to_b": verdict.a_to_b if there else there,
        "b_to_a": verdict.b_to_a if back else back,
    }
