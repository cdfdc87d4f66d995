"""A key of its own on every port at level 2: who is asked with which key, and what a swapped cable does to that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.fabric.discovery import Wanted, discover
from ibkeys.fabric.keyring import KeyRing
from ibkeys.fabric.model import Fabric
from ibkeys.keys.mkey import MKey
from ibkeys.sim.nodes import Node, Port
from ibkeys.sim.subnet import Subnet
from tests.corpus import label
from tests.fabric.test_discovery import SMALL, links_found, links_of, ring_for, violations
from tests.fabricsim import subnet, tool

SWITCH_A, SWITCH_B = "MF0;switch-a:IS5023/U1", "Infiniscale-IV Mellanox Technologies"


def protect_all(net: Subnet) -> KeyRing:
    """Give every end port a key of its own, at level 2 with a lease; return a ring that knows them, links and LIDs."""
    ring = ring_for(net)
    for number, port in enumerate(port for node in net.nodes for port in node.end_ports):
        port.m_key, port.protect_bits, port.lease_period = 0xA0B1C2D300000000 + number, 2, 60
        ring.by_guid[port.guid] = MKey(port.m_key)
    return ring


def end_port(node: Node, number: int) -> Port:
    return node.ports[0] if node.is_switch else node.ports[number]


@contextmanager
def watched(net: Subnet, ring: KeyRing) -> Iterator[Any]:
    """Open *net* with *ring* and assert afterwards that no port was sent the key of another."""
    with tool(net, timeout=0.1) as fabric:
        fabric.ring = ring
        sent: list[tuple[Port, bytes]] = []
        process = net._ask

        def heard(mad: bytes, node: Node, ingress: int, slid: int) -> Any:
            sent.append((end_port(node, ingress), mad[24:32]))
            return process(mad, node, ingress, slid)

        net._ask = heard  # type: ignore[method-assign]
        yield fabric
        owners = {key.reveal().to_bytes(8): guid for guid, key in ring.by_guid.items()}
        strays = [(str(port), owners[key]) for port, key in sent if key in owners and owners[key] != port.guid]
        assert strays == []


def assert_nothing_happened(net: Subnet) -> None:
    ports = [port for node in net.nodes for port in node.end_ports]
    assert violations(net) == 0
    assert [port for port in ports if port.lease_deadline is not None] == []
    assert [event for event in net.events if event.kind.startswith(("trap", "lease", "m-key"))] == []


@pytest.mark.parametrize("file", SMALL, ids=label)
@pytest.mark.parametrize("with_lids", [True, False])
def test_with_complete_key_files_no_port_notices(file: Path, with_lids: bool) -> None:
    net = Subnet.from_file(file)
    ring = protect_all(net)
    if not with_lids:
        ring.lids.clear()
    with ibkeys.open(subnet=net) as fabric:
        fabric.ring = ring
        found = fabric.discover(p_keys=True)
    assert not found.troubles
    assert not found.notes
    assert links_found(found) == links_of(net)
    assert {port.m_key_state for port in found.end_ports()} == {"set"}
    assert_nothing_happened(net)


def test_each_use_of_a_key_is_counted() -> None:
    net = subnet("two-switch")
    ring = protect_all(net)
    ring.by_guid = {guid: key for guid, key in ring.by_guid.items() if guid == net.port("node02 mlx4_0", 1).guid}
    for node in net.nodes:
        for port in node.end_ports:
            if port.guid not in ring.by_guid:
                port.m_key = 0
    with watched(net, ring) as fabric:
        fabric.discover()
        assert fabric.client.statistics.keyed == 3  # NodeInfo, NodeDescription, PortInfo of that port
        net.faults.lose_next("request", node=net.node("node02 mlx4_0"))
        fabric.discover()
        assert fabric.client.statistics.keyed == 7  # each attempt counts


@pytest.mark.parametrize("seed", range(3))
def test_losses_cost_no_violation_either(seed: int) -> None:
    net = subnet("dual-home", seed)
    ring = protect_all(net)
    net.faults.drop = net.faults.duplicate = net.faults.delay = 0.1
    with watched(net, ring) as fabric:
        fabric.discover(p_keys=True)
    assert_nothing_happened(net)


# --- cables that moved ------------------------------------------------------------------------------------------------


def swap(net: Subnet, one: tuple[str, int], other: tuple[str, int]) -> None:
    """Swap the far ends of two ports' cables."""
    ends = []
    for name, number in (one, other):
        far = net.unplug(name, number)
        assert far is not None
        ends.append(far)
    for (name, number), far in zip((one, other), reversed(ends), strict=True):
        net.plug(name, number, far.node.guid, far.number)


def sm_sweeps(net: Subnet) -> None:
    """What an SM does that can reach every node: links become Active, forwarding tables follow the cables."""
    for node in net.nodes:
        node.routes = None
        for port in node.all_ports:
            port.first_peer = port.peer
            if port.is_up:
                port.set_states(4, 5)


def told(found: Fabric) -> str:
    return "\n".join([*found.notes, *(trouble.error for trouble in found.troubles)])


@pytest.mark.parametrize("swept", [False, True])
def test_two_hosts_swapped(swept: bool) -> None:
    net = subnet("two-switch")
    ring = protect_all(net)
    swap(net, (SWITCH_A, 2), (SWITCH_B, 1))
    if swept:
        sm_sweeps(net)
    with watched(net, ring) as fabric:
        found = fabric.discover()
    assert len(found.nodes) == 6
    assert violations(net) == 6  # three attempts at each of the two
    assert sorted((trouble.port.node.description, trouble.port.num) for trouble in found.troubles) == [
        (SWITCH_B, 1),
        (SWITCH_A, 2),
    ]
    for trouble in found.troubles:
        expected = ring.neighbors[(trouble.port.node.guid, trouble.port.num)][0]
        assert f"port GUID 0x{expected:016x} was known there" in trouble.error
        assert "3 SMPs without a key, each of which a protected port counts as an M_Key violation" in trouble.error
        if swept:
            assert "is sent out of port 7" in trouble.error or "is sent out of port 8" in trouble.error
        else:
            assert "Initialize" in trouble.error


@pytest.mark.parametrize("swept", [False, True])
def test_two_hosts_of_one_switch_swapped(
    swept: bool,
) -> None:
    net = subnet("two-switch")
    ring = protect_all(net)
    swap(net, (SWITCH_A, 2), (SWITCH_A, 3))
    if swept:
        sm_sweeps(net)
    with watched(net, ring) as fabric:
        found = fabric.discover()
        assert violations(net) == 6
        if swept:
            assert "is sent out of port 3" in told(found)
            assert "is sent out of port 2" in told(found)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("swept", [False, True])
def test_what_answers_elsewhere_is_told(level: int, swept: bool) -> None:
    """Hosts that answer without a key say who they are: the sweep names where they were and where they are."""
    net = subnet("two-switch")
    ring = protect_all(net)
    for name in ("node02 mlx4_0", "node03 mlx4_0"):
        net.port(name, 1).protect_bits = level
    swap(net, (SWITCH_A, 2), (SWITCH_A, 3))
    if swept:
        sm_sweeps(net)
    with watched(net, ring) as fabric:
        found = fabric.discover()
    assert violations(net) == 0
    moved = [note for note in found.notes if "now leads to" in note]
    assert len(moved) == 2
    for number, was, now in ((2, "0x0002c903000a1021", "0x0002c903000a1031"),):
        [note] = [note for note in moved if f"port {number} now leads to" in note]
        assert was in note
        assert now in note


def parallel_net() -> str:
    """Three switches, two cables from the leaf to each of the others, one between these; hosts on all."""
    lines = []
    cables = [
        ("S-leaf", 3, "S-one", 1),
        ("S-leaf", 4, "S-one", 2),
        ("S-leaf", 5, "S-two", 1),
        ("S-leaf", 6, "S-two", 2),
    ]
    cables += [("S-leaf", 1, "H-a", 1), ("S-leaf", 2, "H-b", 1), ("S-one", 5, "H-c", 1), ("S-two", 5, "H-d", 1)]
    cables += [("S-one", 3, "S-two", 3)]
    for number, name in enumerate(("S-leaf", "S-one", "S-two", "H-a", "H-b", "H-c", "H-d"), 1):
        kind, ports = ("Switch", 8) if name.startswith("S") else ("Ca", 1)
        lines.append(f'{kind.lower()}guid=0x{number * 16:x}\n{kind} {ports} "{name}" # "{name}"')
        for near, port, far, far_port in [*cables, *((c, d, a, b) for a, b, c, d in cables)]:
            if near == name:
                lines.append(f'[{port}] "{far}"[{far_port}]')
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize(("one", "other"), [(4, 6), (3, 6), (3, 5), (4, 5)])
def test_cables_between_switches_swapped(one: int, other: int, swept: bool) -> None:
    """Two switches, two parallel cables to each: of those that moved, none leads the wrong key anywhere."""
    net = Subnet.from_text(parallel_net())
    ring = protect_all(net)
    swap(net, ("S-leaf", one), ("S-leaf", other))
    if swept:
        sm_sweeps(net)
    with watched(net, ring) as fabric:
        found = discover(fabric.client, ring, Wanted())
    silent = {(trouble.port.node.description, trouble.port.num) for trouble in found.troubles}
    for number in (one, other):
        assert f"port {number} now leads to" in told(found) or ("S-leaf", number) in silent


def test_parallel_cables_that_did_not_move_cost_nothing() -> None:
    net = Subnet.from_text(parallel_net())
    ring = protect_all(net)
    with watched(net, ring) as fabric:
        found = fabric.discover()
    assert not found.troubles
    assert links_found(found) == links_of(net)
    assert_nothing_happened(net)
