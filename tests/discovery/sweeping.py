"""What a sweep found, beside what is there."""

from __future__ import annotations

from ibkeys.discovery.keyring import KeyRing
from ibkeys.keys.mkey import MKey
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from tests.protectedsim import ring_of


def links_of(net: Subnet) -> set[frozenset[tuple[int, int]]]:
    return {
        frozenset({(node.guid, port.number), (port.peer.node.guid, port.peer.number)})
        for node in net.nodes
        for port in node.all_ports
        if port.peer is not None
    }


def links_found(fabric: Topology) -> set[frozenset[tuple[int, int]]]:
    return {
        frozenset({(node.guid, port.num), (port.peer.node.guid, port.peer.num)})
        for node in fabric.nodes
        for port in node.ports.values()
        if port.peer is not None
    }


KEY = 0x1122334455667788


def protect(net: Subnet, name: str, level: int, number: int | None = None) -> None:
    node = net.node(name)
    port = net.port(node, 0 if node.is_switch else 1 if number is None else number)
    port.m_key, port.protect_bits, port.lease_period = KEY, level, 0


def ring_for(net: Subnet, *names: str) -> KeyRing:
    """A ring as OpenSM's files give it, with `KEY` for the ports of the nodes *names*."""
    ring = ring_of(net)
    for node in net.nodes:
        for port in node.end_ports:
            if node.node_id in names or node.description in names:
                ring.by_guid[port.guid] = MKey(KEY)
    return ring
