"""Packets along their routes, for `why`: as documents, and in words hop by hop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits
from ibkeys.cli.documents.field import JsonRow
from ibkeys.cli.exits import write
from ibkeys.cli.screen.lines import NARROW
from ibkeys.mad.const import NODE_TYPE_NAMES
from ibkeys.printable import counted
from ibkeys.topology.port_id import PortId

if TYPE_CHECKING:
    from ibkeys.reach.packet import HopCheck, PacketPath
    from ibkeys.topology.forwarding import Hop

_NAME_COLUMNS: Final = 40
"""A longer name of a node is shortened in the middle, so that a hop fits 80 columns."""
_ENDS: Final = {
    "no entry": "its forwarding table has no port for this LID",
    "above LinearFDBTop": "it forwards no LID above its LinearFDBTop, so not this one",
    "no such port": "its forwarding table names a port that it does not have",
    "link not active": "data packets do not pass the link behind that port: an end is not Active",
    "loop": "the packet was here before, so it circulates",
    "LID of another port": "the packet comes to another port",
    "table not read": "its forwarding table was not read",
    "RandomForwardingTable": "it has no linear forwarding table",
    "own LID not at port 0": "its forwarding table sends its own LID out of a port",
    "link not read": "the link behind that port was not read",
}
"""How a route ends, by `ibkeys.topology.forwarding.RouteEnd`."""


def path_document(way: str, path: PacketPath) -> JsonRow:
    """Return one packet with its hops for the document."""
    stop, checks = path.stopped_by, list(path.checks)
    return {
        "way": way,
        "lid": path.route.lid,
        "pkey": str(path.p_key),
        "outcome": path.outcome,
        "lost_by": path.lost_by,
        "counter": None if stop is None else stop.counter,
        "unread": None if path.unread is None else path.unread.identity(),
        "hops": [
            _hop_document(hop, [check for check in checks if check.hop == number])
            for number, hop in enumerate(path.route.hops[: path.last_hop + 1])
        ],
    }


def _hop_document(hop: Hop, checks: Sequence[HopCheck]) -> JsonRow:
    node = hop.node
    return {
        "node_guid": f"0x{node.guid:016x}",
        "node_desc": node.description,
        "node_type": NODE_TYPE_NAMES.get(node.type),
        "in_port": None if hop.in_port is None else hop.in_port.num,
        "out_port": None if hop.out_port is None else hop.out_port.num,
        "checks": [
            {
                "port": check.port.num,
                "direction": check.direction,
                "index": check.index,
                "entry": None if check.entry is None else str(check.entry),
            }
            for check in checks
        ],
    }


def write_packet_verdict(path: JsonRow) -> None:
    """Write whether one packet arrives, or where it is dropped."""
    write(exits.clean(f"  a packet with {path['pkey']} to LID {path['lid']}: {_outcome_in_words(path)}"))


def write_paths(paths: Sequence[JsonRow]) -> None:
    """Write the route to the base LID of each end port, hop by hop, with the checks of all P_Keys; then which other
    LIDs packets get to."""
    for way in dict.fromkeys(path["way"] for path in paths):
        of_way = [path for path in paths if path["way"] == way]
        base = [path for path in of_way if path["lid"] == of_way[0]["lid"]]
        _write_route(base)
        _write_other_lids(of_way, len(base))


def _write_route(paths: Sequence[JsonRow]) -> None:
    """Write the one route of packets with different P_Keys. Each may be stopped at another hop."""
    longest = max(paths, key=lambda path: len(path["hops"]))
    write(f"  route to LID {longest['lid']}, by the forwarding tables:")
    for number, hop in enumerate(longest["hops"]):
        checks = [
            (path["pkey"], check)
            for path in paths
            if number < len(path["hops"])
            for check in path["hops"][number]["checks"]
        ]
        line = exits.clean(f"    {_hop_in_words(hop)}")
        short = line + "".join(
            f"; {check['direction']}: entry {check['index']}, {check['entry']}" for _, check in checks
        )
        if len(paths) == 1 and len(short) <= NARROW and all(check["index"] is not None for _, check in checks):
            write(short)
            continue
        write(line)
        for key, check in checks:
            write(f"      {_check_in_words(key, check)}")
    for line in dict.fromkeys(_end_in_words(path) for path in paths if path["outcome"] in ("lost", "unknown")):
        write(exits.clean(f"      {line}"))


def _write_other_lids(paths: Sequence[JsonRow], per_lid: int) -> None:
    """Write to how many LIDs of an end port packets with each P_Key get, if it has several."""
    if len(paths) == per_lid:
        return
    for key in dict.fromkeys(path["pkey"] for path in paths):
        of_key = [path for path in paths if path["pkey"] == key]
        differing = [path for path in of_key if path["outcome"] != of_key[0]["outcome"]]
        got = sum(path["outcome"] == "delivered" for path in of_key)
        write(f"    with {key}: delivered to {got} of {counted(len(of_key), 'LID')} of this port")
        for path in differing:
            write(exits.clean(f"      LID {path['lid']}: {_outcome_in_words(path)}"))


def _hop_in_words(hop: JsonRow) -> str:
    name = _shortened(hop["node_desc"] or hop["node_guid"])
    entered, left = hop["in_port"], hop["out_port"]
    if entered is None:
        return f"{name}, port {left}" if left is not None else name
    return f"{name}, port {entered}" + (f" to {left}" if left is not None else "")


def _check_in_words(key: str, check: JsonRow) -> str:
    where = f"port {check['port']}, {check['direction']}"
    if check["index"] is None:
        return f"{where}: stops {key}, no entry of its P_Key table fits"
    return f"{where}: passes {key} by entry {check['index']}, {check['entry']}"


def _end_in_words(path: JsonRow) -> str:
    if path["unread"] is not None:
        return f"not known further: the check of {PortId.of_json(path['unread'])} was not read"
    return f"{'lost' if path['outcome'] == 'lost' else 'not known further'}: {_ENDS[path['lost_by']]}"


def _outcome_in_words(path: JsonRow) -> str:
    last = path["hops"][-1]
    name = last["node_desc"] or last["node_guid"]
    if path["outcome"] == "delivered":
        return "delivered"
    if path["outcome"] == "stopped":
        check = last["checks"][-1]
        return f"stopped at {name} port {check['port']} ({check['direction']}), which counts it in {path['counter']}"
    return f"{_end_in_words(path)} ({name})"


def _shortened(name: str) -> str:
    if len(name) <= _NAME_COLUMNS:
        return name
    half = (_NAME_COLUMNS - 3) // 2
    return f"{name[:half]}...{name[-half:]}"
