"""What a sweep saw of links and LIDs, kept in the key store: later runs send a key only over a link that they know."""

from __future__ import annotations

from ibkeys.fabric.linkproof import link_end
from ibkeys.fabric.model import Fabric
from ibkeys.store.keystore import KeyStore


def remember_topology(store: KeyStore, found: Fabric) -> None:
    """Store the links and LIDs of *found*, each with the time.

    A node whose GUID another node has too is left out: its links and LIDs would name the wrong one. Links that were
    known before stay known unless one of their ends was found elsewhere.
    """
    guids = [node.guid for node in found.nodes]
    twins = {guid for guid in guids if guids.count(guid) > 1} if len(set(guids)) < len(guids) else set()
    ports = [port for port in found.ports() if port.node.guid not in twins]
    store.put_links(
        (*link_end(port), *link_end(port.peer))
        for port in ports
        if port.peer is not None and port.peer.node.guid not in twins and link_end(port) <= link_end(port.peer)
    )
    store.put_lids(
        {
            port.guid: (port.lid, port.lid + (1 << info.lmc) - 1)
            for port in ports
            if port.is_end_port and port.guid and port.lid and (info := port.port_info) is not None
        }
    )
