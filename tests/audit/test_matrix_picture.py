"""The partition matrix: what it shows is what the tables say, no label meets another, and no name breaks it."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.audit.formats.matrix_page import render_matrix
from ibkeys.audit.pictures.columns import MOST, Matrix, lay_out
from ibkeys.audit.pictures.fabric_map import FabricMap
from ibkeys.audit.pictures.matrix import BAND, matrix_parts, matrix_svg
from ibkeys.audit.pictures.svg import fitting, text_width
from ibkeys.reach.reach import Reach
from ibkeys.topology.model import Topology
from tests.audit.looking import enforce
from tests.audit.pages import Page, contrast
from tests.audit.reports import NASTY
from tests.audit.tables import Partition, channel_adapter, reach_of
from tests.fabricsim import limited_members, subnet, tool

SVG = "{http://www.w3.org/2000/svg}"

GUIDS = st.lists(st.integers(1, 30), unique=True, max_size=12)
TABLES = st.lists(st.tuples(st.integers(1, 0x7FFF), GUIDS, GUIDS), unique_by=lambda each: each[0], max_size=8)


def matrix_of(partitions: list[Partition], names: dict[int, str] | None = None) -> Matrix:
    return lay_out(reach_of(partitions), names)


def page_of(matrix: Matrix) -> str:
    return render_matrix(matrix, FabricMap())


@given(TABLES)
def test_the_columns_hold_every_port_once_with_all_its_memberships(partitions: list[Partition]) -> None:
    columns = matrix_of(partitions).columns
    ports = [port.port_guid for column in columns for port in column.ports]
    assert len(ports) == len(set(ports))
    found = {(port.port_guid, key, kind) for column in columns for port in column.ports for key, kind in column.keys}
    for partition, full, limited in partitions:
        for port in {*full, *limited}:
            kind = "both" if port in full and port in limited else "full" if port in full else "limited"
            assert (port, partition, kind) in found
    assert len(found) == sum(len({*full, *limited}) for _, full, limited in partitions)
    assert len({column.keys for column in columns}) == len(columns)


@given(TABLES)
def test_who_can_talk_by_the_traffic_of_columns_is_who_can_talk_by_reach(partitions: list[Partition]) -> None:
    reach = reach_of(partitions)
    columns = lay_out(reach).columns
    pairs = set()
    for one in columns:
        for other in columns:
            shared = (one.traffic or {}).keys() & (other.traffic or {}).keys()
            sends = [((one.traffic or {})[p], (other.traffic or {})[p]) for p in shared]
            if any(mine.sends_to(theirs) and theirs.sends_to(mine) for mine, theirs in sends):
                pairs |= {frozenset((a, b)) for a in one.ports for b in other.ports if a is not b}
    assert pairs == {frozenset(pair) for pair in reach.talking_pairs()}


def test_ports_with_equal_tables_whose_switch_ports_differ_are_two_columns() -> None:
    net = limited_members("node02 mlx4_0")
    enforce(net)
    leaf = net.port("node03 mlx4_0", 1).peer
    assert leaf is not None
    leaf.p_keys = [0x7FFF]
    with tool(net) as fabric:
        columns = lay_out(Reach(fabric.sweep(p_keys=True))).columns
    named = {name: column for column in columns for name in column.names}
    assert named["node03 mlx4_0"].keys == named["node[04-06] mlx4_0"].keys
    assert (named["node03 mlx4_0"].stopped, named["node[04-06] mlx4_0"].stopped) == ((1,), ())


def test_what_was_not_read_is_a_column_without_traffic_and_what_has_no_table_is_named() -> None:
    net = limited_members()
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
    (port,) = [each for each in found.end_ports() if each.node.description == "node02 mlx4_0"]
    assert port.peer is not None
    port.peer.p_key_raw = None
    found.nodes.append(channel_adapter(99, None, "silent mlx4_0"))
    matrix = lay_out(Reach(found))
    (column,) = [each for each in matrix.columns if each.traffic is None]
    assert column.names == ("node02 mlx4_0",)
    assert matrix.unread == ["node02,silent mlx4_0"]
    page = Page(page_of(matrix)).text["shown"]
    assert "what its switch ports let through was not read" in page
    assert "was not read: node02,silent mlx4_0" in page


# --- the picture -----------------------------------------------------------------------------------------------------


def labels(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


Box = tuple[float, float, float, float]


def boxes(svg: str) -> tuple[list[Box], Box]:
    """Return where the labels of a picture are, at most (left, top, right, bottom), and the picture itself."""
    root = ElementTree.fromstring(svg)
    found = []
    shifts = {id(each): group for group in root.iter(f"{SVG}g") for each in group.iter(f"{SVG}text")}
    for label in root.iter(f"{SVG}text"):
        width = text_width(label.text or "".join(child.tail or "" for child in label))
        group = shifts.get(id(label))
        shift = float(re.findall(r"translate\(([\d.]+)", group.get("transform", ""))[0]) if group is not None else 0
        if "rotate" in label.get("transform", ""):
            x, y = map(float, re.findall(r"translate\(([\d.]+) ([\d.]+)\)", label.get("transform", ""))[0])
            found.append((x + shift - 10, y - width, x + shift + 3, y))
        else:
            x, y = float(label.get("x", "")) + shift, float(label.get("y", ""))
            found.append((x, y - 10, x + width, y + 3))
    return found, (0, 0, float(root.get("width", "")), float(root.get("height", "")))


@given(TABLES, st.dictionaries(st.integers(1, 30), st.text(max_size=60)), st.text(max_size=60))
def test_no_label_meets_another_and_none_leaves_the_picture(
    partitions: list[Partition], names: dict[int, str], name: str
) -> None:
    matrix = lay_out(reach_of(partitions, names), {each[0]: name for each in partitions})
    for svg in (matrix_svg(matrix), *(part for parts in matrix_parts(matrix) for part in parts)):
        found, picture = boxes(svg)
        for left, top, right, bottom in found:
            assert min(left, top) >= 0
            assert right <= picture[2]
            assert bottom <= picture[3]
        for one, other in combinations(found, 2):
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        for partition, *_ in partitions if 'aria-label="columns' not in svg else ():
            assert any(f"0x{partition:04x}" in label for label in labels(svg)) or partition not in {
                row.partition for row in matrix.rows
            }


@given(st.text(max_size=80), st.integers(20, 200))
def test_a_text_that_is_cut_fits_and_begins_as_it_did(words: str, most: int) -> None:
    shown = fitting(words, most)
    assert text_width(shown) <= most
    if not shown.endswith("…"):
        assert shown == fitting(words, 10_000)


def cells(svg: str) -> list[str]:
    return [
        title.text or ""
        for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect")
        if rect.get("class") in {"full", "limited"} and (title := rect.find(f"{SVG}title")) is not None
    ]


def test_neighbours_that_are_alike_are_one_rectangle() -> None:
    partitions: list[Partition] = [(0x7FFF, [], [1, 2, 3, 4]), (0x10, [1], []), (0x11, [2, 3], [3])]
    svg = matrix_svg(matrix_of(partitions, {0x7FFF: "Default", 0x10: "red", 0x11: "blue"}))
    assert sorted(cells(svg)) == [
        "0x0010 red: full",
        "0x0011 blue: both",
        "0x0011 blue: full",
        "0x7fff Default: limited",
    ]
    assert any(label.endswith("1: host00001 mlx5_0") for label in labels(svg))


def test_columns_are_named_by_folded_hosts() -> None:
    svg = matrix_svg(matrix_of([(1, range(1, 49), []), (2, range(49, 51), [])]))
    assert [label for label in labels(svg) if "host" in label] == [
        "host[00001-00048] mlx5_01: 48 ports host[00001-00048] mlx5_0",
        "host[00049-00050] mlx5_02: 2 ports host[00049-00050] mlx5_0",
    ]


def test_a_page_has_the_columns_in_bands_each_with_the_labels_of_the_rows() -> None:
    matrix = matrix_of([(n, [n], []) for n in range(1, BAND + 6)])
    parts = matrix_parts(matrix)
    heads = [[label for label in labels(band) if "host" in label] for _, band in parts]
    assert [len(each) for each in heads] == [BAND, 5]
    assert labels(parts[0][0]) == labels(parts[1][0])
    assert 'data-first="24"' in parts[1][1]


@pytest.mark.soak
def test_forty_thousand_ports_stay_small_and_what_has_no_room_is_counted() -> None:
    tenants = 500
    partitions: list[Partition] = [(0x7FFF, [], range(1, 40_001))]
    partitions += [(0x100 + tenant, range(1 + 80 * tenant, 81 + 80 * tenant), []) for tenant in range(tenants)]
    matrix = matrix_of(partitions)
    svg = matrix_svg(matrix)
    assert len(svg) < 300_000
    assert (len(matrix.columns), len(matrix.rows), matrix.ports) == (MOST, MOST, 40_000)
    assert matrix.left_out.startswith(
        "Left out for lack of space: 100 kinds of ports (8,000 ports) and 101 partitions;"
    )
    assert matrix.left_out in svg
    page = page_of(matrix)
    assert len(page) < 2_000_000
    assert matrix.left_out in page


def test_one_partition_of_forty_thousand_ports_is_one_column() -> None:
    svg = matrix_svg(matrix_of([(0x7FFF, range(1, 40_001), [])]))
    assert "1: 40,000 ports host[00001-40000]" in svg
    assert len(svg) < 6000


def test_no_partition_is_a_picture_too() -> None:
    assert "no partition" in matrix_svg(lay_out(Reach(Topology([]))))
    assert "0 partitions, 0 ports" in page_of(lay_out(Reach(Topology([]))))


def test_hostile_names_stay_text() -> None:
    svg = matrix_svg(lay_out(reach_of([(1, [1], [])], {1: NASTY}), {1: NASTY}))
    root = ElementTree.fromstring(svg)
    assert not [each for each in root.iter() if each.tag.rpartition("}")[2] in {"script", "b"}]
    assert not {char for char in svg if not char.isprintable()} - {"\n"}


@pytest.mark.parametrize("dark", [False, True])
def test_the_matrix_can_be_read_in_light_and_in_dark(dark: bool) -> None:
    style = matrix_svg(matrix_of([])).split("prefers-color-scheme: dark")[dark]
    named = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", style))
    assert contrast(named["text"], named["page"]) >= 4.5
    assert contrast(named["muted"], named["page"]) >= 4.5
    assert contrast(named["full"], named["page"]) >= 3
    assert contrast(named["edge"], named["page"]) >= 3
    assert contrast(named["limited"], named["full"]) >= 3


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_names_every_port_folded_and_one_by_one_and_says_what_a_script_needs_for_why() -> None:
    page = Page(page_of(matrix_of([(0x7FFF, [1], range(2, 3001)), (0x10, [], [5, 6])])))
    shown = page.text["shown"]
    for guid in range(1, 3001):
        assert f"0x{guid:016x} port 1 host{guid:05d} mlx5_0\n" in shown
    assert "host[00002-00004,00007-03000] mlx5_0" in shown
    lines = [attrs for tag, attrs in page.elements if tag == "tr" and "data-traffic" in attrs]
    assert [(line["data-count"], line["data-kinds"]) for line in lines] == [
        ("2", "16:limited 32767:limited"),
        ("1", "32767:full"),
        ("2997", "32767:limited"),
    ]
    # a limited member sends the limited form (1) and takes the full one (2); a full one sends 2 and takes both (3)
    assert [line["data-traffic"] for line in lines] == ["16:1:2 32767:1:2", "32767:2:3", "32767:1:2"]


def test_the_rows_of_the_page_name_the_columns_of_their_members() -> None:
    shown = Page(page_of(matrix_of([(0x7FFF, [1], [2, 3, 4]), (0x10, [2], [2, 3])]))).text["shown"]
    assert "0x0010 1 port: column 1" in re.sub(r"\s+", " ", shown)
    assert re.search(r"0x7fff\s+1 port: column 3\s*3 ports: column 1-2,4", shown)


def test_only_the_partitions_asked_for_are_shown_and_told_apart() -> None:
    matrix = lay_out(reach_of([(0x7FFF, [1], [2, 3, 4]), (0x10, [2], [3])]), None, {0x7FFF})
    assert [row.partition for row in matrix.rows] == [0x7FFF]
    assert [column.names for column in matrix.columns] == [("host00001 mlx5_0",), ("host[00002-00004] mlx5_0",)]


def test_ports_of_a_real_sweep_are_all_there() -> None:
    found = tool(subnet("ft648")).sweep(p_keys=True)
    matrix = lay_out(Reach(found))
    assert matrix.ports == sum(1 for _ in found.end_ports())
