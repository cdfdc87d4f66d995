"""A fabric as a Graphviz graph, coloured by partition: ``dot -Tsvg``, or ``sfdp -Tsvg`` for a large one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Final

from ibkeys.audit.pictures.key_sets import KeySet, by_use, key_text, letter
from ibkeys.audit.pictures.svg import listed
from ibkeys.printable import clean, counted
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port

DotColours = Mapping[KeySet, tuple[str, str]]
"""Set of P_Keys → its letter, and the attributes of a node that has it; those of most nodes first."""

PALETTE: Final = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00", "#0072b2")
"""Okabe and Ito, Color Universal Design (2008)."""
STYLES: Final = ("filled", "filled,dashed", "filled,bold")
"""The outlines: when the colours are used up, the outline changes; after that, only the letter distinguishes sets."""
REST: Final = "#d9d9d9"
_SHAPES: Final = {"switch": "box", "ca": "ellipse", "router": "diamond"}
_UNREAD: Final = "?", 'style="filled,dotted", fillcolor="#ffffff"'
_NO_KEY: Final = "no P_Key", 'style="filled", fillcolor="#ffffff"'
_LISTED: Final = 6
_MOST_NAME: Final = 40
_MOST_SETS: Final = 60
"""The most sets of P_Keys that the legend explains."""


def fabric_dot(fabric: Topology, names: Mapping[int, str] | None = None) -> str:
    """Return the graph: nodes by type, an edge for each cable, a colour and a letter for each set of P_Keys.

    *names*: partition → its name. The colour of a node shows the P_Keys of its end ports. A node is white with a ``?``
    if a table was not read, and white without a ``?`` if its tables are empty. Ports between switches have no P_Keys of
    their own in this picture.
    """
    ids = {node: f"n{index}" for index, node in enumerate(fabric.nodes)}
    held = {node: _keys(node) for node in fabric.nodes}
    usage = by_use(held.values())
    looks = {keys: (letter(index), _look(index)) for index, keys in enumerate(usage)}
    lines = [
        "graph fabric {",
        '  graph [overlap=false, splines=true, fontname="sans-serif"];',
        '  node [fontname="sans-serif", fontsize=10];',
        '  edge [fontname="sans-serif", fontsize=8, color="#707070"];',
        *(f"  {ids[node]} [{_node(node, held[node], looks)}];" for node in fabric.nodes),
        *_edges(fabric, ids),
        *_legend(usage, looks, names or {}, any(keys is None for keys in held.values())),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _keys(node: Node) -> KeySet | None:
    """Return the P_Keys of a node's end ports; None when the table of an end port that was reached was not read."""
    found: set[int] = set()
    for port in node.ports.values():
        if port.is_end_port and (node.is_switch or port.path is not None):
            entries = port.occupied
            if entries is None:
                return None
            found.update(key for _, key in entries)
    return tuple(sorted(found))


def _node(node: Node, keys: KeySet | None, looks: DotColours) -> str:
    name = node.description or f"0x{node.guid:016x}"
    shape = _SHAPES.get(node.type_name, "hexagon")
    tag, look = _UNREAD if keys is None else looks.get(keys, _NO_KEY)
    tooltip = f"{node.type_name} 0x{node.guid:016x}"
    return f"label={_quoted(_cut(name), tag)}, shape={shape}, {look}, tooltip={_quoted(tooltip)}"


def _edges(fabric: Topology, ids: Mapping[Node, str]) -> Iterator[str]:
    """Yield a line for each cable between nodes of *ids*, each cable once."""
    drawn: set[Port] = set()
    for node in fabric.nodes:
        for _, port in sorted(node.ports.items()):
            peer = port.peer
            if peer is None or peer in drawn or peer.node not in ids:
                continue
            drawn.add(port)
            yield f'  {ids[node]} -- {ids[peer.node]} [taillabel="{port.num}", headlabel="{peer.num}"];'


def _legend(usage: Mapping[KeySet, int], looks: DotColours, names: Mapping[int, str], unread: bool) -> Iterator[str]:
    yield "  subgraph cluster_legend {"
    yield '    label="P_Keys"; fontsize=11; color="#a0a0a0";'
    for index, (keys, (tag, look)) in enumerate(itertools.islice(looks.items(), _MOST_SETS)):
        nodes = counted(usage[keys], "node")
        keys_text = listed([key_text(key, names) for key in keys], _LISTED)
        yield f"    l{index} [label={_quoted(f'{tag}: {keys_text} ({nodes})')}, shape=box, {look}];"
    if len(looks) > _MOST_SETS:
        yield f'    more [label="and {len(looks) - _MOST_SETS:,} more sets", shape=plaintext];'
    # one below the other, in this order
    chain = [f"l{index}" for index in range(min(len(looks), _MOST_SETS))]
    chain += ["more"] * (len(looks) > _MOST_SETS) + ["unread"] * unread
    if len(chain) > 1:
        yield f"    {' -- '.join(chain)} [style=invis];"
    if unread:
        yield f'    unread [label="{_UNREAD[0]}: not read", shape=box, {_UNREAD[1]}];'
    if not looks and not unread:
        yield '    none [label="no P_Keys", shape=plaintext];'
    yield "  }"


def _look(index: int) -> str:
    turn, colour = divmod(index, len(PALETTE))
    if turn >= len(STYLES):
        return f'style="filled", fillcolor="{REST}", fontcolor="#000000"'
    fill = PALETTE[colour]
    font = "#ffffff" if fill == "#0072b2" else "#000000"
    return f'style="{STYLES[turn]}", fillcolor="{fill}", fontcolor="{font}"'


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_NAME else name[: _MOST_NAME - 1] + "…"


def _quoted(*lines: str) -> str:
    """Return lines as one DOT string, in which a backslash of a name is one, not an escape such as ``\\N``."""
    written = (clean(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(written) + '"'
