"""Pictures: what they show is what the tables say, whatever its size, and no name breaks them."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree

import pytest

from ibkeys.audit.pictures.dot import PALETTE, fabric_dot
from ibkeys.audit.pictures.members import members_svg
from ibkeys.topology.model import Topology
from tests.audit.pages import contrast
from tests.audit.reports import NASTY
from tests.fabricsim import subnet, tool


def test_hostile_names_stay_text_in_bars() -> None:
    svg = members_svg([(1, NASTY, 1, 2)], 3)
    root = ElementTree.fromstring(svg)
    assert not [each for each in root.iter() if each.tag.rpartition("}")[2] in {"script", "b"}]
    assert not {char for char in svg if not char.isprintable()} - {"\n"}


def test_the_smallest_partition_is_still_seen_beside_a_very_large_one() -> None:
    root = ElementTree.fromstring(members_svg([(1, None, 39_999, 1), (2, None, 0, 1)], 40_000))
    widths = [
        float((rect.get("width") or "").rstrip("%")) for rect in root.iter("rect") if rect.get("class") != "track"
    ]
    assert all(width > 0 for width in widths)
    assert sum(widths[:2]) <= 100.01
    assert len(widths) == 3


# --- the fabric as a graph -------------------------------------------------------------------------------------------


def fabric(name: str = "dual-home") -> Topology:
    """Return a fabric whose CAs are in three partitions."""
    found = tool(subnet(name)).sweep(p_keys=True)
    cas = [node for node in found.nodes if not node.is_switch]
    for index, node in enumerate(cas):
        for port in node.ports.values():
            if port.p_key_raw is not None:
                port.p_key_raw = struct.pack(">2H", 0x7FFF, 0x8010 + index % 3) + port.p_key_raw[4:]
    return found


def statements(dot: str) -> tuple[dict[str, str], list[str]]:
    """Return the nodes with their attributes, and the edges, of a graph as `fabric_dot` writes it."""
    nodes = dict(re.findall(r"^  (n\d+) \[(.*)\];$", dot, re.M))
    return nodes, re.findall(r"^  (n\d+ -- n\d+) \[.*\];$", dot, re.M)


@pytest.mark.parametrize("name", ["two-switch", "dual-home", "ring-router"])
def test_every_node_and_every_cable_is_drawn_once(name: str) -> None:
    found = fabric(name)
    nodes, edges = statements(fabric_dot(found))
    cables = {frozenset((port, port.peer)) for port in found.ports() if port.peer is not None}
    assert len(nodes) == len(found.nodes)
    assert len(edges) == len(cables)


def test_nodes_are_drawn_by_type_and_coloured_by_their_p_keys() -> None:
    found = fabric()
    dot = fabric_dot(found, {0x10: "red"})
    nodes, _ = statements(dot)
    looks: dict[tuple[int, ...], set[str]] = {}
    for node, attributes in zip(found.nodes, nodes.values(), strict=True):
        assert f"shape={'box' if node.is_switch else 'ellipse'}" in attributes
        keys = {int(key) for port in node.ports.values() if port.is_end_port for _, key in port.occupied or ()}
        looks.setdefault(tuple(sorted(keys)), set()).add(re.findall(r'fillcolor="(#\w+)"', attributes)[0])
    assert all(len(colours) == 1 for colours in looks.values())
    assert len({next(iter(colours)) for colours in looks.values()}) == len(looks) == 4
    assert re.search(r'l\d \[label="[A-D]: 0x7fff limited, 0x0010 red full \(\d nodes?\)"', dot)


def test_a_table_that_was_not_read_is_neither_empty_nor_coloured() -> None:
    found = fabric()
    switch = next(node for node in found.nodes if node.is_switch)
    switch.ports[0].p_key_raw = None
    host = next(node for node in found.nodes if not node.is_switch)
    for port in host.ports.values():
        port.p_key_raw = bytes(64)
    nodes = dict(zip(found.nodes, statements(fabric_dot(found))[0].values(), strict=True))
    assert '\\n?"' in nodes[switch]
    assert "dotted" in nodes[switch]
    assert '\\nno P_Key"' in nodes[host]
    assert "not read" in fabric_dot(found)


def test_a_hostile_name_is_one_quoted_string() -> None:
    found = fabric()
    found.nodes[0].description = 'a"b\\N\\'
    found.nodes[1].description = NASTY
    lines = fabric_dot(found).splitlines()
    assert lines[4].startswith('  n0 [label="a\\"b\\\\N\\\\\\nA", shape=')
    # every line has its strings closed
    assert all(len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0 for line in lines)


def test_colours_that_are_used_up_come_again_with_another_outline() -> None:
    found = tool(subnet("ft648")).sweep(p_keys=True)
    hosts = [node for node in found.nodes if not node.is_switch]
    for index, node in enumerate(hosts):
        for port in node.ports.values():
            if port.p_key_raw is not None:
                port.p_key_raw = struct.pack(">H", 0x8001 + index) + bytes(62)
    looks = re.findall(r'^    l\d+ \[.*style="([\w,]+)", fillcolor="(#\w+)"', fabric_dot(found), re.M)
    assert len(set(looks[: 3 * len(PALETTE)])) == 3 * len(PALETTE)
    assert f"and {len(hosts) + 1 - 60:,} more sets" in fabric_dot(found)


def test_labels_can_be_read_on_every_colour() -> None:
    found = tool(subnet("ft648")).sweep(p_keys=True)
    for index, node in enumerate(found.nodes):
        for port in node.ports.values():
            if port.is_end_port and port.p_key_raw is not None:
                port.p_key_raw = struct.pack(">H", 0x8001 + index % 30) + bytes(62)
    pairs = set(re.findall(r'fillcolor="(#\w{6})", fontcolor="(#\w{6})"', fabric_dot(found)))
    assert len(pairs) == len(PALETTE) + 1
    assert all(contrast(fill, font) >= 4.5 for fill, font in pairs)
