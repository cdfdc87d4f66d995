"""Pictures: what they show is what the tables say, whatever its size, and no name breaks them."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.audit.formats.matrix_page import render_matrix
from ibkeys.audit.pictures.dot import PALETTE, fabric_dot
from ibkeys.audit.pictures.matrix import MOST, Partition, columns_of, lay_out, partition_matrix_svg
from ibkeys.audit.pictures.members import members_svg
from ibkeys.topology.model import Topology
from tests.audit.reports import NASTY
from tests.audit.test_html import contrast
from tests.fabricsim import subnet, tool

SVG = "{http://www.w3.org/2000/svg}"

tables = st.lists(
    st.tuples(
        st.integers(1, 0x7FFF),
        st.none() | st.text(max_size=40),
        st.lists(st.integers(1, 30), unique=True, max_size=12),
        st.lists(st.integers(1, 30), unique=True, max_size=12),
    ),
    unique_by=lambda each: each[0],
    max_size=8,
)


@given(tables)
def test_the_columns_hold_every_port_once_with_all_its_memberships(partitions: list[Partition]) -> None:
    columns = columns_of(partitions)
    ports = [port for column in columns for port in column.ports]
    assert len(ports) == len(set(ports))
    found = {(port, key, kind) for column in columns for port in column.ports for key, kind in column.keys}
    for partition, _, full, limited in partitions:
        for port in {*full, *limited}:
            kind = "both" if port in full and port in limited else "full" if port in full else "limited"
            assert (port, partition, kind) in found
    assert len(found) == sum(len({*full, *limited}) for _, _, full, limited in partitions)
    assert len({column.keys for column in columns}) == len(columns)


@given(tables)
def test_any_matrix_is_well_formed_svg_with_a_label_for_each_partition(partitions: list[Partition]) -> None:
    root = ElementTree.fromstring(partition_matrix_svg(partitions))
    labels = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    for partition, *_ in partitions:
        assert any(f"0x{partition:04x}" in label for label in labels)


def cells(root: ElementTree.Element) -> list[str]:
    return [
        title.text or ""
        for rect in root.iter(f"{SVG}rect")
        if rect.get("class") in {"full", "limited"} and (title := rect.find(f"{SVG}title")) is not None
    ]


def test_neighbours_that_are_alike_are_one_rectangle() -> None:
    partitions: list[Partition] = [
        (0x7FFF, "Default", [], [1, 2, 3, 4]),
        (0x10, "red", [1], []),
        (0x11, "blue", [2, 3], [3]),
    ]
    root = ElementTree.fromstring(partition_matrix_svg(partitions, {1: "host1"}))
    assert sorted(cells(root)) == [
        "0x0010 red: full",
        "0x0011 blue: both",
        "0x0011 blue: full",
        "0x7fff Default: limited",
    ]
    assert any(text.text is None and "host1" in "".join(text.itertext()) for text in root.iter(f"{SVG}text"))


def test_forty_thousand_ports_stay_small_and_what_has_no_room_is_counted() -> None:
    tenants = 500
    partitions: list[Partition] = [(0x7FFF, "Default", [], range(1, 40_001))]
    partitions += [
        (0x100 + tenant, f"tenant-{tenant}", range(1 + 80 * tenant, 81 + 80 * tenant), []) for tenant in range(tenants)
    ]
    svg = partition_matrix_svg(partitions)
    assert len(svg) < 300_000
    matrix = lay_out(partitions)
    assert (len(matrix.columns), len(matrix.rows), matrix.ports) == (MOST, MOST, 40_000)
    assert matrix.left_out == "Left out for want of room: 100 kinds of ports (8,000 ports) and 101 partitions."
    assert matrix.left_out in svg
    page = render_matrix(partitions)
    assert len(page) < 600_000
    assert matrix.left_out in page


def test_one_partition_of_forty_thousand_ports_is_one_column() -> None:
    svg = partition_matrix_svg([(0x7FFF, None, range(1, 40_001), [])])
    assert "1: 40,000 ports" in svg
    assert len(svg) < 4000


def test_no_partition_is_a_picture_too() -> None:
    assert "no partition" in partition_matrix_svg([])


def test_hostile_names_stay_text_in_every_svg() -> None:
    for svg in (partition_matrix_svg([(1, NASTY, [1], [])], {1: NASTY}), members_svg([(1, NASTY, 1, 2)], 3)):
        root = ElementTree.fromstring(svg)
        assert not [each for each in root.iter() if each.tag.rpartition("}")[2] in {"script", "b"}]
        assert not {char for char in svg if not char.isprintable()} - {"\n"}


@pytest.mark.parametrize("dark", [False, True])
def test_the_matrix_can_be_read_in_light_and_in_dark(dark: bool) -> None:
    style = partition_matrix_svg([]).split("prefers-color-scheme: dark")[dark]
    named = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", style))
    assert contrast(named["text"], named["page"]) >= 4.5
    assert contrast(named["muted"], named["page"]) >= 4.5
    assert contrast(named["full"], named["page"]) >= 3
    assert contrast(named["edge"], named["page"]) >= 3
    assert contrast(named["limited"], named["full"]) >= 3


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
