"""The proof for two ports: why they can talk, by which P_Key, or who stops them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ibkeys.cli import exits, options
from ibkeys.cli.exits import write
from ibkeys.cli.options import Kind, Where
from ibkeys.cli.render import heading_of, write_csv, write_json
from ibkeys.cli.showing import short_name, stop_document, sweep
from ibkeys.cli.where import open_source, parse_address, parse_portnum
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.fabric.address import Address
    from ibkeys.fabric.model import Port
    from ibkeys.fabric.reach import Verdict


@click.command("why")
@options.kind
@click.argument("a")
@click.argument("b")
@options.format
@options.reading
def why(where: Where, kind: Kind, a: str, b: str, format: str) -> int:
    """Say why two ports can talk, by which P_Key, or who stops them.

    A and B are each a LID, a directed route, a GUID or a node's name; -L, -D, -G or -N says what both are. A port of a
    node with several follows a slash, as in 'node07 mlx5_0/2'. Exit status 1 when they cannot talk.
    """
    from ibkeys.fabric.find import find_port
    from ibkeys.fabric.reach import Reach

    targets = [_target(text, kind) for text in (a, b)]
    with open_source(where) as source:
        found = sweep(source, where, p_keys=True)
    one, other = (find_port(found, *target) for target in targets)
    for port in (one, other):
        if port.is_external:
            raise UsageError(f"{port} is an external port of a switch: it sends and receives nothing; name an end port")
    if one is other:
        raise UsageError(f"A and B are the same port: {one}")
    verdict = Reach(found).why(one, other)
    if format == "json":
        write_json("why", _why_document(one, other, verdict))
    elif format == "csv":
        write_csv(("a_pkey", "b_pkey", "stopped"), _why_document(one, other, verdict)["by"])
    else:
        _write_proof(one, other, verdict)
    for port in verdict.unread:
        exits.warn(f"{port}: its P_Key table, or whether it enforces, could not be read", "not read")
    if verdict.can_talk is None:
        return exits.NOT_COMPLETED
    return exits.DONE if verdict.can_talk else exits.SAYS_NO


def _target(text: str, kind: Kind) -> tuple[Address, int | None]:
    from ibkeys.fabric.session import as_address

    node, slash, num = text.rpartition("/")
    portnum = None
    if slash and num.isdigit():
        text, portnum = node, parse_portnum(num)
    if any((kind.lid, kind.direct, kind.guid, kind.name)):
        address = parse_address(text, kind)
        assert address is not None
        return address, portnum
    return as_address(text), portnum


def _why_document(one: Port, other: Port, verdict: Verdict) -> dict[str, Any]:
    stops = dict.fromkeys(stop for match in verdict.matches for stop in match.stops)
    return {
        "a": one.identity(),
        "b": other.identity(),
        "can_talk": verdict.can_talk,
        "by": [
            {"a_pkey": str(match.a_pkey), "b_pkey": str(match.b_pkey), "stopped": bool(match.stops)}
            for match in verdict.matches
        ],
        "stopped_by": [stop_document(stop) for stop in stops],
        "unread": [port.identity() for port in verdict.unread],
    }


def _write_proof(one: Port, other: Port, verdict: Verdict) -> None:
    from ibkeys.keys.pkey import explain_match

    word = {True: "can talk", False: "cannot talk", None: "may or may not talk: not everything could be read"}
    write(f"{heading_of(one.identity())}\n{heading_of(other.identity())}")
    write(f"  {word[verdict.can_talk]}")
    if not verdict.matches:
        for port in (one, other):
            keys = ", ".join(str(key) for _, key in port.occupied or ()) or "no P_Key"
            write(exits.clean(f"  {short_name(port)} has {keys if port.occupied is not None else 'a table not read'}"))
        for a_pkey, b_pkey in _limited_pairs(one, other):
            write(f"  {a_pkey} with {b_pkey}: {explain_match(a_pkey, b_pkey)}")
        if verdict.can_talk is False:
            write("  no P_Key of one matches one of the other")
    for match in verdict.matches:
        write(f"  {match.a_pkey} with {match.b_pkey}: {explain_match(match.a_pkey, match.b_pkey)}")
        for stop in match.stops:
            whence = "that come from" if stop.direction == "inbound" else "on their way to"
            misses = "is of that partition" if stop.direction == "inbound" else "matches"
            peer = short_name(stop.port.peer) if stop.port.peer is not None else "its link"
            write(
                exits.clean(
                    f"    stopped: {stop.port} drops packets with {stop.p_key} {whence} "
                    f"{peer} ({stop.direction} enforcement: no entry of its "
                    f"P_Key table {misses})"
                )
            )


def _limited_pairs(one: Port, other: Port) -> list[tuple[Any, Any]]:
    return [(a, b) for _, a in one.occupied or () for _, b in other.occupied or () if a.partition == b.partition]
