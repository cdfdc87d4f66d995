"""A key of its own on every port at level 2: who is asked with which key, and what a swapped cable does to that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ibkeys
from ibkeys.discovery.discover import discover
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.wanted import Wanted
from ibkeys.fabric.live import LiveFabric
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.find import find_aliases
from ibkeys.topology.model import Topology
from tests.corpus import fabrics
from tests.discovery.protecting import SWITCH_A, SWITCH_B
from tests.discovery.sweeping import links_found, links_of
from tests.fabricsim import subnet, swap_cables, tool
from tests.protectedsim import link_end, listening, protect_all, provoked, sm_sweeps


@contextmanager
def watched(net: Subnet, ring: KeyRing) -> Iterator[LiveFabric]:
    """Open *net* with *ring* and assert afterwards that no port was sent the key of another."""
    with tool(net, timeout=0.1) as fabric, listening(net):
        fabric.ring = ring
        yield fabric


@pytest.mark.parametrize("file", fabrics(400_000))
@pytest.mark.parametrize("with_lids", [True, False])
def test_with_complete_key_files_no_port_notices(file: Path, with_lids: bool) -> None:
    net = Subnet.from_file(file)
    ring = protect_all(net)
    if not with_lids:
        ring.lids.clear()
    with ibkeys.open(net) as fabric:
        fabric.ring = ring
        found = fabric.sweep(p_keys=True)
    assert not found.troubles
    assert not found.notes
    assert links_found(found) == links_of(net)
    assert {port.m_key_state for port in found.end_ports()} == {"set"}
    assert provoked(net) == []


def test_each_use_of_a_key_is_counted() -> None:
    net = subnet("two-switch")
    ring = protect_all(net)
    ring.by_guid = {guid: key for guid, key in ring.by_guid.items() if guid == net.port("node02 mlx4_0", 1).guid}
    for node in net.nodes:
        for port in node.end_ports:
            if port.guid not in ring.by_guid:
                port.m_key = 0
    with watched(net, ring) as fabric:
        fabric.sweep()
        assert fabric.client.statistics.keyed == 3  # NodeInfo, NodeDescription, PortInfo of that port
        net.faults.lose_next("request", node=net.node("node02 mlx4_0"))
        fabric.sweep()
        assert fabric.client.statistics.keyed == 7  # each attempt counts


def test_alias_guids_are_asked_with_the_key_of_each_port() -> None:
    net = subnet("two-switch")
    ring = protect_all(net)
    net.port("node03 mlx4_0", 1).guids = {1: 0x1234}
    with watched(net, ring) as fabric:
        found = fabric.sweep()
        fabric.read_alias_guids(found, [0x1234])
    (port, index) = find_aliases(found, [0x1234])[0x1234]
    assert (port.node.description, index) == ("node03 mlx4_0", 1)
    assert not found.troubles
    assert provoked(net) == []


@pytest.mark.parametrize("seed", range(3))
def test_losses_cost_no_violation_either(seed: int) -> None:
    net = subnet("dual-home", seed)
    ring = protect_all(net)
    net.faults.drop = net.faults.duplicate = net.faults.delay = 0.1
    with watched(net, ring) as fabric:
        fabric.sweep(p_keys=True)
    assert provoked(net) == []


# --- cables that moved ------------------------------------------------------------------------------------------------


def told(found: Topology) -> str:
    return "\n".join([*found.notes, *(trouble.error for trouble in found.troubles)])


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("other", [(SWITCH_B, 1), (SWITCH_A, 3)], ids=["two-switches", "one-switch"])
def test_two_hosts_swapped(other: tuple[str, int], swept: bool) -> None:
    net = subnet("two-switch")
    ring = protect_all(net)
    places = [net.port(*place) for place in ((SWITCH_A, 2), other)]
    swap_cables(*places, net)
    if swept:
        sm_sweeps(net)
    with watched(net, ring) as fabric:
        found = fabric.sweep()
    assert len(found.nodes) == 6
    assert provoked(net) == []
    assert {(each.near.node.guid, each.near.num) for each in found.unasked} == {link_end(port) for port in places}
    assert {trouble.reading for trouble in found.troubles} == {"not-asked"}
    for each, trouble in zip(found.unasked, found.troubles, strict=False):
        expected = ring.neighbors[(each.near.node.guid, each.near.num)]
        assert each.known == expected
        [text] = [trouble.error for trouble in found.troubles if trouble.port is each.near]
        assert f"port GUID 0x{expected[0]:016x} is known there" in text
        peer = net.port(net.node(each.near.node.guid), each.near.num).peer
        assert peer is not None
        if swept:
            assert each.named is not None
            assert each.named[0] == peer.guid
            assert f"port GUID 0x{peer.guid:016x}, named by the forwarding table" in text
            assert "so it moved" in text
        else:
            assert each.named is None
            assert "Initialize" in text


@pytest.mark.parametrize("level", [0, 1])
def test_what_answers_elsewhere_is_told(level: int) -> None:
    """Hosts that are known to answer without a key say who they are: the sweep names where they were and are."""
    net = subnet("two-switch")
    ring = protect_all(net)
    for name in ("node02 mlx4_0", "node03 mlx4_0"):
        port = net.port(name, 1)
        port.protect_bits = ring.levels[port.guid] = level
    swap_cables(net.port(SWITCH_A, 2), net.port(SWITCH_A, 3), net)
    with watched(net, ring) as fabric:
        # No SM has swept: for all that is known a cable joins the two ports of the protected switch.
        assert [trouble.reading for trouble in fabric.sweep().troubles] == ["not-asked", "not-asked"]
        sm_sweeps(net)
        found = fabric.sweep()
    assert provoked(net) == []
    moved = [note for note in found.notes if "now leads to" in note]
    assert len(moved) == 2
    [note] = [note for note in moved if "port 2 now leads to" in note]
    assert "0x0002c903000a1021" in note
    assert "0x0002c903000a1031" in note


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
    swap_cables(net.port("S-leaf", one), net.port("S-leaf", other), net)
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
        found = fabric.sweep()
    assert not found.troubles
    assert links_found(found) == links_of(net)
    assert provoked(net) == []
