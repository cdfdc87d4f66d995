"""Planted surprises, each found and named before OpenSM starts or by the tables that it leaves."""

from __future__ import annotations

from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.rehearse.surprises import (
    notes_before_start,
    notes_on_full_tables,
    notes_on_remembered_indexes,
    notes_on_unread_nodes,
)
from ibkeys.sim.subnet import Subnet
from tests.fabricsim import subnet, tool

NODE = "node02 mlx4_0"


def notes_of(net: Subnet, options: str = "", m_key: int = 0) -> list[str]:
    return list(notes_before_start(net, read_options(options.encode()), MKey(m_key)))


SOUND = "keep_pkey_indexes TRUE\nm_key_lookup TRUE\nexit_on_fatal TRUE\n"


def test_a_sound_fabric_has_none() -> None:
    net = subnet("two-switch")
    assert notes_of(net, SOUND) == []
    assert list(notes_on_full_tables(net)) == []
    assert list(notes_on_remembered_indexes(net, {})) == []


def test_two_nodes_with_one_guid() -> None:
    net = subnet("two-switch")
    net.node("node03 mlx4_0").guid = net.node(NODE).guid
    [note] = notes_of(net, SOUND)
    assert f"2 nodes have the GUID 0x{net.node(NODE).guid:016x} (node02 mlx4_0, node03 mlx4_0)" in note
    assert note.endswith("and ends if it finds them")
    [note] = notes_of(net, SOUND.replace("fatal TRUE", "fatal FALSE"))
    assert "ends" not in note


def test_tables_that_are_packed() -> None:
    [note] = notes_of(subnet("two-switch"), SOUND.replace("indexes TRUE", "indexes FALSE"))
    assert note.startswith("keep_pkey_indexes is FALSE")


def test_ports_with_another_key_than_the_only_one_that_opensm_uses() -> None:
    net = subnet("two-switch")
    for number in (2, 3):
        net.port(f"node0{number} mlx4_0", 1).m_key = 0x1111 * number
    blunt = SOUND.replace("lookup TRUE", "lookup FALSE")
    [note] = notes_of(net, blunt, 0x2222)
    assert "another M_Key has 1 port (node03 mlx4_0 port 1), which refuses its Sets" in note
    assert "3333" not in note
    assert notes_of(net, SOUND, 0x2222) == []


def test_a_port_that_hides_its_key_and_so_refuses_sets() -> None:
    net = subnet("two-switch")
    net.port(NODE, 1).protect_bits = 1
    [note] = notes_of(net, SOUND)
    assert "does not show the M_Key of 1 port (node02 mlx4_0 port 1)" in note


def test_a_table_without_a_free_entry() -> None:
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    port.p_keys = [0x8000 | number for number in range(1, len(port.p_keys) + 1)]
    [note] = notes_on_full_tables(net)
    assert "the P_Key table of 1 port (node02 mlx4_0 port 1) is full" in note


def test_indexes_that_a_restart_forgets() -> None:
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    assert port.peer is not None
    [note] = notes_on_remembered_indexes(
        net, {(port.node.guid, 1): {2: 0x8010}, (port.peer.node.guid, port.peer.number): {2: 0x8010}}
    )
    assert "P_Keys that 1 port (node02 mlx4_0 port 1) had: a restart forgets it" in note


def test_a_node_that_the_snapshot_did_not_read_is_not_on_the_copy() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric:
        assert list(notes_on_unread_nodes(fabric.sweep())) == []
    net.silence(net.node(NODE))
    with tool(net) as fabric:
        [note] = notes_on_unread_nodes(fabric.sweep())
    leaf = net.port(NODE, 1).peer
    assert leaf is not None
    assert f"behind 1 port ({leaf.node.description!r} 0x{leaf.node.guid:016x} port {leaf.number})" in note
