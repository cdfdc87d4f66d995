"""The map of a fabric: every switch and every port is on it, coloured by what is true of it."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from ibkeys.audit.engine import audit
from ibkeys.audit.formats.matrix_page import render_matrix
from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.pictures.columns import lay_out
from ibkeys.audit.pictures.fabric_map import Box, FabricMap, fabric_map, worst_findings
from ibkeys.audit.pictures.map_plan import rails_and_lines
from ibkeys.audit.pictures.map_svg import FILLS, map_part, map_style, map_svg
from ibkeys.audit.pictures.svg import text_width
from ibkeys.reach.reach import Reach
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from tests.audit.looking import KEY, protect, taken
from tests.audit.pages import Page, contrast
from tests.audit.reports import NASTY
from tests.audit.tables import fabric_of
from tests.fabricsim import subnet, tool
from tests.fattree import fat_tree

SVG = "{http://www.w3.org/2000/svg}"
FABRICS = ["two-switch", "dual-home", "ring-router", "torus444", "dualport64"]


def swept(name: str) -> Topology:
    return tool(subnet(name)).sweep(p_keys=True)


def hosts(made: FabricMap) -> list[Box]:
    return [box for box in made.boxes if box.level is None]


@pytest.mark.parametrize("name", FABRICS)
def test_every_switch_every_port_and_every_cable_is_on_it(name: str) -> None:
    found = swept(name)
    made = fabric_map(found)
    switches = [node for node in found.nodes if node.is_switch]
    named = sorted(box.names[0] for box in made.boxes if box.level is not None)
    assert all(any((node.description or "") in name for name in named) for node in switches)
    assert len(set(named)) == len(switches)
    assert sum(box.count for box in hosts(made)) == sum(not port.node.is_switch for port in found.end_ports())
    cables = {frozenset((port, port.peer)) for node in switches for port in node.ports.values() if port.peer}
    assert sum(made.links.values()) == len(cables)


def test_hosts_behind_one_leaf_that_look_the_same_are_one_box() -> None:
    found = swept("ft648")
    made = fabric_map(found)
    leaves = [box for box in made.boxes if box.level == 0]
    assert {box.level for box in made.boxes} == {0, 1, None}
    assert len(hosts(made)) == len(leaves)
    named = NodeSet.fromlist([box.names[0].split()[0] for box in hosts(made)], resolver=RESOLVER_NOGROUP)
    assert sorted(named) == sorted(
        (port.node.description or "").split()[0] for port in found.end_ports() if not port.node.is_switch
    )


def test_switches_stand_in_levels() -> None:
    found = tool(Subnet.from_text(fat_tree(3, 3, 2, pods=2, cores=2))).sweep(p_keys=True)
    levels = {box.names[0]: box.level for box in fabric_map(found).boxes if box.level is not None}
    assert {name.split()[0]: level for name, level in levels.items()} == {"leaf": 0, "spine": 1, "core": 2}


def test_a_host_on_a_spine_makes_it_no_leaf() -> None:
    net = Subnet.from_text(fat_tree(9, 3, 2, radix=36))
    host = net.port("node00027 mlx5_0", 1)
    spine = net.port("spine 1-1", 36)
    assert host.peer is not None
    host.peer.peer = None
    host.peer, spine.peer = spine, host
    made = fabric_map(tool(net).sweep(p_keys=True))
    levels = {box.names[0]: box.level for box in made.boxes if box.level is not None}
    assert [name for name, level in levels.items() if level] == ["spine 1-1", "spine 1-2"]
    assert sum(box.count for box in hosts(made)) == 27


def test_switches_of_one_name_are_told_apart_by_their_guids() -> None:
    found = swept("two-switch")
    switches = [node for node in found.nodes if node.is_switch]
    for node in switches:
        node.description = "MF0"
    names = [box.names[0] for box in fabric_map(found).boxes if box.level is not None]
    assert sorted(names) == sorted(f"0x{node.guid:016x} MF0" for node in switches)


def test_who_did_not_answer_is_a_box_and_its_switch_stays_a_leaf() -> None:
    net = subnet("two-switch")
    protect(net, 2)
    found = tool(net, m_key=KEY).sweep(p_keys=True)
    for node in found.nodes:
        if node.is_switch:
            for port in node.ports.values():
                if port.num and port.peer is not None and not port.peer.node.is_switch:
                    port.peer = None
    made = fabric_map(found)
    assert {box.level for box in made.boxes if box.level is not None} == {0}
    silent = [box for box in made.boxes if box.names[0].startswith("did not answer, behind port")]
    assert sum(box.count for box in silent) == 6
    assert {box.looks.level for box in silent} == {"?"}


def test_levels_and_partitions_are_those_of_the_ports() -> None:
    net = subnet("two-switch")
    protect(net, 1)
    first = net.port("node01 mlx4_0", 1)
    first.m_key = first.protect_bits = 0
    first.p_keys = [0xFFFF, 0x8010]
    made = fabric_map(tool(net, m_key=KEY).sweep(p_keys=True), {0x10: "red"})
    (box,) = [box for box in hosts(made) if box.names == ["node01 mlx4_0"]]
    assert (box.looks.level, box.looks.finding) == ("none", "-")
    assert dict(made.legend["partition"])[box.looks.partition] == "0x0010 red full, 0x7fff full"
    assert {box.looks.level for box in made.boxes} == {"none", "1"}
    assert "finding" not in made.legend


def test_the_worst_that_fails_at_a_switch_or_a_port_colours_it() -> None:
    snapshot = taken(subnet("two-switch"))
    worst = worst_findings(audit(AuditInput(snapshot)))
    made = fabric_map(snapshot.fabric, findings=worst)
    assert {box.looks.finding for box in made.boxes} == {"critical"}  # MK001 on all
    assert [word for word, _ in made.legend["finding"]] == ["critical", "high", "medium", "low", "info", "-"]


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("colouring", ["partition", "level"])
def test_no_box_meets_another_and_every_name_is_within_its_box(name: str, colouring: str) -> None:
    svg = map_svg(fabric_map(swept(name)), colouring)  # type: ignore[arg-type]
    root = ElementTree.fromstring(svg)
    rects = [each for each in root.iter(f"{SVG}rect") if each.get("class") != "page"]
    boxes = [tuple(float(each.get(key, "")) for key in ("x", "y", "width", "height")) for each in rects]
    page = (float(root.get("width", "")), float(root.get("height", "")))
    for x, y, width, height in boxes:
        assert min(x, y) >= 0
        assert x + width <= page[0]
        assert y + height <= page[1]
    for (x, y, width, height), (x2, y2, width2, height2) in combinations(boxes, 2):
        assert x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y
    for label in root.iter(f"{SVG}text"):
        if label.get("class") == "out":
            continue
        at, line = float(label.get("x", "")), float(label.get("y", ""))
        assert any(
            x <= at and at + text_width(label.text or "") <= x + width and y <= line <= y + height
            for x, y, width, height in boxes
        )


def test_the_legend_of_a_file_names_every_set_that_is_on_the_map() -> None:
    net = Subnet.from_text(fat_tree(6, 12, 2))
    ends = [port for node in net.nodes if not node.is_switch for port in node.end_ports]
    for number, port in enumerate(ends[:60]):
        port.p_keys = [0x7FFF, *(0x8000 + number * 20 + each for each in range(1, 1 + number % 20))]
    made = fabric_map(tool(net).sweep(p_keys=True))
    root = ElementTree.fromstring(map_svg(made, "partition"))
    said = " ".join(label.text or "" for label in root.iter(f"{SVG}text") if label.get("class") == "out")
    sets = {box.looks.partition for box in made.boxes}
    assert len(sets) > 50
    assert all(meaning in said for word, meaning in made.legend["partition"] if word in sets)


def test_the_page_chooses_its_colours_without_a_script() -> None:
    snapshot = taken(subnet("two-switch"))
    made = fabric_map(snapshot.fabric, findings=worst_findings(audit(AuditInput(snapshot))))
    page = Page(render_matrix(lay_out(Reach(snapshot.fabric)), made))
    radios = [attrs["id"] for tag, attrs in page.elements if tag == "input" and attrs.get("type") == "radio"]
    assert radios == ["by-partition", "by-level", "by-finding"]
    style = page.text["style"]
    classes = {word for tag, attrs in page.elements if tag == "rect" for word in attrs.get("class", "").split()}
    assert {"p-A", "l-none", "f-critical"} <= classes
    for name, word in (("partition", "p-A"), ("level", "l-none"), ("finding", "f-critical")):
        assert re.search(rf"#by-{name}:checked ~ \* \.{word} {{ fill: #\w+;", style)
        assert f"#by-{name}:checked ~ .maps .tag.{name} {{ display: inline; }}" in style


def test_three_thousand_hosts_stay_small() -> None:
    found = tool(Subnet.from_text(fat_tree(17, 18, 18, pods=10, cores=4))).sweep(p_keys=True)
    made = fabric_map(found)
    assert sum(box.count for box in hosts(made)) == 3060
    assert len(map_svg(made, "partition")) < 400_000
    assert len(render_matrix(lay_out(Reach(found)), made)) < 2_000_000


def test_hosts_without_a_switch_and_no_fabric_at_all_are_maps_too() -> None:
    made = fabric_map(fabric_of([(1, [1, 2, 3], [])]))
    assert [box.names for box in made.boxes] == [["host[00001-00003] mlx5_0"]]
    assert "host[00001-00003]" in map_svg(made, "partition")
    assert "<svg" in map_svg(fabric_map(Topology([])), "level")


def test_hostile_names_stay_text() -> None:
    found = swept("two-switch")
    for node in found.nodes:
        node.description = NASTY
    made = fabric_map(found, {0x7FFF: NASTY})
    for svg in (map_svg(made, "partition"), map_part(made)):
        root = ElementTree.fromstring(svg)
        assert not [each for each in root.iter() if each.tag.rpartition("}")[2] in {"script", "b"}]
        assert not {char for char in svg if not char.isprintable()} - {"\n"}


def test_letters_can_be_read_on_every_fill() -> None:
    fills = {*FILLS, *re.findall(r"fill: (#\w{6});", map_style(fabric_map(swept("two-switch"), findings={})))}
    assert len(fills) > len(FILLS) + 5
    assert all(contrast(fill, "#111111") >= 4.5 for fill in fills - {"#111111"})


# --- cables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FABRICS, "ft648"])
def test_rails_and_lines_are_all_cables_each_once(name: str) -> None:
    made = fabric_map(swept(name))
    rails, lines = rails_and_lines(made)
    drawn = [frozenset((line.one, line.other)) for line in lines]
    drawn += [frozenset((one, other)) for rail in rails for one in rail.above for other in rail.below]
    assert len(drawn) == len(set(drawn))
    assert set(drawn) == {frozenset(link) for link in made.links}


def test_many_spines_over_many_leaves_are_one_rail_for_those_that_have_the_same() -> None:
    found = tool(Subnet.from_text(fat_tree(9, 2, 9, pods=2, cores=2))).sweep(p_keys=True)
    rails, lines = rails_and_lines(fabric_map(found))
    assert sorted((len(rail.above), len(rail.below)) for rail in rails) == [(9, 9), (9, 9)]
    assert len(lines) == 18 * 2 + 18  # each spine to its two cores; the hosts behind each leaf are one box


def test_a_high_map_is_in_sheets_that_cut_no_box() -> None:
    made = fabric_map(tool(Subnet.from_text(fat_tree(18, 18, 2, pods=6, cores=2))).sweep(p_keys=True))
    sheets = re.findall(r'<svg .*?viewBox="0 (\d+) \d+ (\d+)".*?</svg>', map_part(made))
    parts = re.findall(r"<svg .*?</svg>", map_part(made))
    assert len(sheets) > 1
    drawn = 0
    end = 0
    for (top, height), part in zip(sheets, parts, strict=True):
        assert int(top) == end
        end += int(height)
        boxes = [each for each in ElementTree.fromstring(part).iter(f"{SVG}rect") if each.get("class") != "page"]
        assert all(int(top) <= int(each.get("y", "")) <= end - 16 for each in boxes)
        drawn += len(boxes)
    assert drawn == len(made.boxes)


def test_a_leaf_that_lacks_a_cable_has_a_rail_of_its_own() -> None:
    net = Subnet.from_text(fat_tree(9, 2, 9))
    net.unplug("leaf 1-4", 4)  # to its second spine
    rails, lines = rails_and_lines(fabric_map(tool(net).sweep(p_keys=True)))
    assert sorted((len(rail.above), len(rail.below)) for rail in rails) == [(8, 1), (9, 8)]
    assert all(line.other >= 18 for line in lines)  # to hosts


def test_cables_within_a_level_stay_in_the_picture() -> None:
    svg = map_svg(fabric_map(swept("torus444")), "level")
    bows = re.findall(r"M(\d+) \d+C(\d+) ", svg)
    assert bows
    assert all(int(at) - 0.75 * (int(at) - int(bend)) >= 0 for at, bend in bows)
