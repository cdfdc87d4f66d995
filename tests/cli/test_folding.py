"""Equal things together: what a folded table says is exactly what the rows say, and it fits a screen."""

from __future__ import annotations

import re
import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.cli.listing.folding import NARROW, fold_rows, indented
from ibkeys.cli.screen.colour import plain
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import NodeType, PortPhysicalState
from ibkeys.printable import clean
from ibkeys.topology.model import Topology
from ibkeys.topology.names.folded import FoldedNames, natural
from ibkeys.topology.nodes import Node
from tests.cli.conftest import TWO_SWITCH, Cli, on_terminal, run
from tests.cli.unfolding import Link, Row, unfolded, words_below, words_of
from tests.corpus import DATA
from tests.sample import in_soak

HOSTS = st.one_of(
    st.builds("{}{:0{}d}".format, st.sampled_from(["gpu-a", "n", "r1c", ""]), st.integers(0, 30), st.integers(1, 3)),
    st.sampled_from(["MF0;sw1:IS5023/U1", "a[1-3]", "b,c", "@group", "x!y", "-", "&", "(0x0000000000000001)"]),
    st.text(max_size=8),
)
NAMES = st.one_of(
    st.none(),
    st.builds(
        lambda host, device: f"{host} {device}".rstrip(),
        HOSTS,
        st.sampled_from(["", "mlx5_0", "HCA-1", "a b", "port 3", "²"]),
    ),
)


@st.composite
def sheets(draw: st.DrawFn) -> list[Row]:
    rows = []
    for guid in range(draw(st.integers(0, 12))):
        name, kind = draw(NAMES), draw(st.sampled_from(["ca", "switch"]))
        for port in draw(st.sets(st.integers(0 if kind == "switch" else 1, 40), min_size=1, max_size=6)):
            said = draw(st.integers(0, 2))
            rows.append(
                {"node_desc": name, "node_guid": f"0x{guid:016x}", "node_type": kind, "port": port, "said": said}
            )
    return rows


@given(rows=sheets())
def test_what_is_folded_unfolds_to_each_port_once_and_nothing_that_differs_is_together(rows: list[Row]) -> None:
    names = FoldedNames(rows)
    groups = fold_rows(rows, lambda row: row["said"])
    for group in groups:
        assert len({row["said"] for row in group}) == 1
        wanted = Counter((row["node_guid"], row["port"]) for row in group)
        assert Counter(unfolded(names.words(group), rows)) == wanted
        assert Counter(unfolded(words_of(indented(names, group)), rows)) == wanted
    assert sum(map(len, groups)) == len(rows)
    assert len({group[0]["said"] for group in groups}) == len(groups)


def node(guid: int, is_switch: bool, num_ports: int, name: str | None) -> Node:
    kind = NodeType.SWITCH if is_switch else NodeType.CA
    made = Node(struct.pack(">4B3Q4H", 1, 1, kind, num_ports, guid, guid, guid, 128, 0, 0, 0).ljust(64, b"\0"), ())
    made.description = name
    for number in range(0 if is_switch else 1, num_ports + 1):
        made.port(number)
    return made


@st.composite
def fabrics(draw: st.DrawFn) -> Topology:
    """Switches and hosts, whose free ports were read or not; all vendors are two, so that GUIDs have much in common."""
    vendors = draw(st.lists(st.sampled_from([0x0002C90300480000, 0x78E7D10300220000]), min_size=1, max_size=2))
    guid = st.builds(sum, st.tuples(st.sampled_from(vendors), st.integers(1, 40)))
    guids = draw(st.lists(guid, min_size=4, max_size=14, unique=True))
    few = draw(st.lists(NAMES, min_size=1, max_size=2))
    switches = [node(guid, True, draw(st.integers(1, 9)), draw(st.sampled_from(few))) for guid in guids[:2]]
    hosts = [node(guid, False, draw(st.integers(1, 2)), draw(st.sampled_from(few) | NAMES)) for guid in guids[2:]]
    free = [port for each in hosts for port in each.ports.values()]
    for port in [port for each in switches for port in each.ports.values() if port.num]:
        others = [*free, *(other for each in switches for other in each.ports.values() if other.num)]
        others = [other for other in others if other.peer is None and other is not port]
        peer = draw(st.sampled_from(others)) if others and draw(st.booleans()) else None
        if port.peer is None and peer is not None:
            port.peer, peer.peer = peer, port
        if port.peer is not None or draw(st.integers(0, 3)):
            state = PortPhysicalState.LINK_UP if port.peer is not None else PortPhysicalState.POLLING
            port.info = PortInfo(bytes(64)).replace(port_physical_state=state).raw
    return Topology([*switches, *hosts])


def links_in(fabric: Topology) -> list[Link]:
    ports = [port for port in fabric.ports() if port.is_external]
    known = [port for port in ports if port.peer is not None or port.info is not None]
    return [(port.identity(), port.peer.identity() if port.peer is not None else None) for port in known]


@given(fabric=fabrics(), few=st.integers(1, 4), long=st.integers(0, 40), data=st.data())
def test_in_each_form_words_unfold_to_each_port_once(
    fabric: Topology, few: int, long: int, data: st.DataObject
) -> None:
    ports = [port for each in fabric.nodes for port in each.ports.values() if each.is_switch or port.peer is not None]
    sheet = [port.identity() for port in ports if data.draw(st.integers(0, 4))]
    most = data.draw(st.integers(0, 2))
    classes = data.draw(st.lists(st.integers(0, most), min_size=len(sheet), max_size=len(sheet)))
    names, links = FoldedNames(sheet, fabric), links_in(fabric)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.topology.names.folded.FEW_GUIDS", few)
        patch.setattr("ibkeys.topology.names.all_of_a_type.LONG", long)
        for chosen in range(3):
            rows = [row for row, each in zip(sheet, classes, strict=True) if each == chosen]
            for words in names.forms(rows):
                assert Counter(unfolded(words, sheet, links)) == Counter(map(place, rows))
            lines = indented(names, rows)
            assert Counter(unfolded(words_of(lines), sheet, links)) == Counter(map(place, rows))
            assert all(line == clean(line) for line in lines)


def scattered(names: list[str]) -> Topology:
    """Return switches of 36 ports with hosts at ports of no order; what is left has no link, but for port 36, of which
    nothing is known."""
    switches = [node(number, True, 36, f"leaf{number}") for number in (1, 2, 3, 4)]
    hosts = [node(0x0002C90300480000 + number, False, 1, name) for number, name in enumerate(names)]
    for at, host in enumerate(hosts):
        port, peer = host.port(1), switches[at % 4].port((at * 13 + at % 4) % 34 + 1)
        port.peer, peer.peer = peer, port
    for port in (port for switch in switches for port in switch.ports.values() if port.num and port.num != 36):
        state = PortPhysicalState.LINK_UP if port.peer is not None else PortPhysicalState.POLLING
        port.info = PortInfo(bytes(64)).replace(port_physical_state=state).raw
    return Topology([*switches, *hosts])


def rows_in(fabric: Topology) -> tuple[list[Row], list[Row], list[Row]]:
    """Return the hosts' ports, their leaf ports, and the other external ports."""
    hosts = [each.port(1).identity() for each in fabric.nodes if not each.is_switch]
    external = [port for port in fabric.ports() if port.is_external]
    leaf_ports = [port.identity() for port in external if port.peer is not None]
    return hosts, leaf_ports, [port.identity() for port in external if port.peer is None]


def test_leaf_ports_of_no_order_are_named_by_their_hosts() -> None:
    fabric = scattered([f"n{number:02d} mlx5_0" for number in range(64)])
    hosts, leaf_ports, others = rows_in(fabric)
    names = FoldedNames([*hosts, *leaf_ports, *others], fabric)
    some = [near for near, far in links_in(fabric) if far is not None and far["node_desc"] < "n60"]
    assert names.words([*hosts, *leaf_ports]) == ["n[00-63] mlx5_0 and their leaf ports"]
    assert names.words(leaf_ports) == ["leaf[1-4] ports to hosts"]
    assert sorted(map(place, some)) == sorted(unfolded(names.words(some), leaf_ports, links_in(fabric)))
    assert names.words(some) == ["leaf ports of n[00-59] mlx5_0"]
    assert names.words(others) == ["leaf[1-4] ports without a link", "leaf[1-4] port 36"]
    assert "leaf1 port" in FoldedNames(leaf_ports).words(leaf_ports)[0]


def test_few_ports_keep_their_numbers() -> None:
    fabric = scattered([f"n{number} mlx5_0" for number in range(3)])
    _, leaf_ports, _ = rows_in(fabric)
    assert FoldedNames(leaf_ports, fabric).words(leaf_ports) == ["leaf1 port 1", "leaf2 port 15", "leaf3 port 29"]


def test_of_many_guids_the_part_in_common_stands_once() -> None:
    fabric = scattered(["HCA"] * 13)
    hosts, leaf_ports, _ = rows_in(fabric)
    names, some = FoldedNames([*hosts, *leaf_ports], fabric), hosts[:9]
    assert names.words(some) == ["HCA (0x0002c9030048000[0,1,2,3,4,5,6,7,8])"]
    assert Counter(unfolded(names.words(some), hosts)) == Counter(map(place, some))


def test_a_host_whose_guid_another_one_reports_names_no_leaf_port() -> None:
    fabric = scattered([f"n{number:02d} mlx5_0" for number in range(64)])
    fabric.nodes[4].info = fabric.nodes[5].info
    some = [near for near, far in links_in(fabric) if far is not None and far["node_desc"] < "n60"]
    words = FoldedNames(some, fabric).words(some)
    assert words == ["leaf ports of n[02-59] mlx5_0", "leaf1 port 1", "leaf2 port 15"]


def test_no_name_of_a_node_reads_as_others() -> None:
    rows = [
        {"node_desc": name, "node_guid": f"0x{guid:016x}", "node_type": "ca", "port": 1}
        for guid, name in enumerate(
            [
                "n1",
                "leaf ports of n1",
                "n1 and its leaf port",
                "n1 ports to hosts",
                "all 4 hosts",
                "12",
                "0x2c90300001234",
            ]
        )
    ]
    assert FoldedNames(rows).words(rows) == [
        "n1",
        "0x2c90300001234 (0x0000000000000006)",
        "12 (0x0000000000000005)",
        "'all 4 hosts' (0x0000000000000004)",
        "'leaf ports of n1' (0x0000000000000001)",
        "n1 and its leaf port (0x0000000000000002)",
        "n1 ports to hosts (0x0000000000000003)",
    ]


def place(row: Row) -> tuple[str, int]:
    return row["node_guid"], row["port"]


@given(rows=sheets())
def test_no_name_spoils_a_line(rows: list[Row]) -> None:
    assert all(line == clean(line) for line in indented(FoldedNames(rows), rows))


def test_people_count_2_before_10() -> None:
    assert sorted(["n10", "n2", "m", "n02x"], key=natural) == ["m", "n02x", "n2", "n10"]


def rows_of(command: str, backend: str) -> list[Row]:
    ports: list[Row] = run(*command.split(), "--all", "--backend", backend, "-f", "json").json["ports"]
    return ports


LISTS = {
    "mkey-show": lambda row: row["node_type"] != "switch" or row["port"] == 0,
    "port-show --caps": lambda row: row["node_type"] != "switch" or row["port"] == 0,
    "port-show --enforcement": lambda row: row["node_type"] == "switch" and row["port"] != 0,
    "pkey-show": lambda row: True,
    "port-show --counters": lambda row: True,
}


@pytest.mark.parametrize("fabric", [in_soak("two-switch"), "dual-home", in_soak("ft648"), "torus444"])
@pytest.mark.parametrize("command", LISTS)
def test_each_port_of_the_json_is_in_the_folded_table_once(command: str, fabric: str) -> None:
    backend = f"sim:{DATA / 'fabrics' / f'{fabric}.net'}"
    rows = rows_of(command, backend)
    lines = run(*command.split(), "--all", "--fold", "--backend", backend).out.splitlines()
    words = [word for word in words_below(lines) if not re.fullmatch(r"[\d-][\w -]*", word)]  # a row's own cells
    wanted = Counter((row["node_guid"], row["port"]) for row in rows if LISTS[command](row))
    assert Counter(unfolded(words, rows)) == wanted
    assert max(map(len, lines)) <= NARROW
    assert len(lines) < 50


def test_ports_that_differ_are_apart(cli: Cli) -> None:
    cli("pkey-add", 2, "0x8010", "--yes")
    out = cli("pkey-show", "--all", "--fold").out
    assert "1 port, 2/64 P_Keys used (index:P_Key): 0:0xffff 1:0x8010\n    node02 mlx4_0\n" in out
    assert "    node[01,03-06] mlx4_0\n" in out


def test_a_terminal_gets_folded_rows_and_each_gives_every_row() -> None:
    def shown(*words: str) -> str:
        return plain(on_terminal(*words, "--backend", TWO_SWITCH, columns=200).out)

    piped = run("mkey-show", "--all", "--backend", TWO_SWITCH).out
    folded = run("mkey-show", "--all", "--fold", "--backend", TWO_SWITCH).out
    assert len(folded.splitlines()) < len(piped.splitlines())
    assert shown("mkey-show", "--all") == folded
    assert shown("mkey-show", "--all", "--each") == piped
    assert shown("mkey-show", "--all", "-f", "csv").count("\n") == 9
    assert shown("mkey-show", "--all", "--each", "-f", "csv").count("\n") == 25


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--each", "--fold"), "--each and --fold exclude each other"),
        (("--fold", "-f", "json"), "--fold is for tables only: -f json has one record for each port"),
        (("--fold", "-f", "csv"), "--fold is for tables only: -f csv has one record for each port"),
    ],
)
@pytest.mark.parametrize("command", LISTS)
def test_what_does_not_go_together_is_refused(cli: Cli, command: str, words: tuple[str, ...], said: str) -> None:
    result = cli(*command.split(), "--all", *words)
    assert (result.code, result.error) == (2, said)


def test_a_name_that_repeats_has_its_guid_beside_it() -> None:
    guids = [f"0x{number:016x}" for number in (1, 2, 3)]
    rows = [
        {"node_desc": name, "node_guid": guid, "node_type": "ca", "port": 1}
        for name, guid in zip(["twin mlx5_0", "twin mlx5_0", "n1 mlx5_0"], guids, strict=True)
    ]
    assert FoldedNames(rows).words(rows) == ["n1 mlx5_0", f"twin mlx5_0 ({guids[0]},{guids[1]})"]
