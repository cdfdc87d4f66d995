"""Folded output read back, as a person reads it: which ports a word names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from ClusterShell.RangeSet import RangeSet

Row = dict[str, Any]
Place = tuple[str, int]
Link = tuple[Row, Row | None]
"""An external port of a switch, and the port that it is linked to; None for no link."""

_GUID = r"0x[0-9a-f]+(?:\[[0-9a-f,]+\])?"
_WORD = re.compile(
    rf"(?P<name>.*?)(?P<guid> ?\({_GUID}(?:,{_GUID})*\))?"
    r"(?: ports? (?P<ports>[0-9,-]+|to hosts|to switches|without a link))?",
    re.DOTALL,
)
_EVERYONE = re.compile(
    r"all [0-9,]+ (?P<kind>hosts|HCAs|switches)(?: port (?P<port>[0-9,-]+))?(?: but [0-9,]+: (?P<but>.*))?"
)
_LEAF_PORTS = "leaf ports of "
_WITH_LEAF_PORTS = re.compile(r"(.*) and (?:its leaf port|their leaf ports)", re.DOTALL)


def unfold(word: str, rows: list[Row], links: Sequence[Link] = ()) -> set[Place]:
    """Return the ports (node GUID, number) among *rows* that a word names, as a reader understands it who knows the
    *links* of the fabric."""
    leaf_ports = {_place(far): _place(near) for near, far in links if _kind(far) == "to hosts" and far is not None}
    hosts = [far for _, far in links if far is not None and _place(far) in leaf_ports]
    if word.startswith(_LEAF_PORTS):
        return {leaf_ports[host] for host in unfold(word.removeprefix(_LEAF_PORTS), hosts)}
    if both := _WITH_LEAF_PORTS.fullmatch(word):
        named = unfold(both[1], hosts)
        return named | {leaf_ports[host] for host in named}
    if everyone := _EVERYONE.fullmatch(word):
        kind = {"hosts": "ca", "HCAs": "ca", "switches": "switch"}[everyone["kind"]]
        named = {_place(row) for row in rows if row["node_type"] == kind}
        if everyone["port"]:
            named = {place for place in named if place[1] in RangeSet(everyone["port"])}
        left_out = unfold(everyone["but"], rows, links) if everyone["but"] else set()
        assert left_out <= named
        return named - left_out
    found = _WORD.fullmatch(word)
    assert found is not None
    if found["guid"] is not None:
        guids = set(_guids(found["guid"].strip(" ()")))
    else:
        hosts_named, blank, device = found["name"].partition(" ")
        devices = NodeSet(device, resolver=RESOLVER_NOGROUP) if re.search(r"[\[,]", device) else [device]
        names = {f"{host}{blank}{each}" for host in NodeSet(hosts_named, resolver=RESOLVER_NOGROUP) for each in devices}
        guids = {row["node_guid"] for row in rows if row["node_desc"] in names}
        assert len(guids) == len(names)
    if found["ports"] is None:
        places = {_place(row) for row in rows if row["node_guid"] in guids}
        assert len(places) == len(guids), "a name without a port number is that of one port"
        return places
    if not found["ports"][0].isdigit():
        return {_place(near) for near, far in links if near["node_guid"] in guids and _kind(far) == found["ports"]}
    return {(guid, number) for guid in guids for number in map(int, RangeSet(found["ports"]))}


def _place(row: Row) -> Place:
    return row["node_guid"], row["port"]


def _kind(far: Row | None) -> str:
    if far is None:
        return "without a link"
    return "to switches" if far["node_type"] == "switch" else "to hosts"


def _guids(text: str) -> Iterable[str]:
    """Yield the GUIDs of ``0x1,0x2[3,4]``."""
    for shared, ends in re.findall(r"(0x[0-9a-f]+)(?:\[([0-9a-f,]+)\])?", text):
        yield from (shared + end for end in ends.split(","))


def unfolded(words: list[str], rows: list[Row], links: Sequence[Link] = ()) -> list[Place]:
    return [place for word in words for place in unfold(word, rows, links)]


def links_of(document: Row) -> list[Link]:
    """Return the links that `ibkeys discover -f json` shows; ports of which nothing is known are in none."""
    nodes = document["nodes"]
    named = {node["node_guid"]: (node["node_desc"], node["node_type"]) for node in nodes}

    def row(guid: str, port: int) -> Row:
        name, kind = named[guid]
        return {"node_guid": guid, "node_desc": name, "node_type": kind, "port": port}

    return [
        (row(node["node_guid"], port["port"]), row(peer["node_guid"], peer["port"]) if peer else None)
        for node in nodes
        if node["node_type"] == "switch"
        for port in node["ports"]
        for peer in [port["peer"]]
        if port["port"] and (peer or port["state"] is not None)
    ]


def words_below(lines: Iterable[str]) -> list[str]:
    """Return the words that stand indented below other lines, those on several lines put together."""
    words: list[str] = []
    for line in lines:
        if line.startswith("      ") and words and words[-1].endswith(","):
            words[-1] += line.strip()
        elif line.startswith("    "):
            words.append(line.strip())
    return words


def words_of(lines: Iterable[str]) -> list[str]:
    """Return the words that stand in *lines*, in which a long one goes on further in."""
    words: list[str] = []
    for line in lines:
        if line.startswith("      ") and words and words[-1].endswith(","):
            words[-1] += line.removeprefix("      ")
        else:
            words.append(line.removeprefix("    "))
    return words
