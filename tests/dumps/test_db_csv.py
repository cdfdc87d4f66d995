"""ibdiagnet2.db_csv, made from simulated subnets (synthetic): what it says equals what a sweep read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import characters, text

from ibkeys.dumps.db_csv import split_row
from ibkeys.dumps.lines import TextLine
from ibkeys.errors import FileFormatError
from ibkeys.mad.attributes import PortInfo
from ibkeys.sim.subnet import Subnet
from tests.dumps.bringing import M_KEY, bring, write
from tests.dumps.synthetic import PORTS, db_csv, swept
from tests.fabricsim import subnet

ROWS = (
    PortInfo.m_key,
    PortInfo.lid,
    PortInfo.lmc,
    PortInfo.master_sm_lid,
    PortInfo.capability_mask,
    PortInfo.capability_mask2,
    PortInfo.m_key_protect_bits,
    PortInfo.m_key_lease_period,
    PortInfo.m_key_violations,
    PortInfo.p_key_violations,
    PortInfo.q_key_violations,
    PortInfo.port_state,
    PortInfo.port_physical_state,
    PortInfo.partition_enforcement_inbound,
    PortInfo.partition_enforcement_outbound,
)


def with_keys(name: str) -> Subnet:
    net = subnet(name)
    for node in net.nodes:
        for port in node.ports:
            if port is not None and not (node.is_switch and port.number):
                port.m_key, port.protect_bits = M_KEY, 0
    return net


@pytest.mark.parametrize("name", ["two-switch", "dual-home", "ring-router"])
def test_every_field_that_matters_survives(name: str, tmp_path: Path) -> None:
    fabric = swept(with_keys(name))
    read = bring(write(tmp_path, db_csv(fabric))).fabric
    assert [(node.guid, node.type, node.num_ports, node.description) for node in sorted(read.nodes, key=str)] == [
        (node.guid, node.type, node.num_ports, node.description) for node in sorted(fabric.nodes, key=str)
    ]
    ports = {(port.node.guid, port.num): port for port in read.ports()}
    for port in fabric.ports():
        mine = ports[port.node.guid, port.num]
        assert (mine.port_guid, mine.lid, mine.capacity) == (port.port_guid, port.lid, port.capacity)
        assert (mine.peer is None) == (port.peer is None)
        assert mine.info is not None
        assert port.info is not None
        assert [row.decode(mine.info) for row in ROWS] == [row.decode(port.info) for row in ROWS]
    assert {port.m_key_state for port in read.end_ports()} == {"set"}


@pytest.mark.parametrize("name", ['a "b", c', 'a"b', '"', '",1,2,"', "x{y}:z", "a,b,c"])
def test_a_name_may_hold_quotes_and_commas(name: str, tmp_path: Path) -> None:
    fabric = swept(subnet("two-switch"))
    fabric.find_name("node02 mlx4_0")[0].description = name
    read = bring(write(tmp_path, db_csv(fabric))).fabric
    assert name in {node.description for node in read.nodes}
    assert len(read.nodes) == 8


# No line end and no NUL: ibdiagnet writes one line for each node. What a NodeDescription may hold else is anybody's.
NAMES = text(characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=40)


@given(name=NAMES)
def test_any_name_survives(name: str) -> None:
    row = TextLine(f'"{name}",1,1,0x1', "file", 1)
    assert split_row(row, 4)[0] == f'"{name}"'


@pytest.mark.parametrize("missing", ["MKeyProtBits", "PKeyViolations", "LID", "PortState"])
def test_without_a_column_that_matters_port_info_is_unknown(missing: str, tmp_path: Path) -> None:
    columns = [name for name in PORTS if name != missing]
    read = bring(write(tmp_path, db_csv(swept(subnet("two-switch")), columns=columns))).fabric
    assert all(port.info is None for port in read.end_ports())
    (why,) = {each.error for each in read.troubles if each.attribute == "PortInfo" and each.port.is_end_port}
    assert "does not say its" in why


def test_without_the_column_of_keys_keys_are_unknown(tmp_path: Path) -> None:
    columns = [name for name in PORTS if name != "MKey"]
    read = bring(write(tmp_path, db_csv(swept(with_keys("two-switch")), columns=columns))).fabric
    assert {port.m_key_state for port in read.end_ports()} == {"unreadable"}


def test_without_links_nobody_can_say_who_faces_whom(tmp_path: Path) -> None:
    read = bring(write(tmp_path, db_csv(swept(subnet("two-switch")), leave_out=["LINKS"])))
    hosts = [port for port in read.fabric.end_ports() if not port.node.is_switch]
    assert len(hosts) == 6
    assert {each.port for each in read.fabric.troubles if each.attribute == "NodeInfo"} >= set(hosts)
    assert not any(port.says_peer for port in hosts)


def test_the_section_of_p_keys_is_named_and_not_guessed(tmp_path: Path) -> None:
    text = db_csv(swept(subnet("two-switch"))) + "START_PKEY\nA,B\n1,2\nEND_PKEY\n"
    read = bring(write(tmp_path, text)).fabric
    assert all(port.p_key_raw is None for port in read.end_ports())
    assert any("section PKEY are not publicly known" in note for note in read.notes)


SMALL = """START_NODES
NodeDesc,NumPorts,NodeType,NodeGUID
"a",1,1,0x1
END_NODES
START_PORTS
NodeGuid,PortNum,MKey,PKeyViolations
{row}
END_PORTS
"""


@pytest.mark.parametrize(
    ("row", "line", "text"),
    [
        ("0x1,1,secret,0", 7, "MKey is not a number"),
        ("0x1,1,0x5ec2e7,70000", 7, "PKeyViolations has a value that this field cannot have"),
        ("0x1,1,0x5ec2e7", 7, "another number of values"),
        ("0x0,1,0x5ec2e7,0", 7, "NodeGuid is 0"),
        ("0x1,,0x5ec2e7,0", 7, "PortNum is missing or empty"),
        ("0x1,1,0x5ec2e7,0\n0x1,1,0x5ec2e7,0", 8, "this port appears twice"),
        ("START_X", 7, "a section begins inside another one"),
        ("END_NODES", 7, "does not belong to the section"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_no_value(row: str, line: int, text: str, tmp_path: Path) -> None:
    path = write(tmp_path, SMALL.format(row=row))
    with pytest.raises(FileFormatError, match=text) as raised:
        bring(path)
    assert str(raised.value).startswith(f"{path}:{line}: ")
    assert "5ec2e7" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    text = db_csv(swept(subnet("two-switch")))
    path = write(tmp_path, text[: text.index("END_PORTS")])
    with pytest.raises(FileFormatError, match="has no END_ line: the file is cut off"):
        bring(path)
