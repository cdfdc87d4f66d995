"""What people call ports: folded sets, wildcards, GUIDs, LIDs, switch ports; what is absent or ambiguous."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ibkeys.errors import AddressError
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.directory import Directory, NoPortFound, require_distinct
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests import corpus
from tests.fabricsim import subnet, tool

SWITCH_A, SWITCH_B = "MF0;switch-a:IS5023/U1", "Infiniscale-IV Mellanox Technologies"


def swept(name: str = "two-switch", **called: str) -> Topology:
    """Return a fabric, on which some nodes call themselves otherwise: ``node02="stage1 mlx5_0"``."""
    net = subnet(name)
    for node in net.nodes:
        host = node.description.split()[0]
        if host in called:
            node.description_bytes = called[host].encode()
    with tool(net) as fabric:
        return fabric.sweep()


def names(ports: list[Port]) -> list[str | None]:
    return [port.node.description for port in ports]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("node02", ["node02 mlx4_0"]),
        ("node02 mlx4_0", ["node02 mlx4_0"]),
        ("node[02-04]", ["node02 mlx4_0", "node03 mlx4_0", "node04 mlx4_0"]),
        ("node[02-03,05]", ["node02 mlx4_0", "node03 mlx4_0", "node05 mlx4_0"]),
        ("node06,node01", ["node01 mlx4_0", "node06 mlx4_0"]),
        ("node[01-05]!node[02-04]", ["node01 mlx4_0", "node05 mlx4_0"]),
        ("*5", ["node05 mlx4_0"]),
        ("node0[1-2] mlx4_*", ["node01 mlx4_0", "node02 mlx4_0"]),
        ("node01 mlx5_0", None),
        ("NODE01", None),
        ("0x0002c903000a1031", ["node03 mlx4_0"]),
        ("0x0002c903000a1030", ["node03 mlx4_0"]),
        ("3", ["node03 mlx4_0"]),
        (f"{SWITCH_A}:2", ["node02 mlx4_0"]),
        ("0x0002c90200401040:1", ["node04 mlx4_0"]),
        ("Infiniscale-IV:3", ["node06 mlx4_0"]),
        (f"{SWITCH_A}:5", None),
        (SWITCH_A, [SWITCH_A]),
        (SWITCH_B, [SWITCH_B]),
        ("node99", None),
        ("0x0002c903000affff", None),
        ("99", None),
    ],
)
def test_a_word_is_looked_up(word: str, expected: list[str] | None) -> None:
    directory = Directory(swept())
    if expected is None:
        with pytest.raises(NoPortFound):
            directory.find(word)
    else:
        assert sorted(str(name) for name in names(directory.find(word))) == sorted(expected)


def test_of_a_set_of_devices_one_that_the_host_has_is_enough() -> None:
    assert len(Directory(swept()).find("node0? mlx4_[0-1]")) == 6


def test_of_a_folded_set_every_name_has_to_be_there_and_all_that_is_missing_is_said_once() -> None:
    directory = Directory(swept())
    with pytest.raises(NoPortFound) as failure:
        directory.find_all(["node[05-08]", "node01", "tank*"])
    assert "'node[07-08]'" in str(failure.value)
    assert "did you mean node0" in str(failure.value)
    assert "'tank*'" in str(failure.value)
    assert failure.value.words == ("node07", "node08", "tank*")


@pytest.mark.parametrize(
    ("word", "missing"),
    [
        ("node[01-07]", "node07"),
        ("node[01-02,07-08]", "node[07-08]"),
        ("node[01-07] mlx4_0", "node07 mlx4_0"),
        ("node[01-02] mlx5_0", "node[01-02] mlx5_0"),
        ("node0[6-8]*", "node07*, node08*"),
        ("node07 mlx4_0", "node07 mlx4_0"),
    ],
)
def test_of_a_set_only_the_names_that_are_missing_are_said_to_be(word: str, missing: str) -> None:
    with pytest.raises(NoPortFound, match=f"^{re.escape(repr(missing))}: nothing that was read has this name"):
        Directory(swept()).find(word)


@pytest.mark.parametrize("word", ["node[1-", "node[x-y]", "node[3-1]", "node[1-9999999]", "node[1-3]&node[7-9]"])
def test_what_is_no_set_of_names_is_said(word: str) -> None:
    with pytest.raises(AddressError):
        Directory(swept()).find(word)


def test_every_port_of_a_host_is_meant_and_a_device_narrows_it() -> None:
    directory = Directory(swept("dual-home"))
    assert [(port.node.description, port.num) for port in directory.find("db01")] == [
        ("db01 mlx5_0", 1),
        ("db01 mlx5_0", 2),
    ]
    twice = Directory(swept(node02="stage1 mlx5_0", node03="stage1 mlx5_1"))
    assert names(twice.find("stage1")) == ["stage1 mlx5_0", "stage1 mlx5_1"]
    assert names(twice.find("stage1 mlx5_1")) == ["stage1 mlx5_1"]
    require_distinct(twice.find("stage1"))


def test_two_nodes_of_one_name_are_ambiguous_with_their_guids() -> None:
    directory = Directory(swept(node02="stage1 mlx5_0", node03="stage1 mlx5_0"))
    with pytest.raises(AddressError, match=r"0x0002c903000a1020.*0x0002c903000a1030"):
        require_distinct(directory.find("stage1"))


def test_a_description_is_taken_as_it_is_before_it_is_a_pattern() -> None:
    directory = Directory(swept(node02="gpu[1-3]* x"))
    assert names(directory.find("gpu[1-3]* x")) == ["gpu[1-3]* x"]


@pytest.mark.parametrize("word", ["0x0002c903000a1031", "0002:c903:000a:1031", "3", "Infiniscale-IV:1", "node03"])
def test_no_node_takes_a_guid_lid_switch_port_or_host_from_another_by_its_description(word: str) -> None:
    expected = names(Directory(swept()).find(word))
    found = names(Directory(swept(node06=word)).find(word))
    assert found == ([word, *expected] if word == "node03" else expected)


def test_a_description_that_only_begins_like_a_guid_is_a_name() -> None:
    assert names(Directory(swept(node06="0x1234567 mlx4_0")).find("0x1234567 mlx4_0")) == ["0x1234567 mlx4_0"]


@pytest.mark.parametrize("file", corpus.files("fabrics/*.net"), ids=corpus.label)
def test_of_each_fabric_every_port_is_found_again_by_each_of_its_names(file: Path) -> None:
    with tool(Subnet.from_file(file)) as fabric:
        directory = Directory(fabric.sweep())
    for port in directory.ports[:200]:
        assert port in directory.find(port.node.description or "")
        assert directory.find(f"0x{port.guid:016x}") == [port]
        place = directory.switch_port(port)
        assert place is None or directory.find(place) == [port]
        if port.lid:
            assert directory.find(str(port.lid)) == [port]
