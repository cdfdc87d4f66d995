"""Storing the links and LIDs that a sweep found: later runs send a key only over a known link."""

from __future__ import annotations

from collections import Counter

from ibkeys.discovery.port_counters import CountersOrError
from ibkeys.errors import IbkeysError
from ibkeys.fabric.live import LiveFabric
from ibkeys.mad.performance import PortCounters
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd, Port


def remember_topology(fabric: LiveFabric, store: KeyStore, found: Topology) -> None:
    """Store the links and LIDs of *found*, each with the time, and LinkDownedCounter of both ends of a link.

    Ports whose node GUID or port GUID is not unique, or is doubted, are left out: their links and LIDs could belong to
    another port. Links that were known before stay known unless one of their ends was found elsewhere.
    """
    ports = [port for port in found.ports() if port.end_port not in found.doubtful]
    nodes = Counter(port.node.guid for port in {port.node: port for port in ports}.values())
    end_ports = Counter(port.guid for port in ports if port.is_end_port)
    own = [port for port in ports if nodes[port.node.guid] == 1 and end_ports[port.port_guid] == 1]
    kept = set(own)
    joined = [(port, port.peer) for port in own if port.peer is not None and port.peer in kept]
    ends = [(near.link_end, far.link_end) for near, far in joined]
    store.put_links([(*near, *far) for near, far in ends if near <= far], link_downed=_counters(fabric, joined))
    store.put_lids(
        {
            port.guid: (port.lid, port.lid + (1 << info.lmc) - 1)
            for port in own
            if port.is_end_port and port.guid and port.lid and (info := port.port_info) is not None
        }
    )
    store.unsettle(port.guid for port in own if port.is_end_port)


def _counters(fabric: LiveFabric, joined: list[tuple[Port, Port]]) -> dict[LinkEnd, int]:
    """Return LinkDownedCounter of both ends of the links whose near counter the sweep read before it read the far end.
    The far ends are read now, and then the near ones again: if a near counter has changed, the link is not the one that
    was proven, and neither counter is stored.
    """
    read = [(port, peer) for port, peer in joined if port.link_downed is not None]
    if not read:
        return {}
    try:
        far = {port: _value(reading) for port, reading in fabric.read_port_counters([peer for _, peer in read])}
        again = {port: _value(reading) for port, reading in fabric.read_port_counters([port for port, _ in read])}
    except IbkeysError:
        return {}  # no GMPs from this port any more: without a counter a later run asks the SA
    counters = {}
    for port, peer in read:
        if port.link_downed is None or again.get(port) != port.link_downed:
            continue
        counters[port.link_end] = port.link_downed
        value = far.get(peer)
        if value is not None:
            counters[peer.link_end] = value
    return counters


def _value(reading: CountersOrError) -> int | None:
    return reading.link_downed_counter if isinstance(reading, PortCounters) else None
