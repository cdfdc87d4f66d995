"""The map of a fabric: its switches by level, and behind each leaf its hosts, folded where they look the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, get_args

from ibkeys.audit.findings import SEVERITIES, Report, Severity
from ibkeys.audit.pictures.key_sets import KeySet, by_use, key_text, letter
from ibkeys.grouping import grouped
from ibkeys.keys.pkey import PARTITION_MASK
from ibkeys.topology.model import Topology
from ibkeys.topology.names.folded import FoldedNames, in_order, natural, ranges
from ibkeys.topology.nodes import Node, Port

Colouring = Literal["partition", "level", "finding"]
COLOURINGS: Final[tuple[Colouring, ...]] = get_args(Colouring)
Findings = Mapping[tuple[str, int], Severity]
"""(node GUID in hex, port) → the highest severity that fails there."""

MOST: Final = 3000
"""Groups of hosts that a map draws."""
UNREAD: Final = "?"
NO_KEY: Final = "none"
CLEAN: Final = "-"
_FEW: Final = 8
"""A switch with at most one host for so many links to switches is not a leaf: a manager's port is often on a spine.
"""


@dataclass(frozen=True, slots=True)
class BoxColours:
    """The texts and colours of a box, one for each `Colouring`: a letter for a set of P_Keys, the level (ProtectBits),
    the worst severity that fails.

    ``?``: not read. Ports with equal looks share a box.
    """

    partition: str
    level: str
    finding: str

    def by(self, colouring: Colouring) -> str:
        """Return the text of the box in one colouring."""
        shown: str = getattr(self, colouring)
        return shown


LooksOf = Callable[[Port, Iterable[Port]], BoxColours]
"""A function that returns the looks of a port, its first argument. The finding is the worst one of the second argument:
all ports that this port stands for."""


@dataclass(slots=True)
class Box:
    """A switch, or ports behind it that look the same. ``level``: 0 for leaves, more above; None for hosts."""

    names: Sequence[str]
    count: int
    looks: BoxColours
    level: int | None


@dataclass(slots=True)
class FabricMap:
    """The contents of a map.

    ``boxes``: switches by level, the leaves first, then ports that did not answer, then hosts in the order of the
    leaves; ``links``: pair of boxes, as indexes of ``boxes`` → the number of cables between these two switches, or
    between a switch and ports behind it; ``legend``: for each colouring the meaning of its words; ``partitions``: those
    of each letter; ``left_out``: the parts for which the map has no room.
    """

    boxes: list[Box] = field(default_factory=list)
    links: Counter[tuple[int, int]] = field(default_factory=Counter)
    legend: dict[Colouring, list[tuple[str, str]]] = field(default_factory=dict)
    partitions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    left_out: str = ""


def worst_findings(report: Report) -> Findings:
    """Return the worst severity that fails at each port of *report*."""
    worst: dict[tuple[str, int], Severity] = {}
    for result in report.results:
        for subject in result.subjects:
            guid, port = subject.identity.get("node_guid"), subject.identity.get("port")
            if subject.result == "fail" and guid is not None and port is not None:
                severity = subject.severity or result.severity
                worst[guid, port] = min(worst.get((guid, port), severity), severity, key=SEVERITIES.index)
    return worst


def fabric_map(fabric: Topology, names: Mapping[int, str] | None = None, findings: Findings | None = None) -> FabricMap:
    """Return the map of *fabric*, whose P_Key tables were read.

    *names*: partition → its name. *findings*: the result of `worst_findings`; without it the map has no such colouring.
    """
    letters = {keys: letter(index) for index, keys in enumerate(by_use(map(_keys, fabric.end_ports())))}
    looks = partial(_looks, letters=letters, findings=findings or {})
    made = FabricMap(legend=_legend(fabric, letters, names or {}, findings is not None))
    made.partitions = {word: tuple(sorted({key & PARTITION_MASK for key in keys})) for keys, word in letters.items()}
    levels = _levels(fabric)
    usage = Counter(node.description for node in levels)
    places: dict[Node, int] = {}
    for node in sorted(levels, key=lambda node: (levels[node], natural(node.description or ""), node.guid)):
        places[node] = len(made.boxes)
        own = looks(node.port(0), node.ports.values())
        made.boxes.append(Box([_switch_name(node, usage)], 1, own, levels[node]))
    for node, place in places.items():
        for port in node.ports.values():
            if port.peer is not None and places.get(port.peer.node, -1) > place:
                made.links[place, places[port.peer.node]] += 1
    _add_hosts(made, fabric, places, looks)
    return made


def _switch_name(node: Node, usage: Mapping[str | None, int]) -> str:
    """Return the name of a switch. If another switch has the same name, the GUID comes first, because names are cut."""
    guid = f"0x{node.guid:016x}"
    if not node.description:
        return guid
    return node.description if usage[node.description] == 1 else f"{guid} {node.description}"


def _add_hosts(made: FabricMap, fabric: Topology, places: Mapping[Node, int], looks_of: LooksOf) -> None:
    called = FoldedNames(port.identity() for port in fabric.end_ports())

    def place_and_looks(port: Port) -> tuple[int, BoxColours]:
        place = places.get(port.peer.node, len(places)) if port.peer is not None else len(places)
        return place, looks_of(port, (port,))

    groups = grouped((port for port in fabric.end_ports() if not port.node.is_switch), place_and_looks)
    _add_silent(made, places)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], in_order(item[1][0].identity())))
    for (place, looks), ports in ordered[:MOST]:
        if place < len(places):
            made.links[place, len(made.boxes)] += len(ports)
        made.boxes.append(Box(called.words(port.identity() for port in ports), len(ports), looks, None))
    if len(ordered) > MOST:
        missing = sum(len(ports) for _, ports in ordered[MOST:])
        made.left_out = f"Left out for lack of space: {len(ordered) - MOST:,} groups of hosts ({missing:,} ports)."


def _add_silent(made: FabricMap, places: Mapping[Node, int]) -> None:
    """Add, for each switch, a box for the ports whose neighbour did not answer."""
    for node, place in places.items():
        silent = _silent(node)
        if silent:
            made.links[place, len(made.boxes)] += len(silent)
            name = f"did not answer, behind port {ranges([port.num for port in silent])}"
            made.boxes.append(Box([name], len(silent), BoxColours(UNREAD, UNREAD, CLEAN), None))


def _silent(node: Node) -> list[Port]:
    return [port for num, port in sorted(node.ports.items()) if num and port.is_linked and port.peer is None]


def _levels(fabric: Topology) -> dict[Node, int]:
    """Return the level of each switch: 0 for a leaf, and for others the distance to the nearest leaf.

    A leaf is a switch with more hosts than `_FEW` admits; if there is none, any switch with hosts; if there is none
    either, every switch. A switch without a path to a leaf has level 0.
    """
    near: dict[Node, list[Node]] = {}
    leaves = []
    some = []
    for node in fabric.nodes:
        if not node.is_switch:
            continue
        peers = [port.peer.node for port in node.ports.values() if port.peer is not None]
        near[node] = [peer for peer in peers if peer.is_switch]
        hosts = len(peers) - len(near[node]) + len(_silent(node))
        some += [node] if hosts else []
        leaves += [node] if hosts * _FEW > len(near[node]) else []
    levels = dict.fromkeys(leaves or some or near, 0)
    waiting = list(levels)
    for node in waiting:
        for peer in near[node]:
            if peer not in levels and peer in near:
                levels[peer] = levels[node] + 1
                waiting.append(peer)
    return levels | dict.fromkeys(near.keys() - levels.keys(), 0)


# --- the looks of a box -----------------------------------------------------------------------------------------------


def _looks(port: Port, all_ports: Iterable[Port], letters: Mapping[KeySet, str], findings: Findings) -> BoxColours:
    keys = _keys(port)
    guid = f"0x{port.node.guid:016x}"
    found = [severity for each in all_ports if (severity := findings.get((guid, each.num))) is not None]
    return BoxColours(
        UNREAD if keys is None else letters.get(keys, CLEAN),
        _level(port),
        min(found, key=SEVERITIES.index) if found else CLEAN,
    )


def _keys(port: Port) -> KeySet | None:
    entries = port.occupied
    return None if entries is None else tuple(sorted({int(key) for _, key in entries}))


def _level(port: Port) -> str:
    info = port.port_info
    if info is None:
        return UNREAD
    return NO_KEY if port.m_key_state == "zero" else str(info.m_key_protect_bits)


def _legend(
    fabric: Topology, letters: Mapping[KeySet, str], names: Mapping[int, str], has_findings: bool
) -> dict[Colouring, list[tuple[str, str]]]:
    tables = [_keys(port) for port in fabric.end_ports()]
    legend: dict[Colouring, list[tuple[str, str]]] = {
        "partition": [
            *((word, ", ".join(key_text(key, names) for key in keys)) for keys, word in letters.items()),
            *([(CLEAN, "no P_Key")] if () in tables else []),
            *([(UNREAD, "not read")] if None in tables else []),
        ],
        "level": [
            (NO_KEY, "no M_Key: any host can set anything"),
            *((str(bits), f"M_Key, ProtectBits {bits}") for bits in range(4)),
            (UNREAD, "not read"),
        ],
    }
    if has_findings:
        severities: list[Any] = [(severity, f"a {severity} rule fails") for severity in SEVERITIES]
        legend["finding"] = [*severities, (CLEAN, "no rule fails")]
    return legend
