"""The command `why`: the proof that two ports can talk, talk one way only, or are stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ibkeys.cli import exits, options
from ibkeys.cli.addresses import parse_address, parse_portnum
from ibkeys.cli.documents.reach import WHY
from ibkeys.cli.exits import write, write_each
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import AddressKinds, Where
from ibkeys.cli.render import heading_of, write_document
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.showing import MAY_STOP_LISTED, not_active_document, short_name, stop_document, sweep
from ibkeys.errors import UsageError
from ibkeys.printable import counted, first_lines

if TYPE_CHECKING:
    from ibkeys.client.address import Address
    from ibkeys.keys.pkey import InboundCheck, PKey
    from ibkeys.reach.raw import RawFilter, RawWay
    from ibkeys.reach.reach import Reach
    from ibkeys.reach.why import Connectivity, Match, PacketCheck, PairVerdict
    from ibkeys.topology.model import Topology
    from ibkeys.topology.nodes import Port


@command("why")
@options.kind
@click.argument("a")
@click.argument("b")
@options.inbound_check
@options.format
@options.reading
def why(where: Where, kind: AddressKinds, a: str, b: str, inbound_check: InboundCheck, format: str) -> int:
    """Show whether two ports can talk, or what blocks them.

    Shows the P_Keys by which they can talk, or the port that stops them. A and B are each a LID, a directed route, a
    GUID or a node's name; -L, -D, -G or -N sets the kind of both. For a node with several ports, add the port after a
    slash, as in 'node07 mlx5_0/2'. A host's name means all nodes of that host; then each pair is shown. Exit status 1
    when a pair cannot talk, or when packets get through in one direction only.
    """
    from ibkeys.reach.reach import Reach

    ends = [_parse_end(text, kind) for text in (a, b)]
    with open_source(where) as source:
        found = sweep(source, where, p_keys=True)
    pairs = _pairs(*(_ports(found, *end, only_one=format != "table") for end in ends))
    reach = Reach(found, inbound_check=inbound_check)
    return max(_show(reach, one, other, format) for one, other in pairs)


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


def _pairs(ones: Sequence[Port], others: Sequence[Port]) -> list[tuple[Port, Port]]:
    pairs = [(one, other) for one in ones for other in others if one is not other]
    if not pairs:
        raise UsageError(f"A and B are the same port: {ones[0]}")
    return pairs


def _show(reach: Reach, one: Port, other: Port, format: str) -> int:
    """Write the verdict about two ports and return the exit code."""
    verdict = reach.why(one, other)
    rows = (_by(match, verdict) for match in verdict.matches)
    if not write_document(format, WHY, lambda: _why_document(reach, one, other, verdict), rows):
        _write_proof(reach, one, other, verdict)
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


def _why_document(reach: Reach, one: Port, other: Port, verdict: PairVerdict) -> dict[str, Any]:
    ways = [
        (way, checks, may)
        for match in verdict.matches
        for way, checks, may in (("a_to_b", match.a_to_b, match.a_to_b_may), ("b_to_a", match.b_to_a, match.b_to_a_may))
    ]
    stops = {check: way for way, checks, _ in ways for check in checks if check.index is None}
    may_stop = {check: way for way, _, may in ways for check in may.stops}
    return {
        "a": one.identity(),
        "b": other.identity(),
        **verdict.ways._asdict(),
        "by": [_by(match, verdict) for match in verdict.matches],
        "stopped_by": [{**stop_document(stop), "way": way} for stop, way in stops.items()],
        "may_be_stopped_by": [{**stop_document(stop), "way": way} for stop, way in may_stop.items()],
        "unread": [port.identity() for port in verdict.unread],
        "virtualized": [port.identity() for port in verdict.virtualized],
        "not_active": [not_active_document(end) for end in verdict.not_active],
        "inbound_check": verdict.inbound_check,
        "depends_on_inbound_check": verdict.depends_on_inbound_check,
        "otherwise": verdict.otherwise._asdict(),
        "traffic": {
            "smps": _smps_pass(verdict),
            "gmps": verdict.can_talk,
            "raw_a_to_b": reach.raw.way(one, other).passes,
            "raw_b_to_a": reach.raw.way(other, one).passes,
            "reliable_datagram": verdict.can_talk,
        },
    }


def _smps_pass(verdict: PairVerdict) -> bool:
    """Return whether SMPs pass the links of the two ports.

    They pass a link that is not Active, but not one that is down.
    """
    return all(end.is_linked for end in verdict.not_active)


def _by(match: Match, verdict: PairVerdict) -> dict[str, Any]:
    there, back = match.gets_there, match.gets_back
    return {
        "a_pkey": str(match.a_pkey),
        "b_pkey": str(match.b_pkey),
        "stopped": None if match.passes is None else not match.passes,
        "a_to_b": verdict.a_to_b if there else there,
        "b_to_a": verdict.b_to_a if back else back,
    }


# --- in words --------------------------------------------------------------------------------------------------------


def _write_proof(reach: Reach, one: Port, other: Port, verdict: PairVerdict) -> None:
    from ibkeys.keys.pkey import INBOUND_CHECKS, explain_match

    names = _names(one, other)
    write(f"{heading_of(one.identity())}\n{heading_of(other.identity())}")
    reason = _why_unknown(verdict)
    write("  " + paint(exits.clean(_in_words(verdict.ways, *names, reason)), _role_of(verdict.ways)))
    for end in verdict.not_active:
        write(exits.clean(f"  {end} is {end.state_name}: data packets pass only a link whose ends are Active"))
    if not verdict.matches:
        for port in (one, other):
            keys = ", ".join(str(key) for _, key in port.occupied or ()) or "no P_Key"
            write(exits.clean(f"  {short_name(port)} has {keys if port.occupied is not None else 'a table not read'}"))
        for a_pkey, b_pkey in _limited_pairs(one, other):
            write(f"  {a_pkey} with {b_pkey}: {explain_match(a_pkey, b_pkey)}")
        if all(port.occupied is not None and not port.hides_p_keys for port in (one, other)):
            write("  no P_Key of one matches one of the other")
    for port in verdict.virtualized:
        write(exits.clean(f"  {short_name(port)} has virtual ports, or may have them: their P_Keys cannot be read"))
    for match in verdict.matches:
        write(f"  {match.a_pkey} with {match.b_pkey}: {explain_match(match.a_pkey, match.b_pkey)}")
        for ends, checks in ((names, match.a_to_b), (names[::-1], match.b_to_a)):
            for check in checks:
                write(exits.clean(f"    {_check_in_words(check, verdict.inbound_check, *ends)}"))
        _write_on_some_routes(match, verdict.inbound_check)
    if any(match.stops or match.a_to_b_may.stops or match.b_to_a_may.stops for match in verdict.matches):
        write("  what a switch port stops is dropped, or corrupted and passed on")
    if verdict.depends_on_inbound_check:
        (by_other,) = (each for each in INBOUND_CHECKS if each != verdict.inbound_check)
        write(
            exits.clean(
                f"  this depends on what inbound enforcement checks, here the {verdict.inbound_check}: with "
                f"--inbound-check {by_other} the answer is: {_in_words(verdict.otherwise, *names, reason)}"
            )
        )
    _write_other_traffic(reach, one, other, verdict, names)


def _write_on_some_routes(match: Match, inbound_check: InboundCheck) -> None:
    """Write the ports on links between switches that stop packets on some routes."""
    stops = dict.fromkeys((*match.a_to_b_may.stops, *match.b_to_a_may.stops))
    lines = [exits.clean(f"    on routes through it, {_stop_in_words(check, inbound_check)}") for check in stops]
    more = "    and {} between switches (all of them: -f json)"
    write_each(first_lines(lines, MAY_STOP_LISTED, lambda left: more.format(counted(left, "more switch port"))))


def _why_unknown(verdict: PairVerdict) -> str:
    """Return why a result about a pair is not known."""
    on_routes = any(may.stops for match in verdict.matches for may in (match.a_to_b_may, match.b_to_a_may))
    if on_routes or not (verdict.unread or verdict.virtualized):
        return "it depends on the route, and routes are not read"
    return "not everything could be read"


def _write_other_traffic(reach: Reach, one: Port, other: Port, verdict: PairVerdict, names: tuple[str, str]) -> None:
    """Write which packets of other kinds pass: SMPs, GMPs, raw packets and RD."""
    gmps, datagrams = {
        True: ("pass with any P_Key above", "pass with the P_Key of their EE contexts, if it is above"),
        False: ("as above: no request gets an answer", "as above: the EE contexts use one P_Key each"),
        None: ("not known", "not known, as above"),
    }[verdict.can_talk]
    smps = "pass, whatever the P_Keys are" if _smps_pass(verdict) else "do not pass: there is no link"
    write(f"  SMPs (QP0): {smps}")
    if verdict.not_active:
        write("  GMPs (QP1), raw packets and RD (reliable datagram): none get through, as above")
        return
    write(f"  GMPs (QP1): {gmps}")
    ways = [(reach.raw.way(one, other), *names), (reach.raw.way(other, one), *names[::-1])]
    if all(way.passes for way, *_ in ways):
        write("  raw packets: pass both ways: they carry no P_Key")
    else:
        for way, source, destination in ways:
            write(exits.clean(f"  raw packets, {source} to {destination}: {_raw_in_words(way)}"))
    write(f"  RD (reliable datagram): {datagrams}")


def _raw_in_words(way: RawWay) -> str:
    if way.dropped_by:
        return f"dropped by {_filters_in_words(way.dropped_by)}"
    if way.may_be_dropped_by:
        return f"not known: on some routes dropped by {_filters_in_words(way.may_be_dropped_by)}"
    return "pass" if way.passes else "not known"


def _filters_in_words(filters: Sequence[RawFilter]) -> str:
    named = [f"{each.port} ({each.field})" for each in filters[:MAY_STOP_LISTED]]
    rest = len(filters) - len(named)
    return " and ".join([*named, counted(rest, "more switch port")] if rest else named)


def _names(one: Port, other: Port) -> tuple[str, str]:
    names = short_name(one), short_name(other)
    return names if names[0] != names[1] else (str(one), str(other))


def _in_words(ways: Connectivity, one: str, other: str, reason: str) -> str:
    match ways:
        case True, _, _:
            return "can talk"
        case None, _, _:
            return f"it is not known whether they can talk: {reason}"
        case _, True, False:
            return f"one way, {one} to {other}: packets get through, but no answer comes back"
        case _, False, True:
            return f"one way, {other} to {one}: packets get through, but no answer comes back"
        case _, True, True:
            return "cannot talk, but packets get through both ways: in a different partition in each direction"
        case _, False, False:
            return "cannot talk"
    return f"cannot talk; it is not known whether packets get through one way: {reason}"


def _role_of(ways: Connectivity) -> str:
    """Return the colour of a verdict."""
    if ways.can_talk:
        return "good"
    return "doubtful" if ways.can_talk is None or ways.a_to_b is not ways.b_to_a else "bad"


def _check_in_words(check: PacketCheck, inbound_check: InboundCheck, source: str, destination: str) -> str:
    if check.index is None:
        return f"stopped: {_stop_in_words(check, inbound_check)}"
    how = f"entry {check.index} of its P_Key table, {check.entry}, {_fits(check, inbound_check)}"
    return f"{source} to {destination}: {check.port} passes {check.p_key} ({check.direction} enforcement: {how})"


def _fits(check: PacketCheck, inbound_check: InboundCheck) -> str:
    return "belongs to that partition" if (check.direction, inbound_check) == ("inbound", "partition") else "matches"


def _stop_in_words(check: PacketCheck, inbound_check: InboundCheck) -> str:
    where = "that come from" if check.direction == "inbound" else "on their way to"
    peer = short_name(check.port.peer) if check.port.peer is not None else "its link"
    return (
        f"{check.port} drops packets with {check.p_key} {where} {peer} "
        f"({check.direction} enforcement: no entry of its P_Key table {_fits(check, inbound_check)})"
    )


def _limited_pairs(one: Port, other: Port) -> list[tuple[PKey, PKey]]:
    """Return the pairs of P_Keys of one partition that two ports have.

    If no P_Keys of the ports match, both of each pair are limited.
    """
    return [(a, b) for _, a in one.occupied or () for _, b in other.occupied or () if a.partition == b.partition]
