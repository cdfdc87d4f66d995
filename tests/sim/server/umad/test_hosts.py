"""Which adapters a simulated host has, and what a program is told of them and their ports."""

from __future__ import annotations

import errno
import struct

import pytest

from ibkeys.errors import AddressError
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.hosts import adapters_of, choose_port
from ibkeys.sim.server.umad.wire import WireQuestion
from ibkeys.sim.subnet import Subnet
from tests.fattree import fat_tree
from tests.sim.server.programs import RunningOpensm
from tests.sim.server.umad.programs import Program, ask, connect, hello

NET = """
Switch 8 "S-1" # "spine one" base port 0 lid 1 lmc 0
[1] "A"[1]
[2] "B"[2]
[3] "C"[1]
[4] "D"[1]

caguid=0x100
Ca 1 "A" # "node01 mlx5_1"
[1] "S-1"[1] # lid 2 lmc 0 "spine one" lid 1 4xEDR

caguid=0x200
Ca 2 "B" # "node01 mlx5_0"
[2] "S-1"[2] # lid 3 lmc 0 "spine one" lid 1 4xEDR

caguid=0x300
Ca 1 "C" # "node02 HCA-1"
[1] "S-1"[3] # lid 4 lmc 0 "spine one" lid 1 4xQDR

caguid=0x400
Ca 1 "D" # "MT4119 ConnectX5   Mellanox Technologies"
[1] "S-1"[4] # lid 5 lmc 0 "spine one" lid 1 4xQDR
"""


@pytest.fixture
def subnet() -> Subnet:
    return Subnet.from_text(NET, link_state="active")


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("node01", [("mlx5_0", "B"), ("mlx5_1", "A")]),
        ("node01 mlx5_1", [("mlx5_0", "B"), ("mlx5_1", "A")]),
        ("A", [("mlx5_0", "B"), ("mlx5_1", "A")]),
        ("node02", [("HCA-1", "C")]),
        ("D", [("sim0", "D")]),
        ("S-1", [("sim0", "S-1")]),
        ("spine one", [("sim0", "S-1")]),
        ("", [("HCA-1", "C")]),
    ],
)
def test_adapters_of_one_host_have_its_name_in_their_description(
    subnet: Subnet, host: str, found: list[tuple[str, str]]
) -> None:
    adapters = adapters_of(subnet, host, subnet.node("C"))
    assert [(adapter.name, adapter.node.node_id) for adapter in adapters] == found


def test_a_host_that_is_not_there_is_named_with_a_few_that_are(subnet: Subnet) -> None:
    with pytest.raises(AddressError, match=r"no host 'node7'; did you mean node02 or node01.*sim ctl show"):
        adapters_of(subnet, "node7", subnet.nodes[0])
    with pytest.raises(AddressError) as raised:
        adapters_of(Subnet.from_text(fat_tree(4, 8, 2)), "zzz", subnet.nodes[0])
    assert len(str(raised.value)) < 160


def test_adapters_with_the_same_name_get_others(subnet: Subnet) -> None:
    subnet.set_description("A", "node01 mlx5_0")
    adapters = adapters_of(subnet, "node01", subnet.nodes[0])
    assert [adapter.name for adapter in adapters] == ["sim0", "sim1"]


@pytest.mark.parametrize(
    ("ca", "port", "found"),
    [
        ("", 0, ("mlx5_0", 2)),  # port 1 has no link
        ("", 1, ("mlx5_1", 1)),  # only there it is Active
        ("mlx5_0", 0, ("mlx5_0", 2)),
        ("mlx5_0", 1, ("mlx5_0", 1)),
        ("mlx5_1", 0, ("mlx5_1", 1)),
        ("mlx5_1", 2, None),
        ("mlx4_0", 0, None),
    ],
)
def test_the_first_port_that_fits_is_chosen(subnet: Subnet, ca: str, port: int, found: tuple[str, int] | None) -> None:
    chosen = choose_port(adapters_of(subnet, "node01", subnet.nodes[0]), ca, port)
    assert (chosen and (chosen[0].name, chosen[1].number)) == found


def test_without_an_active_port_one_with_a_link_is_chosen(subnet: Subnet) -> None:
    adapters = adapters_of(subnet, "node01", subnet.nodes[0])
    for adapter in adapters:
        for port in adapter.ports():
            port.state = 1
    chosen = choose_port(adapters, "", 0)
    assert chosen is not None
    assert (chosen[0].name, chosen[1].number) == ("mlx5_0", 2)


def test_a_port_is_described_as_sysfs_does(running: RunningOpensm) -> None:
    port = running.subnet.node("H-1").ports[1]
    port.m_key, port.p_keys = 0x1122334455667788, [0x7FFF, 0x8001]
    port.gid_prefix = 0xFE80000000000000
    error, body = ask(running.name, WireQuestion.PORT, "HCA-1", 1, "one")
    name, *numbers = struct.unpack_from("=20s8I", body)
    mask, prefix, guid, count = struct.unpack_from("=4s8s8sI", body, 52)
    assert (error, name.rstrip(b"\0")) == (0, b"HCA-1")
    assert numbers == [1, 2, 0, port.sm_lid, 0, 4, 5, 10]
    assert (int.from_bytes(mask), int.from_bytes(prefix)) == (port.capability_mask, 0xFE80000000000000)
    assert (int.from_bytes(guid), count) == (port.guid, 64)
    assert struct.unpack_from("=3H", body, 76) == (0x7FFF, 0x8001, 0)
    assert bytes.fromhex("1122334455667788") not in body


def test_an_adapter_is_described(running: RunningOpensm) -> None:
    error, body = ask(running.name, WireQuestion.CA, "HCA-1", 0, "three")
    name, _, _, _, node_type, ports, guid, image = struct.unpack("=20s20s40s20sII8s8s", body)
    node = running.subnet.node("H-3")
    assert (error, name.rstrip(b"\0"), node_type, ports) == (0, b"HCA-1", 1, 2)
    assert (int.from_bytes(guid), int.from_bytes(image)) == (0x300, node.system_image_guid)


def test_names_are_told(running: RunningOpensm) -> None:
    assert ask(running.name, WireQuestion.NAMES, host="two") == (0, b"HCA-1".ljust(20, b"\0"))


@pytest.mark.parametrize(
    ("question", "ca", "port", "error"),
    [
        (WireQuestion.CA, "mlx4_0", 0, errno.ENOENT),
        (WireQuestion.PORT, "HCA-1", 9, errno.EINVAL),
        (WireQuestion.PORT, "mlx4_0", 1, errno.EINVAL),
        (WireQuestion.PORT, "", 9, errno.ENODEV),
        (WireQuestion.OPEN, "mlx4_0", 1, errno.EINVAL),
        (WireQuestion.OPEN, "", 9, errno.ENODEV),
        (9, "", 0, errno.EINVAL),
    ],
)
def test_what_is_not_there_is_an_errno(
    running: RunningOpensm, question: WireQuestion, ca: str, port: int, error: int
) -> None:
    assert ask(running.name, question, ca, port, "one") == (error, b"")


def test_a_host_that_is_not_there_ends_the_program(running: RunningOpensm) -> None:
    error, body = ask(running.name, WireQuestion.NAMES, host="twelve")
    assert error == -1
    assert b"twelve" in body


def test_another_version_ends_the_program(running: RunningOpensm) -> None:
    with connect(running.name) as connected:
        connected.send(hello(WireQuestion.NAMES, version=wire.VERSION + 1))
        raw = connected.recv(1000)
    assert struct.unpack_from("=i", raw)[0] == -1
    assert b"version" in raw


def test_a_port_of_each_adapter_can_be_opened(running: RunningOpensm) -> None:
    with Program(running.name, "three", "HCA-1", 1) as down, Program(running.name, "three", "HCA-1") as up:
        assert (down.page[4], up.page[4]) == (1, 2)
        assert len(running.attached()) == 2
    running.wait_until(lambda: not running.attached())


def test_why_a_shell_was_not_started_commands_no_terminal() -> None:
    assert wire.parse_shell_answer(wire.refusal("no \x1b[2J")) == r"no \x1b[2J"
    assert wire.parse_shell_answer(wire.answer()) == ""
