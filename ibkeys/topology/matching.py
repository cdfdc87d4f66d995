"""Matching nodes and ports between two sweeps. A node that was removed is told from a node that one sweep could not
read.
"""

from __future__ import annotations

from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port

MatchKey = tuple[int, int, int]
"""Node GUID, number among the nodes with that GUID, port number: the key by which a port is found in another
snapshot."""


def nodes_of(fabric: Topology) -> dict[tuple[int, int], Node]:
    """Return the nodes by GUID and twin number."""
    return {(node.guid, node.twin): node for node in fabric.nodes}


def ports_of(fabric: Topology) -> dict[MatchKey, Port]:
    """Return the ports that were read, by `MatchKey`."""
    return {match_key(port): port for port in fabric.ports()}


def match_key(port: Port) -> MatchKey:
    """Return the key by which *port* is found in another snapshot."""
    return (port.node.guid, port.node.twin, port.num)


def unseen_in(other: Topology, fabric: Topology) -> set[Node]:
    """Return the nodes of *fabric* that are not in *other* but may exist there.

    In *fabric*, each of these nodes is linked to a port whose neighbour *other* could not read, directly or through
    other missing nodes.
    """
    theirs, own = nodes_of(other), nodes_of(fabric)
    blind = ((own.get(key[:2]), key[2]) for key in blind_ports(other))
    waiting = [node.ports[num] for node, num in blind if node is not None and num in node.ports]
    found: set[Node] = set()
    while waiting:
        peer = waiting.pop().peer
        if peer is not None and peer.node not in found and (peer.node.guid, peer.node.twin) not in theirs:
            found.add(peer.node)
            waiting.extend(peer.node.ports.values())
    return found


def unseen_end_ports(other: Topology, fabric: Topology) -> list[Port]:
    """Return the end ports of *fabric* that *other* does not have, and might have if all of its nodes had answered."""
    theirs, nodes, blind = {match_key(port) for port in other.end_ports()}, unseen_in(other, fabric), blind_ports(other)
    return [
        port
        for port in fabric.end_ports()
        if match_key(port) not in theirs
        and (port.node in nodes or (port.peer is not None and match_key(port.peer) in blind))
    ]


def blind_ports(fabric: Topology) -> set[MatchKey]:
    """Return the ports whose neighbour is not known: their PortInfo was not read, or the far end did not answer.

    Imported files may have links without PortInfo; those ports are not returned.
    """
    return {
        match_key(each.port)
        for each in fabric.troubles
        if each.is_behind or (each.attribute == PortInfo.name and each.reading != "not-in-file")
    }
