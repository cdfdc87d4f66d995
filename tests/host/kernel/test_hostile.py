"""Trees of /sys that no kernel makes: what cannot be used is named; nothing is raised, or followed out of the tree."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.host.kernel.ports import read_ports
from ibkeys.host.kernel.sysfs import MOST_NAMES, PAGE, Sysfs, numbers_in
from ibkeys.host.kernel.view import read_host
from tests.host.kernel import trees
from tests.host.kernel.trees import Tree

PORT = "class/infiniband/mlx5_0/ports/1"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return trees.connectx(tmp_path / "sys", capacity=4)


def replaced(tree: Tree, path: str) -> Path:
    """Remove an attribute and return its place."""
    place = tree.root / path
    place.unlink()
    return place


def troubles(tree: Tree) -> list[str]:
    return [str(each) for each in read_host(Sysfs(tree.root)).troubles]


def make_huge(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 40)


def make_loop(place: Path) -> None:
    place.symlink_to(place.name)


def make_garbage(place: Path) -> None:
    place.write_bytes(b"\xff\x1b[2J\0" * 20)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (make_huge, "more than 4096 bytes, the limit for such a file"),
        (make_loop, "Too many levels of symbolic links"),
        (make_garbage, "is not a number up to 0xffff"),
        (lambda place: place.write_text("0x10010"), "'0x10010' is not a number up to 0xffff"),
        (lambda place: place.write_text("-1"), "'-1' is not a number up to 0xffff"),
        (lambda place: place.write_text(""), "'' is not a number up to 0xffff"),
        (lambda place: place.mkdir(), "a directory"),
        (os.mkfifo, "a FIFO"),
        (lambda place: place.symlink_to("/dev/zero"), "No such file or directory"),
        (lambda place: place.symlink_to("../../../../../../../../../../../../etc/passwd"), "No such file or directory"),
    ],
    ids=["huge", "loop", "garbage", "17 bits", "negative", "empty", "directory", "fifo", "device", "outside"],
)
def test_an_entry_that_cannot_be_used_is_unknown_and_the_others_are_read(
    tree: Tree, spoil: Callable[[Path], object], why: str
) -> None:
    spoil(replaced(tree, f"{PORT}/pkeys/1"))
    sysfs = Sysfs(tree.root)
    (port,) = read_ports(sysfs)
    assert port.unread == [1]
    assert port.occupied == [(0, 0xFFFF)]
    (trouble,) = sysfs.troubles
    assert trouble.path == f"{PORT}/pkeys/1"
    assert why in trouble.error


def test_a_table_that_is_missing_or_no_directory_is_not_an_empty_one(tree: Tree) -> None:
    folder = tree.root / PORT / "pkeys"
    for index in range(4):
        (folder / str(index)).unlink()
    folder.rmdir()
    sysfs = Sysfs(tree.root)
    (port,) = read_ports(sysfs)
    assert (port.p_keys, port.capacity, port.occupied) == (None, None, None)
    assert [str(each) for each in sysfs.troubles] == [f"{PORT}/pkeys: No such file or directory"]
    folder.write_text("0xffff")
    assert troubles(tree) == [f"{PORT}/pkeys: Not a directory"]


def test_a_device_that_is_a_loop_of_links_is_named(tree: Tree) -> None:
    (tree.root / "class/infiniband/loop").symlink_to("loop")
    assert troubles(tree) == ["class/infiniband/loop/ports: Too many levels of symbolic links"]


def test_names_that_no_kernel_uses_are_left_out(tree: Tree) -> None:
    for name in ("x", "-1", "1e3", "٣", "999999", "65535"):
        tree.write(f"{PORT}/pkeys/{name}", "0x8001")
    for name in ("0", "255", "999", "one"):
        (tree.root / "class/infiniband/mlx5_0/ports" / name).mkdir()
    (port,) = read_ports(Sysfs(tree.root))
    assert port.capacity == 4
    assert numbers_in(["1", "01", "0"], 9) == [0, 1]


def test_a_directory_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibkeys.host.kernel.sysfs.MOST_NAMES", 8)
    tree = trees.connectx(tmp_path / "sys", capacity=9)
    assert troubles(tree) == [f"{PORT}/pkeys: more than 8 names: no kernel makes such a directory"]
    assert MOST_NAMES > 0xFFFF - 1


def test_a_tree_without_end_is_read_in_part_which_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = trees.connectx(tmp_path / "sys", ports=8)
    monkeypatch.setattr("ibkeys.host.kernel.sysfs.MOST_READS", 300)
    sysfs = Sysfs(tree.root)
    first, *others = read_ports(sysfs)
    assert first.unread == []
    assert all(port.p_keys is None or port.unread for port in others[1:])
    (trouble,) = sysfs.troubles
    assert trouble.error == "more than 300 files and directories: this one and all later ones are not read"


def test_a_tree_that_is_not_there_is_an_empty_one(tmp_path: Path) -> None:
    view = read_host(Sysfs(tmp_path / "nowhere"))
    assert (view.ports, view.interfaces, view.selinux.mode) == ((), (), "off")


def test_addresses_and_parents_of_interfaces_may_be_anything(tree: Tree) -> None:
    for name, text in (("address", "00:11"), ("broadcast", "zz"), ("flags", "up"), ("pkey", "full"), ("carrier", "?")):
        tree.write(f"class/net/ib0/{name}", text)
    view = read_host(Sysfs(tree.root))
    (interface,) = view.interfaces
    assert (interface.p_key, interface.port, interface.is_up) == (None, None, None)
    assert interface.problem == "its P_Key is not known"
    assert len(view.troubles) == 4


ATTRIBUTES = sorted(
    ["link_layer", "state", "lid", "sm_lid", "cap_mask", "gids/0", "pkeys/0", "counters/port_rcv_constraint_errors"]
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(ATTRIBUTES), st.binary(max_size=2 * PAGE))
def test_no_attribute_of_a_port_raises(tree: Tree, name: str, data: bytes) -> None:
    place = tree.root / PORT / name
    before = place.read_bytes()
    try:
        place.write_bytes(data)
        sysfs = Sysfs(tree.root)
        assert len(read_ports(sysfs)) == 1
        assert len(data) <= PAGE or sysfs.troubles
    finally:
        place.write_bytes(before)
