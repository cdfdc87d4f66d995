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
    """Store the links and LIDs of *found* in the key store, each with the time. For each link at one of whose ends the
    sweep read LinkDownedCounter, read the counters of both ends by GMPs, and store them unless the link went down in
    the meantime. Commands wait for the stored ports again (`TopologyStore.unsettle`). Raises StoreError.

    Ports that are doubtful, or whose node GUID or port GUID is not unique, are left out: their links and LIDs could
    belong to another port. Links that were known before stay known unless one of their ends was found elsewhere.
    """
    ports = [port for port in found.ports() if port.end_port not in found.doubtful]
    nodes = Counter(port.node.guid for port in {port.node: port for port in ports}.values())
    end_ports = Counter(port.guid for port in ports if port.is_end_port)
    unique = [port for port in ports if nodes[port.node.guid] == 1 and end_ports[port.port_guid] == 1]
    stored = set(unique)
    links = [(port, port.peer) for port in unique if port.peer is not None and port.peer in stored]
    ends = [(near.link_end, far.link_end) for near, far in links]
    store.put_links([(*near, *far) for near, far in ends if near <= far], link_downed=_counters(fabric, links))
    store.put_lids(
        {
            port.guid: (port.lid, port.lid + (1 << info.lmc) - 1)
            for port in unique
            if port.is_end_port and port.guid and port.lid and (info := port.port_info) is not None
        }
    )
    store.unsettle(port.guid for port in unique if port.is_end_port)


def _counters(fabric: LiveFabric, links: list[tuple[Port, Port]]) -> dict[LinkEnd, int]:
    """Return LinkDownedCounter of both ends of those *links* whose near counter the sweep read before the far end.

    This function reads the counters of the far ends, and then those of the near ends again. If a near counter has
    changed, the cable may lead elsewhere by now, so neither counter of this link is returned.
    """
    read = [(port, peer) for port, peer in links if port.link_downed is not None]
    if not read:
        return {}
    try:
        far = {port: _value(reading) for port, reading in fabric.read_port_counters([peer for _, peer in read])}
        again = {port: _value(reading) for port, reading in fabric.read_port_counters([port for port, _ in read])}
    except IbkeysError:
        return {}  # this port can send no GMPs; without a counter a later command asks the SA for the link
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
