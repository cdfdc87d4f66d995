"""Discovery against the simulator's own side: what the sweep says must be what the subnet is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ibkeys
from ibkeys.sim.subnet import Subnet
from tests.corpus import fabrics
from tests.discovery.sweeping import KEY, links_found, links_of, protect, ring_for
from tests.fabricsim import subnet, tool
from tests.protectedsim import listening, sm_sweeps, violations

SWITCHES = ("MF0;switch-a:IS5023/U1", "Infiniscale-IV Mellanox Technologies")


@pytest.mark.parametrize("file", fabrics(400_000))
def test_everything_that_is_cabled_is_found(file: Path) -> None:
    net = Subnet.from_file(file)
    with ibkeys.open(net) as fabric:
        found = fabric.sweep(p_keys=True)
        statistics = fabric.client.statistics
    assert not found.troubles
    assert {node.guid for node in found.nodes} == {node.guid for node in net.nodes}
    assert {node.description for node in found.nodes} == {node.description for node in net.nodes}
    assert links_found(found) == links_of(net)
    for port in found.ports():
        real = net.port(net.node(port.node.guid), port.num)
        assert list(port.p_keys or ()) == [int(key) for key in real.p_keys]
        assert port.port_guid == (net.port(net.node(port.node.guid), 0).guid if port.node.is_switch else real.guid)
    # Nothing is asked twice: NodeInfo for each link and the own node, the rest once for each node, port and block.
    ports = list(found.ports())
    blocks = sum(-(-(port.capacity or 0) // 32) for port in ports)
    switches = sum(node.is_switch for node in found.nodes)
    least = 1 + len(found.nodes) + switches + len(ports) + blocks
    assert least + len(links_of(net)) <= statistics.sent <= least + 2 * len(links_of(net))


def test_ports_without_a_cable_are_counted_not_read() -> None:
    with tool(subnet("dual-home")) as fabric:
        assert fabric.sweep().unreached == 1  # port 1 of backup01


def test_a_silent_node_is_named_with_the_port_before_it_and_the_rest_is_read() -> None:
    net = subnet("two-switch")
    net.silence("node05 mlx4_0")
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
    assert len(found.nodes) == 7
    [trouble] = found.troubles
    assert (trouble.port.node.description, trouble.port.num) == ("Infiniscale-IV Mellanox Technologies", 2)
    assert "no reply after 3 attempts" in trouble.error


def test_a_node_that_falls_silent_in_the_middle_is_given_up_after_one_budget() -> None:
    net = subnet("two-switch")
    net.faults.lose_next("reply", node=net.node("S-0002c90200401040"), attribute=0x15, count=10_000)
    with tool(net) as fabric:
        began = net.now
        found = fabric.sweep()
        assert net.now - began < 10.0
    assert {trouble.port.node.guid for trouble in found.troubles} == {0x0002C90200401040}


def test_two_switches_with_one_guid_are_two_nodes_and_said_so() -> None:
    net = subnet("ring-router")
    first, second = [node for node in net.nodes if node.is_switch][:2]
    second.guid = first.guid
    with tool(net) as fabric:
        found = fabric.sweep()
    assert len(found.nodes) == len(net.nodes)
    assert any("is used by 2 different nodes" in note for note in found.notes)


def test_thirty_percent_loss_gives_exact_tables_or_names_what_is_missing() -> None:
    for seed in range(5):
        net = subnet("dual-home", seed)
        net.faults.drop = net.faults.duplicate = net.faults.delay = 0.1
        net.port("db01 mlx5_0", 2).p_keys = [0xFFFF, 0x8001, 0x8002]
        with tool(net) as fabric:
            found = fabric.sweep(p_keys=True)
        missing = {(trouble.port.node.guid, trouble.port.num) for trouble in found.troubles}
        for port in found.ports():
            if port.p_keys is None:
                assert (port.node.guid, port.num) in missing
            else:
                assert [int(key) for key in port.p_keys] == [
                    int(key) for key in net.port(net.node(port.node.guid), port.num).p_keys
                ]


# --- M_Keys ------------------------------------------------------------------------------------------------------


def test_at_level_1_everything_is_read_but_the_key() -> None:
    net = subnet("two-switch")
    protect(net, "node05 mlx4_0", 1)
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
    assert not found.troubles
    assert [port.m_key_state for port in found.end_ports() if port.node.description == "node05 mlx4_0"] == ["hidden"]
    assert violations(net) == 0


def test_at_level_0_the_key_shows() -> None:
    net = subnet("two-switch")
    protect(net, "node05 mlx4_0", 0)
    with tool(net) as fabric:
        states = {port.node.description: port.m_key_state for port in fabric.sweep().end_ports()}
    assert states["node05 mlx4_0"] == "set"
    assert states["node04 mlx4_0"] == "zero"


def test_at_level_2_without_the_key_a_node_is_silent_and_named() -> None:
    net = subnet("two-switch")
    protect(net, "Infiniscale-IV Mellanox Technologies", 2)
    with tool(net) as fabric:
        found = fabric.sweep()
    assert len(found.nodes) == 4  # the far switch and what is behind it stay dark
    assert {(trouble.port.node.guid, trouble.port.num) for trouble in found.troubles} == {
        (0x0002C90200401000, 7),
        (0x0002C90200401000, 8),
    }


def test_the_users_own_key_goes_to_every_node() -> None:
    net = subnet("two-switch")
    for node in net.nodes:
        protect(net, node.node_id, 3)
    with tool(net, m_key=KEY) as fabric:
        found = fabric.sweep(p_keys=True)
    assert not found.troubles
    assert len(found.nodes) == 8
    assert {port.m_key_state for port in found.end_ports()} == {"set"}
    assert violations(net) == 0


def test_a_key_of_the_ring_opens_a_known_link_without_a_violation() -> None:
    net = subnet("two-switch")
    protect(net, "Infiniscale-IV Mellanox Technologies", 2)
    with tool(net) as fabric:
        fabric.ring = ring_for(net, "Infiniscale-IV Mellanox Technologies")
        found = fabric.sweep(p_keys=True)
    assert not found.troubles
    assert len(found.nodes) == 8
    assert violations(net) == 0


def test_parallel_links_between_protected_switches_are_all_proven() -> None:
    net = subnet("two-switch")
    names = [node.node_id for node in net.nodes]
    for name in names:
        protect(net, name, 2)
    with tool(net) as fabric:
        fabric.ring = ring_for(net, *names)
        found = fabric.sweep(p_keys=True)
    assert not found.troubles
    assert links_found(found) == links_of(net)
    assert violations(net) == 0


@pytest.mark.parametrize("swept", [False, True])
def test_a_key_is_not_sent_to_what_was_plugged_in_its_place(swept: bool) -> None:
    """The port that holds the key is replaced by another node: that node must never see the key."""
    net = subnet("two-switch")
    name = "node04 mlx4_0"
    protect(net, name, 2)
    ring = ring_for(net, name)
    net.unplug(name, 1)
    net.unplug("node05 mlx4_0", 1)
    net.plug("node05 mlx4_0", 1, "S-0002c90200401040", 1)
    if swept:
        sm_sweeps(net)
    with tool(net) as fabric, listening(net):
        fabric.ring = ring
        found = fabric.sweep()
    # Only where the forwarding table says that it is another one it is asked, for node04 itself may be there.
    assert ("node05 mlx4_0" in {node.description for node in found.nodes}) is swept
    assert [trouble.reading for trouble in found.troubles] == ([] if swept else ["not-asked"])


def test_an_unproven_link_is_not_asked_and_the_ways_on_are_named() -> None:
    net = subnet("two-switch")
    protect(net, "node04 mlx4_0", 2)
    ring = ring_for(net, "node04 mlx4_0")
    port = net.port("node04 mlx4_0", 1)
    net.unplug("node04 mlx4_0", 1)
    net.plug("node04 mlx4_0", 1, "S-0002c90200401040", 1)  # replugged: the link is Initialize
    with tool(net) as fabric:
        fabric.ring = ring
        found = fabric.sweep()
        [trouble] = found.troubles
        assert (trouble.port.num, trouble.reading) == (1, "not-asked")
        assert (
            "the link is Initialize: the cable was plugged in again, or no SM has brought the link up"
        ) in trouble.error
        for way in ("trust_topology=True", "keystore list --settle", "ask_unproven=True"):
            assert way in trouble.error
        [unasked] = found.unasked
        assert (unasked.near, unasked.known, unasked.named) == (trouble.port, (port.guid, 1), None)
        assert port.m_key_violations == 0
        fabric.ring.ask_unproven = True
        fabric.sweep()
        assert port.m_key_violations == 1
        fabric.ring.ask_unproven, fabric.ring.trust_topology = False, True
        assert "node04 mlx4_0" in {node.description for node in fabric.sweep().nodes}
        assert port.m_key_violations == 1


def test_a_new_link_of_a_protected_switch_that_was_found_is_not_asked_without_its_key() -> None:
    """Everything protected was found, and yet a new cable may end at one of its switches."""
    net = subnet("two-switch")
    for name in SWITCHES:
        protect(net, name, 2)
    ring = ring_for(net, *SWITCHES)
    net.plug(SWITCHES[0], 5, SWITCHES[1], 5)
    with tool(net) as fabric:
        fabric.ring = ring
        found = fabric.sweep()
        assert violations(net) == 0
        assert sorted(trouble.reading for trouble in found.troubles) == ["not-asked", "not-asked"]
        assert all("another link of a protected switch that was found" in trouble.error for trouble in found.troubles)
        net.set_sm("node01 mlx4_0")
        sm_sweeps(net)
        found = fabric.sweep()
    assert not found.troubles  # the SA says where it leads: nobody has to be asked
    assert links_found(found) == links_of(net)
    assert violations(net) == 0


def test_a_stranger_beside_protected_switches_is_still_found() -> None:
    net = subnet("two-switch")
    for name in SWITCHES:
        protect(net, name, 2)
    ring = ring_for(net, *SWITCHES)
    stranger = net.port("node05 mlx4_0", 1)
    ring.neighbors = {near: far for near, far in ring.neighbors.items() if stranger.guid not in (near[0], far[0])}
    with tool(net) as fabric:
        fabric.ring = ring
        found = fabric.sweep()
    assert not found.troubles  # one open end: a new link between two known switches would have two
    assert links_found(found) == links_of(net)
    assert violations(net) == 0


def test_a_node_type_that_no_node_can_have_is_null_in_documents() -> None:
    net = subnet("two-switch")
    net.nodes[1].node_type = 255
    with tool(net) as fabric:
        ports = fabric.sweep().end_ports()
    assert Counter(port.identity()["node_type"] for port in ports) == {"ca": 5, "switch": 2, None: 1}
