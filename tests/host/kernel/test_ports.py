"""What the ports of synthetic trees of /sys show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ibkeys.host.kernel.interfaces import interface_names, read_interfaces
from ibkeys.host.kernel.ports import COUNTERS, choose_port, job_ports, read_ports
from ibkeys.host.kernel.selinux import read_policy
from ibkeys.host.kernel.sysfs import Sysfs
from tests.host.kernel import trees
from tests.host.kernel.trees import Tree

GUID = 0x0C42A10300A10000


def test_connectx_has_its_table_by_index_with_capacity(tmp_path: Path) -> None:
    sysfs = Sysfs(trees.connectx(tmp_path, ports=2).root)
    first, second = read_ports(sysfs)
    assert sysfs.troubles == []
    assert (str(first), str(second)) == ("mlx5_0 port 1", "mlx5_1 port 1")
    assert first.id.to_json() == {
        "node_guid": "0x0c42a10300a10000",
        "port_guid": "0x0c42a10300a10000",
        "node_desc": "node01 mlx5_0",
        "node_type": "ca",
        "port": 1,
        "lid": 5,
    }
    assert (first.capacity, first.occupied) == (128, [(0, 0xFFFF), (1, 0x8010)])
    assert (first.link_layer, first.state, first.state_name, first.sm_lid) == ("InfiniBand", 4, "ACTIVE", 1)
    assert first.counters == dict.fromkeys(COUNTERS, 0)
    assert first.virtual.is_virtual is False


def test_a_virtual_function_is_told_by_its_physical_one_or_in_a_guest_by_its_capability_mask(tmp_path: Path) -> None:
    for name, in_guest, reason in (("host", False, "0000:03:00.0"), ("guest", True, "IsSMdisabled")):
        tree = trees.mlx5_virtual_function(tmp_path / name, in_guest)
        (port,) = read_ports(Sysfs(tree.root))
        assert port.virtual.is_virtual is True
        assert reason in port.virtual.reason


def test_mlx4_shows_what_each_function_sees_of_the_physical_table(tmp_path: Path) -> None:
    sysfs = Sysfs(trees.mlx4_sriov(tmp_path).root)
    port, other = read_ports(sysfs)
    assert sysfs.troubles == []
    seen = {each.pci: [(entry.physical, entry.p_key) for entry in each.entries] for each in port.mapped}
    assert seen == {
        "0000:04:00.0": [(0, 0xFFFF), (1, 0x7FFF), (2, 0x8010), (3, 0x0010)],
        "0000:04:00.1": [(1, 0x7FFF), (3, 0x0010)],
        "0000:04:00.2": [(0, 0xFFFF), (None, None)],
    }
    assert (other.num, other.mapped) == (2, ())


def test_qib_without_a_pma_has_no_counters(tmp_path: Path) -> None:
    sysfs = Sysfs(trees.qib(tmp_path).root)
    (port,) = read_ports(sysfs)
    assert sysfs.troubles == []
    assert port.counters == dict.fromkeys(COUNTERS)
    assert (port.capacity, port.occupied) == (4, [(0, 0x7FFF), (1, 0x8005)])


def test_rxe_is_no_infiniband_port(tmp_path: Path) -> None:
    sysfs = Sysfs(trees.rxe(tmp_path).root)
    (port,) = read_ports(sysfs)
    assert sysfs.troubles == []
    assert not port.is_infiniband
    assert (port.id.port_guid, port.virtual.is_virtual) == (None, None)
    assert job_ports([port]) == []
    assert choose_port([port], None, None) is None


def test_the_first_active_port_is_the_default(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    device = tree.device("mlx5_0")
    tree.port(device, (0xFFFF,), 1, state="1: DOWN")
    tree.port(device, (0xFFFF,), 2)
    ports = read_ports(Sysfs(tree.root))
    chosen = choose_port(ports, None, None)
    down = choose_port(ports, "mlx5_0", 1)
    assert chosen is not None
    assert down is not None
    assert (chosen.num, down.num) == (2, 1)
    assert [port.num for port in job_ports(ports)] == [2]


def test_interfaces_have_their_p_key_from_the_file_else_the_broadcast_address(tmp_path: Path) -> None:
    tree = trees.connectx(tmp_path)
    tree.child_by_sysfs(GUID, 0x0010, "ib0.0010")  # a newer kernel: named as it was written
    tree.child_by_netlink("storage", GUID, 0x0010, "ib0")
    sysfs = Sysfs(tree.root)
    found = {each.name: each for each in read_interfaces(sysfs, interface_names(sysfs), read_ports(sysfs))}
    assert {name: (each.p_key, each.index, each.source, each.parent) for name, each in found.items()} == {
        "ib0": (0xFFFF, 0, "pkey", None),
        "ib0.0010": (0x8010, 1, "pkey", "ib0"),
        "storage": (0x8010, 1, "broadcast", "ib0"),
    }
    assert {name: (each.mode, each.umcast) for name, each in found.items()} == {
        "ib0": ("datagram", False),
        "ib0.0010": ("datagram", False),
        "storage": (None, None),
    }
    assert not any(each.problem for each in found.values())
    assert sysfs.troubles == []


@pytest.mark.parametrize("below", [*"2345678", "-1", ""])
def test_an_index_that_may_be_of_another_network_namespace_names_no_parent(tmp_path: Path, below: str) -> None:
    tree = trees.connectx(tmp_path, ports=2)
    tree.ethernet("eth1")
    tree.child_by_netlink("child", GUID, 0x0011, "ib0")
    tree.child_by_netlink("moved", GUID, 0x0010)
    index = {name: tree.index(name) for name in ("ib0", "ib1", "eth0", "eth1", "child", "moved")}
    assert sorted(index.values()) == [2, 3, 4, 5, 6, 7]
    if int(below or 0) == index["ib0"]:
        tree.write("class/net/moved/address", "zz")
    tree.write("class/net/moved/iflink", below)
    sysfs = Sysfs(tree.root)
    parents = {each.name: each.parent for each in read_interfaces(sysfs, interface_names(sysfs), read_ports(sysfs))}
    assert parents == {"ib0": None, "moved": None, "child": "ib0", "ib1": None}


def test_a_parent_may_have_any_bytes_for_a_name(tmp_path: Path) -> None:
    tree = trees.connectx(tmp_path)
    place = tree.root / "class/net/ib0"
    place.rename(os.fsdecode(os.fsencode(place.parent) + b"/ib\xfe\x1b"))
    tree.child_by_netlink("storage", GUID, 0x0010, "ib\udcfe\x1b")
    sysfs = Sysfs(tree.root)
    parents = {each.name: each.parent for each in read_interfaces(sysfs, interface_names(sysfs), read_ports(sysfs))}
    assert parents == {"ib\udcfe\x1b": None, "storage": "ib\udcfe\x1b"}


def test_an_interface_that_cannot_work_says_why(tmp_path: Path) -> None:
    tree = trees.connectx(tmp_path)
    tree.child_by_netlink("absent", GUID, 0x0033)
    tree.child_by_netlink("deaf", GUID, 0x0010, carrier="0")
    tree.child_by_netlink("unread", GUID, 0x0010)
    (tree.root / "class/net/unread/carrier").unlink()
    tree.child_by_netlink("strange", 0x1234, 0x0010)
    sysfs = Sysfs(tree.root)
    found = read_interfaces(sysfs, interface_names(sysfs), read_ports(sysfs))
    problems = {each.name: each.problem for each in found}
    assert problems.pop("ib0") is None
    assert problems["unread"] is None
    running = {each.name: each.is_running for each in found}
    assert running == {"ib0": True, "absent": True, "deaf": False, "unread": None, "strange": True}
    assert problems["absent"] == "partition 0x0033 is not in the P_Key table of mlx5_0 port 1"
    assert (problems["deaf"] or "").startswith("up, but not running: its P_Key is not in the table, or the broadcast")
    assert problems["strange"] == "no port of this host has the GUID of its address"


def test_selinux_decides_where_it_enforces_and_its_policy_has_the_classes(tmp_path: Path) -> None:
    cases = {
        "off": ("", (), "off", False),
        "enforcing": ("1", ("infiniband_pkey", "infiniband_endport"), "enforcing", True),
        "smps": ("1", ("infiniband_endport",), "enforcing", True),
        "old": ("1", (), "enforcing", False),
        "permissive": ("0", ("infiniband_pkey",), "permissive", False),
        "garbage": ("yes", ("infiniband_pkey",), None, False),
    }
    for name, (enforce, classes, mode, decides) in cases.items():
        tree = Tree(tmp_path / name)
        if enforce:
            tree.selinux(enforce, classes)
        policy = read_policy(Sysfs(tree.root))
        assert (policy.mode, policy.can_refuse) == (mode, decides), name
