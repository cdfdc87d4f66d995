"""What each kind of file says, on files that the real tools wrote (``tests/data/dumps``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.dumps import facts
from ibkeys.dumps.facts import PortFacts, PortFields
from ibkeys.dumps.kinds import KINDS, kind_of
from ibkeys.errors import FileFormatError
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.fields import NumberRow
from ibkeys.topology.nodes import Port
from tests.dumps.bringing import DUMPS, M_KEY, bring, write


def at(snapshot: Snapshot, lid: int, num: int | None = None) -> Port:
    port = snapshot.fabric.find_lid(lid)
    assert port is not None
    return port.node.port(num) if num is not None else port


def field(port: Port, row: NumberRow) -> int:
    assert port.info is not None
    return row.decode(port.info)


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("keyed.cache", "ibnetdiscover --cache"),
        ("ibnetdiscover.txt", "ibnetdiscover"),
        ("opensm-subnet.lst", "opensm-subnet.lst"),
        *((file, "saquery") for file in ("nr.txt", "pir.txt", "pktr.txt")),
        *((file, "smpquery") for file in ("portinfo.txt", "nodeinfo.txt", "switchinfo.txt", "pkeys.txt", "dr.txt")),
    ],
)
def test_a_file_is_known_by_its_beginning(file: str, kind: str) -> None:
    assert kind_of(DUMPS / file).name == kind


def test_only_saquery_and_the_files_of_opensm_are_the_words_of_the_sm() -> None:
    assert {kind.name for kind in KINDS if kind.is_sm} == {
        "saquery",
        "opensm-subnet.lst",
        "opensm-lfts.dump or opensm.fdbs",
    }


@pytest.mark.parametrize("file", ["ibnetdiscover.txt", "keyed.cache", "opensm-subnet.lst"])
def test_nodes_links_lids_and_names(file: str) -> None:
    snapshot = bring(file)
    assert [node.type_name for node in snapshot.fabric.nodes].count("switch") == 2
    assert sum(port.peer is not None for port in snapshot.fabric.ports()) == 16
    names = {port.lid: port.node.description for port in snapshot.fabric.end_ports()}
    assert names[2] == "node02 mlx4_0"
    assert names[7] == "MF0;switch-a:IS5023/U1"
    assert set(names) == set(range(1, 9))
    guids = {port.lid: port.guid for port in snapshot.fabric.end_ports()}
    assert (guids[2], guids[7]) == (0x0002C903000A1021, 0x0002C90200401000)
    assert at(snapshot, 2).peer is at(snapshot, 7, 2)


def test_a_loopback_plug_is_a_link_of_a_port_to_itself(tmp_path: Path) -> None:
    # This is how ibnetdiscover writes it.
    plug = '[4]\t"S-0002c90200401000"[4]\t\t# "MF0;switch-a:IS5023/U1" lid 7 4xSDR\n'
    text = (DUMPS / "ibnetdiscover.txt").read_text()
    before, heading, after = text.partition('Switch\t8 "S-0002c90200401000"')
    line, _, rest = after.partition("\n")
    port = at(bring(write(tmp_path, f"{before}{heading}{line}\n{plug}{rest}")), 7, 4)
    assert port.peer is port


@pytest.mark.parametrize("file", ["ibnetdiscover.txt", "keyed.cache"])
def test_routes_begin_where_the_tool_ran(file: str) -> None:
    snapshot = bring(file)
    assert at(snapshot, 1).path == ()
    assert at(snapshot, 4).path == (1, 7, 1)
    assert snapshot.about.lid == 1


@pytest.mark.parametrize("file", ["ibnetdiscover.txt", "opensm-subnet.lst"])
def test_what_a_list_of_nodes_does_not_say_is_unknown(file: str) -> None:
    port = at(bring(file), 2)
    assert (port.info, port.p_key_raw, port.capacity, port.m_key_state) == (None, None, None, "unreadable")
    assert not port.is_active


def test_a_name_that_looks_like_the_end_of_a_node_hides_no_link(tmp_path: Path) -> None:
    name = "} LID:0001 PN:01 } { CA 71"
    text = (DUMPS / "opensm-subnet.lst").read_text()
    plain, odd = bring("opensm-subnet.lst"), bring(write(tmp_path, text.replace("node02 mlx4_0", name)))
    assert at(odd, 2).node.description == name
    assert [port.peer is None for port in odd.fabric.ports()] == [port.peer is None for port in plain.fabric.ports()]
    assert odd.fabric.notes == plain.fabric.notes


def test_a_cache_has_raw_port_info() -> None:
    snapshot = bring("keyed.cache")
    port = at(snapshot, 2)
    assert (port.m_key_state, field(port, PortInfo.m_key), field(port, PortInfo.m_key_protect_bits)) == (
        "set",
        M_KEY,
        1,
    )
    assert field(port, PortInfo.m_key_lease_period) == 60
    assert port.capacity == 64
    assert at(snapshot, 7, 1).capacity == 64
    assert snapshot.files[0].m_keys == 8


def test_a_cache_without_the_key_hides_it() -> None:
    snapshot = bring("plain.cache")
    # ibnetdiscover of the node itself is answered like any other: the key was not sent
    assert {port.m_key_state for port in snapshot.fabric.end_ports()} == {"hidden"}
    assert snapshot.files[0].m_keys == 0


@pytest.mark.parametrize(
    ("file", "state"),
    [("portinfo.txt", "unreadable"), ("portinfo-hidden.txt", "hidden"), ("portinfo-keyed.txt", "set")],
)
def test_smpquery_without_k_says_nothing_of_the_key(file: str, state: str) -> None:
    port = at(bring("ibnetdiscover.txt", file), 2)
    assert port.m_key_state == state
    assert field(port, PortInfo.m_key_protect_bits) == 1
    assert port.is_active


def test_smpquery_says_enforcement_of_a_switch_port_and_capacities() -> None:
    files = ("ibnetdiscover.txt", "portinfo-switch.txt", "switchinfo.txt", "nodeinfo.txt")
    snapshot = bring(*files, pkeys="2", pkeys_switch="7:1")
    assert [str(key) for _, key in at(snapshot, 2).occupied or ()] == ["0x7fff", "0x8012"]
    assert at(snapshot, 2).capacity == 64
    port = at(snapshot, 7, 1)
    assert (port.capacity, len(port.p_keys or ())) == (64, 64)
    assert field(port, PortInfo.partition_enforcement_inbound) in (0, 1)
    assert at(snapshot, 7).capacity is None  # of port 0: no nodeinfo of the switch is there


def test_an_answer_by_directed_route_is_nobodys() -> None:
    snapshot = bring("ibnetdiscover.txt", "dr.txt")
    assert any("dr.txt:1: the heading has no LID" in note for note in snapshot.fabric.notes)


def test_a_whole_table_says_how_many_entries_there_are() -> None:
    assert at(bring("ibnetdiscover.txt", pkeys="0x0002c903000a1021"), 2).capacity == 64


def test_records_of_the_sa_need_a_capacity_and_all_blocks() -> None:
    without = at(bring("ibnetdiscover.txt", "pktr3.txt"), 3)
    assert without.p_key_raw is None
    snapshot = bring("keyed.cache", "pktr3.txt", "pktr.txt")
    assert [str(key) for _, key in at(snapshot, 3).occupied or ()] == ["0x7fff"]
    key = (at(snapshot, 3), "P_KeyTable")
    assert snapshot.files[snapshot.origins[key]].name == "pktr3.txt"
    assert snapshot.files[snapshot.origins[key]].is_sm


def test_a_zero_from_the_sa_is_no_key() -> None:
    snapshot = bring("ibnetdiscover.txt", "pir-keyed.txt")
    states = {port.m_key_state for port in snapshot.fabric.end_ports() if port.info is not None}
    assert states == {"set"}  # a port of a switch shows 0, and has none
    assert bring("ibnetdiscover.txt", "pir.txt").files[1].m_keys == 0


def test_node_records_say_who_and_how_many_entries() -> None:
    snapshot = bring("nr.txt", "pktr.txt")
    (node,) = snapshot.fabric.nodes
    assert (node.description, node.num_ports, node.port(0).lid, node.port(0).capacity) == (
        "MF0;switch-a:IS5023/U1",
        8,
        7,
        8,
    )
    assert node.port(0).occupied is not None


@pytest.mark.parametrize("space", ["\x1f", "\u2003", "\t"])
def test_p_keys_may_stand_behind_any_white_space(tmp_path: Path, space: str) -> None:
    text = (DUMPS / "pktr.txt").read_text().replace("0x7fff ", f"{space}0x7fff ")
    read, expected = (bring("nr.txt", file).fabric.nodes[0].port(0) for file in (write(tmp_path, text), "pktr.txt"))
    assert read.occupied == expected.occupied is not None


def test_a_refusal_of_the_sa_is_no_file_to_import() -> None:
    with pytest.raises(ValueError, match="is not a file that can be imported"):
        bring("ibnetdiscover.txt", "pktr-no.txt")


@pytest.mark.parametrize(
    "lines",
    [
        "START_PORTS\nNodeGuid,PortNum\n{rows}END_PORTS\n",
        "START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n{links}END_LINKS\n",
        "{infos}",
        "{routes}",
    ],
)
def test_a_file_with_more_than_any_fabric_is_refused_while_it_is_read(
    lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MOST_RECORDS", 20)
    text = lines.format(
        rows="".join(f"{number:x},1\n" for number in range(1, 30)),
        links="1,1,2,1\n" * 30,
        infos="# Port info: Lid 1 port 0\nLMC:....0\n" * 30,
        routes="# Port info: DR path slid 0; dlid 0; 0\nLMC:....0\n" * 30,
    )
    path = write(tmp_path, text + "x" * 70_000)  # the last line would be another error, and is not reached
    with pytest.raises(FileFormatError, match=r"more than 20 nodes, ports or links, which no fabric has"):
        bring(path)


def test_rows_with_the_same_columns_share_what_they_lack() -> None:
    first, second = PortFields(), PortFields()
    for fields in (first, second):
        fields.put(PortInfo.lid, 7)
    lacks = [fields.into(PortFacts(1, 1)).lacks for fields in (first, second)]
    assert lacks[0] is lacks[1]
    assert PortInfo.m_key.attr in lacks[0]
    assert PortInfo.lid.attr not in lacks[0]
