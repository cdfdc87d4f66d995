"""The proof of `why` in words: whether two ports can talk, and by which P_Keys and switch ports."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.documents.field import JsonRow
from ibkeys.cli.exits import write, write_each
from ibkeys.cli.partitions.paths import write_packet_verdict, write_paths
from ibkeys.cli.render import heading_of
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.showing import MAY_STOP_LISTED
from ibkeys.mad.const import PORT_STATE_NAMES
from ibkeys.printable import counted, first_lines
from ibkeys.topology.port_id import PortId

if TYPE_CHECKING:
    from ibkeys.keys.pkey import InboundCheck, PKey


def write_proof(document: JsonRow) -> None:
    """Write the document of `why` as a proof for people."""
    from ibkeys.keys.pkey import INBOUND_CHECKS

    ends = document["a"], document["b"]
    names, reason = _names(*ends), _why_unknown(document)
    for end in ends:
        write(heading_of(end))
    write("  " + paint(exits.clean(_in_words(document, *names, reason)), _role_of(document)))
    for end in document["not_active"]:
        state = PORT_STATE_NAMES.get(end["state"] or 0, f"in state {end['state']}")
        write(exits.clean(f"  {_port_text(end)} is {state}: data packets pass only a link whose ends are Active"))
    if not document["by"]:
        _write_p_keys(document)
    for port in document["virtualized"]:
        [end] = [end for end in ends if port.items() <= end.items()]
        write(exits.clean(f"  {_short_name(end)} has virtual ports, or may have them: their P_Keys cannot be read"))
    for match in document["by"]:
        _write_match(match, document["inbound_check"], names, bool(document["packets"]))
    if any(check["index"] is None for match in document["by"] for check in match["checks"]):
        write("  what a switch port stops is dropped, or corrupted and passed on")
    if document["depends_on_inbound_check"]:
        (by_other,) = (each for each in INBOUND_CHECKS if each != document["inbound_check"])
        otherwise = _in_words(document["otherwise"], *names, reason)
        write(
            exits.clean(
                f"  this depends on what inbound enforcement checks, here the {document['inbound_check']}: with "
                f"--inbound-check {by_other} the answer is: {otherwise}"
            )
        )
    if document["if_adaptive"] != {name: document[name] for name in document["if_adaptive"]}:
        otherwise = _in_words(document["if_adaptive"], *names, "it depends on the route")
        write(
            exits.clean(
                "  this is by the forwarding tables; if switches route adaptively, which cannot be read "
                f"(--adaptive-routing), the answer is: {otherwise}"
            )
        )
    write_paths(document["packets"])
    _write_other_traffic(document, names)


def write_packet_proof(document: JsonRow) -> None:
    """Write the document of `why --packet` for people."""
    for end in (document["a"], document["b"]):
        write(heading_of(end))
    write_packet_verdict(document["packets"][0])
    write_paths(document["packets"])


def _write_p_keys(document: JsonRow) -> None:
    """Write the P_Keys of two ports of which no two match."""
    ends = document["a"], document["b"]
    for end in ends:
        keys = "a table not read" if end["pkeys"] is None else ", ".join(end["pkeys"]) or "no P_Key"
        write(exits.clean(f"  {_short_name(end)} has {keys}"))
    for a_pkey, b_pkey in itertools.product(*(_p_keys(end["pkeys"] or ()) for end in ends)):
        if a_pkey.partition == b_pkey.partition:  # no two match, so both are limited
            write(_match_in_words(a_pkey, b_pkey))
    if all(end["pkeys"] is not None for end in ends) and not document["virtualized"]:
        write("  no P_Key of one matches one of the other")


def _write_match(match: JsonRow, inbound_check: InboundCheck, names: tuple[str, str], has_routes: bool) -> None:
    """Write the checks of packets with two P_Keys that match; ports between switches that stop them on some routes come
    last. *has_routes*: the routes are written too, with the checks that the packets pass."""
    write(_match_in_words(*_p_keys((match["a_pkey"], match["b_pkey"]))))
    for check in match["checks"]:
        if not check["on_some_routes"] and not (has_routes and check["index"] is not None):
            ends = names if check["way"] == "a_to_b" else names[::-1]
            write(exits.clean(f"    {_check_in_words(check, inbound_check, *ends)}"))
    stops = (_stop_in_words(check, inbound_check) for check in match["checks"] if check["on_some_routes"])
    lines = [exits.clean(f"    on routes through it, {stop}") for stop in dict.fromkeys(stops)]
    more = "    and {} between switches (all of them: -f json)"
    write_each(first_lines(lines, MAY_STOP_LISTED, lambda left: more.format(counted(left, "more switch port"))))


def _match_in_words(a_pkey: PKey, b_pkey: PKey) -> str:
    from ibkeys.keys.pkey import explain_match

    return f"  {a_pkey} with {b_pkey}: {explain_match(a_pkey, b_pkey)}"


def _p_keys(texts: Iterable[str]) -> list[PKey]:
    from ibkeys.keys.pkey import PKey

    return [PKey(int(text, 16)) for text in texts]


def _why_unknown(document: JsonRow) -> str:
    """Return why a result about a pair is not known."""
    on_routes = any(check["on_some_routes"] for match in document["by"] for check in match["checks"])
    if on_routes or not (document["unread"] or document["virtualized"]):
        return "it depends on the route" + ("" if document["packets"] else ", and routes are not read")
    return "not everything could be read"


def _write_other_traffic(document: JsonRow, names: tuple[str, str]) -> None:
    """Write which packets of other kinds pass: SMPs, GMPs, raw packets and RD."""
    traffic = document["traffic"]
    gmps, datagrams = {
        True: ("pass with any P_Key above", "pass with the P_Key of their EE contexts, if it is above"),
        False: ("as above: no request gets an answer", "as above: the EE contexts use one P_Key each"),
        None: ("not known", "not known, as above"),
    }[document["can_talk"]]
    smps = "pass, whatever the P_Keys are" if traffic["smps"] else "do not pass: there is no link"
    write(f"  SMPs (QP0): {smps}")
    if document["not_active"]:
        write("  GMPs (QP1), raw packets and RD (reliable datagram): none get through, as above")
        return
    write(f"  GMPs (QP1): {gmps}")
    if traffic["raw_a_to_b"] and traffic["raw_b_to_a"]:
        write("  raw packets: pass both ways: they carry no P_Key")
    else:
        for way, (source, destination) in (("a_to_b", names), ("b_to_a", names[::-1])):
            write(exits.clean(f"  raw packets, {source} to {destination}: {_raw_in_words(traffic, way)}"))
    write(f"  RD (reliable datagram): {datagrams}")


def _raw_in_words(traffic: JsonRow, way: str) -> str:
    filters = [each for each in traffic["raw_dropped_by"] if each["way"] == way]
    named = [f"{_port_text(each)} ({each['field']})" for each in filters[:MAY_STOP_LISTED]]
    rest = len(filters) - len(named)
    by = " and ".join([*named, counted(rest, "more switch port")] if rest else named)
    if filters:
        return f"not known: on some routes dropped by {by}" if filters[0]["on_some_routes"] else f"dropped by {by}"
    return {True: "pass", False: "lost, as above", None: "not known"}[traffic[f"raw_{way}"]]


def _names(one: JsonRow, other: JsonRow) -> tuple[str, str]:
    names = _short_name(one), _short_name(other)
    return names if names[0] != names[1] else (_port_text(one), _port_text(other))


def _short_name(port: JsonRow) -> str:
    """Return the name of a port's node, with the port number if the node is no switch and has several ports."""
    several = port["node_type"] != "switch" and port["num_ports"] > 1
    return f"{port['node_desc'] or port['node_guid']}" + (f" port {port['port']}" if several else "")


def _port_text(port: JsonRow) -> str:
    """Return the port as errors and notes name it."""
    return str(PortId.of_json(port))


def _in_words(ways: JsonRow, one: str, other: str, reason: str) -> str:
    match ways["can_talk"], ways["a_to_b"], ways["b_to_a"]:
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


def _role_of(ways: JsonRow) -> str:
    """Return the colour of a verdict."""
    if ways["can_talk"]:
        return "good"
    return "doubtful" if ways["can_talk"] is None or ways["a_to_b"] is not ways["b_to_a"] else "bad"


def _check_in_words(check: JsonRow, inbound_check: InboundCheck, source: str, destination: str) -> str:
    if check["index"] is None:
        return f"stopped: {_stop_in_words(check, inbound_check)}"
    how = f"entry {check['index']} of its P_Key table, {check['entry']}, {_fits(check, inbound_check)}"
    by = f"{check['direction']} enforcement: {how}"
    return f"{source} to {destination}: {_port_text(check)} passes {check['pkey']} ({by})"


def _fits(check: JsonRow, inbound_check: InboundCheck) -> str:
    by_partition = (check["direction"], inbound_check) == ("inbound", "partition")
    return "belongs to that partition" if by_partition else "matches"


def _stop_in_words(check: JsonRow, inbound_check: InboundCheck) -> str:
    where = "that come from" if check["direction"] == "inbound" else "on their way to"
    peer = _short_name(check["peer"]) if check["peer"] is not None else "its link"
    return (
        f"{_port_text(check)} drops packets with {check['pkey']} {where} {peer} "
        f"({check['direction']} enforcement: no entry of its P_Key table {_fits(check, inbound_check)})"
    )
