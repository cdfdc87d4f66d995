"""Folded output read back, as a person reads it: which ports a word names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from ClusterShell.RangeSet import RangeSet

Row = dict[str, Any]
Place = tuple[str, int]

_WORD = re.compile(
    r"(?P<name>.*?)(?P<guid> ?\(0x[0-9a-f]{16}(?:,0x[0-9a-f]{16})*\))?(?: port (?P<ports>[0-9,-]+))?", re.DOTALL
)


def unfold(word: str, rows: list[Row]) -> set[Place]:
    """Return the ports (node GUID, number) among *rows* that a word names, as a reader understands it."""
    found = _WORD.fullmatch(word)
    assert found is not None
    if found["guid"] is not None:
        guids = set(found["guid"].strip(" ()").split(","))
    else:
        hosts, blank, device = found["name"].partition(" ")
        devices = NodeSet(device, resolver=RESOLVER_NOGROUP) if re.search(r"[\[,]", device) else [device]
        names = {f"{host}{blank}{each}" for host in NodeSet(hosts, resolver=RESOLVER_NOGROUP) for each in devices}
        guids = {row["node_guid"] for row in rows if row["node_desc"] in names}
        assert len(guids) == len(names)
    if found["ports"] is None:
        places = {(row["node_guid"], row["port"]) for row in rows if row["node_guid"] in guids}
        assert len(places) == len(guids), "a name without a port number is that of one port"
        return places
    return {(guid, number) for guid in guids for number in map(int, RangeSet(found["ports"]))}


def unfolded(words: list[str], rows: list[Row]) -> list[Place]:
    return [place for word in words for place in unfold(word, rows)]


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
