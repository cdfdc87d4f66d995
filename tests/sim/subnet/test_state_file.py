"""The file that keeps a subnet: what it takes to save a change, and what is left after a crash."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.errors import StoreError
from ibkeys.mad.const import AttributeID
from ibkeys.mad.smp import build_smp
from ibkeys.sim.state import file
from ibkeys.sim.state.document import dump_state
from ibkeys.sim.state.file import StateFile
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.fabricsim import set_p_key_capacity
from tests.fattree import fat_tree
from tests.sim.subnet.asking import NODE1, NODE2, SET, SWITCH_A

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"


def fresh() -> Subnet:
    return Subnet.from_file(TWO_SWITCH)


def said(path: Path, subnet: Subnet) -> dict[str, object]:
    """Return what a program that opens a copy of the file finds."""
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    with closing(StateFile(copy, subnet)):
        return {**dump_state(subnet), "now": 0}


def test_a_save_takes_as_long_as_the_change_is_large(tmp_path: Path) -> None:
    subnet = Subnet.from_text(fat_tree(8, 16, 4))
    path = tmp_path / "state"
    state = StateFile(path, subnet)
    hosts = [port for node in subnet.nodes if not node.is_switch for port in node.end_ports]
    state.save()
    inode, sizes = path.stat().st_ino, [path.stat().st_size]
    for number, port in enumerate(hosts):
        port.p_keys = [0xFFFF, 0x8001 + number]
        state.save()
        sizes.append(path.stat().st_size)
    grown = {after - before for before, after in pairwise(sizes)}
    assert path.stat().st_ino == inode, "the file was not written anew"
    assert max(grown) < min(grown) + 20, "the last change takes no more than the first"
    found = dump_state(subnet)
    state.close()
    assert said(path, Subnet.from_text(fat_tree(8, 16, 4))) == {**found, "now": 0}


def test_changes_as_long_as_the_state_make_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "LEAST_CHANGES", 2_000)
    subnet, path = fresh(), tmp_path / "state"
    state = StateFile(path, subnet)
    port = subnet.port(NODE1, 1)
    files = set()
    for number in range(60):
        port.lid = 1 + number % 100
        state.save()
        files.add(path.stat().st_ino)
        assert path.stat().st_size < 6_000
    assert len(files) > 1
    state.close()


def test_a_line_that_a_crash_cut_off_was_not_saved(tmp_path: Path) -> None:
    subnet, path = fresh(), tmp_path / "state"
    state = StateFile(path, subnet)
    subnet.port(NODE1, 1).m_key = 0xABC
    state.save()
    subnet.port(NODE2, 1).m_key = 0xDEF
    state.save()
    state.close()
    first, second, *_ = path.read_bytes().splitlines(keepends=True)
    for length in (1, len(second) // 2, len(second) - 1):
        path.write_bytes(first + second[:length])
        again = fresh()
        with closing(StateFile(path, again)):
            assert (again.port(NODE1, 1).m_key, again.port(NODE2, 1).m_key) == (0xABC, 0)
            again.port(SWITCH_A, 0).m_key = 5
        last = fresh()
        StateFile(path, last).close()
        assert (last.port(NODE1, 1).m_key, last.port(SWITCH_A, 0).m_key) == (0xABC, 5)


@pytest.mark.parametrize("line", [b"{}\n", b"\n", b'{"wall": 1}\n', b"nonsense\n"])
def test_a_damaged_line_is_refused(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "state"
    StateFile(path, fresh()).close()
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(StoreError, match="damaged"):
        StateFile(path, fresh())


def test_a_change_that_cannot_be_appended_is_in_the_next_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subnet, path = fresh(), tmp_path / "state"
    state = StateFile(path, subnet)
    state.save()
    subnet.port(NODE1, 1).m_key = 0xABC

    def full(fd: int, data: bytes, offset: int) -> int:
        os.write(fd, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StoreError, match="No space left"):
            state.save()
    state.close()
    again = fresh()
    StateFile(path, again).close()
    assert again.port(NODE1, 1).m_key == 0xABC


CHANGES = ["keys", "table", "unplug", "plug", "silence", "answer", "capacity", "sm", "set"]


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 40)), max_size=12))
def test_the_lines_say_what_the_subnet_is(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, int]]
) -> None:
    subnet, path = fresh(), tmp_path_factory.mktemp("state") / "state"
    state = StateFile(path, subnet)
    state.save()
    for what, number in changes:
        change(subnet, what, number)
        state.save()
        assert said(path, fresh()) == {**dump_state(subnet), "now": 0}
    state.close()


def change(subnet: Subnet, what: str, number: int) -> None:
    hosts = [node for node in subnet.nodes if not node.is_switch]
    node = hosts[number % len(hosts)]
    port = subnet.port(node, 1)
    switch = subnet.node(SWITCH_A)
    if what == "keys":
        port.m_key, port.protect_bits, port.lease_period = number, number % 4, number
    elif what == "table":
        port.p_keys = [0xFFFF, *range(0x8001, 0x8001 + number)]
    elif what == "unplug":
        subnet.unplug(node, 1)
    elif what == "plug" and port.peer is None and port.first_peer is not None and port.first_peer.peer is None:
        subnet.cables.plug(port, port.first_peer)
    elif what in ("silence", "answer"):
        subnet.silence(node, what == "silence")
    elif what == "capacity":
        set_p_key_capacity(switch, enforcement_cap=number)
    elif what == "sm":
        subnet.set_sm(node)
    elif what == "set":
        subnet.process(build_smp(SET, AttributeID.P_KEY_TABLE, 1 << 16, path=(1,), data=bytes([number] * 64)), NODE1, 1)
