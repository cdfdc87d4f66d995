"""Cables that are pulled and moved, and nodes that fall silent."""

from __future__ import annotations

import pytest

from ibkeys.errors import UsageError
from ibkeys.mad.smp import build_smp
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.subnet import Subnet
from tests.sim.subnet.asking import GET, NODE1, NODE2, NODE_INFO, SWITCH_A, node_info


def test_pulling_a_cable_lets_both_ends_fall_and_putting_it_back_gives_initialize(subnet: Subnet) -> None:
    port = subnet.port(NODE2, 1)
    peer = subnet.unplug(NODE2, 1)
    assert peer is not None
    assert [(end.state, end.physical_state, end.peer) for end in (port, peer)] == [(1, 2, None)] * 2
    assert subnet.process(build_smp(GET, NODE_INFO, path=(1, peer.number)), NODE1, 1) == []
    assert subnet.unplug(NODE2, 1) is None
    subnet.plug(NODE2, 1, peer.node, peer.number)
    assert [(end.state, end.physical_state) for end in (port, peer)] == [(2, 5)] * 2
    assert subnet.process(build_smp(GET, NODE_INFO, path=(1, peer.number)), NODE1, 1)
    assert port.lid == 2  # what the port holds survives the cable
    assert [event.kind for event in subnet.events if event.kind.startswith("link")] == ["link-down"] * 2 + [
        "link-up"
    ] * 2


def test_a_moved_cable_leads_to_another_node(subnet: Subnet) -> None:
    free = next(port.number for port in subnet.node(SWITCH_A).ports[1:] if port.peer is None)
    subnet.unplug(NODE2, 1)
    subnet.plug(NODE2, 1, SWITCH_A, free)
    assert (
        node_info(subnet.process(build_smp(GET, NODE_INFO, path=(1, free)), NODE1, 1)).node_guid
        == subnet.node(NODE2).guid
    )
    for node, number in ((NODE2, 1), (SWITCH_A, 1)):
        with pytest.raises(UsageError, match="has a cable"):
            subnet.plug(node, number, SWITCH_A, 8)
    with pytest.raises(UsageError, match="inside the switch"):
        subnet.unplug(SWITCH_A, 0)


def test_silent_nodes(subnet: Subnet) -> None:
    behind = (1, 7, 1)
    subnet.silence(SWITCH_A)
    assert subnet.send(build_smp(GET, NODE_INFO, path=(1,)), subnet.port(NODE1, 1)) is Drop.SILENT
    assert subnet.process(build_smp(GET, NODE_INFO, path=behind), NODE1, 1)
    subnet.silence(SWITCH_A, forwards=False)
    assert subnet.process(build_smp(GET, NODE_INFO, path=behind), NODE1, 1) == []
    subnet.silence(SWITCH_A, on=False)
    assert subnet.process(build_smp(GET, NODE_INFO, path=(1,)), NODE1, 1)
