"""Routes to nodes that do not answer, and the nodes that are reached only through them, both from known links.

The links come from OpenSM's ``neighbors`` file, the key store, or a snapshot; this module does not read the fabric. The
links may be out of date, so a route may lead to another node by now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from ibkeys.mad.const import MAX_HOPS
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd

LinkMap = Mapping[LinkEnd, LinkEnd]
"""One end of a link → the other end, with an entry for each end. A switch port is named by the node GUID of the switch,
any other port by its own port GUID, as in the ``neighbors`` file."""


def links_of(fabric: Topology) -> dict[LinkEnd, LinkEnd]:
    """Return the links that a sweep or a snapshot has, from both ends."""
    return {
        port.link_end: port.peer.link_end
        for node in fabric.nodes
        for port in node.ports.values()
        if port.peer is not None
    }


def find_routes(links: LinkMap, start: LinkEnd) -> dict[int, tuple[int, ...]]:
    """Return the shortest directed route to every switch and end port that *links* lead to, by GUID, *start* included.

    *start*: the local port; its number is 0 on a switch. Nodes that are more than 63 hops away are left out.
    """
    ports: dict[int, list[int]] = {}
    for guid, num in sorted(links):
        ports.setdefault(guid, []).append(num)
    found: dict[int, tuple[int, ...]] = {start[0]: ()}
    waiting = deque(found)
    while waiting:
        guid = waiting.popleft()
        path = found[guid]
        if len(path) == MAX_HOPS:
            continue
        for num in ports.get(guid, ()):
            if not path and start[1] and num != start[1]:
                continue  # another port of the local node: SMPs do not leave by it
            far = links[guid, num][0]
            if far not in found:
                found[far] = (*path, num)
                waiting.append(far)
    return found


def hidden_behind(links: LinkMap, start: LinkEnd, closed: Collection[int]) -> set[int]:
    """Return the GUIDs of the switches and end ports that *links* lead to from *start* only through the nodes *closed*
    (GUIDs)."""
    reachable = find_routes(links, start).keys()
    open_links = {near: far for near, far in links.items() if near[0] not in closed and far[0] not in closed}
    return set(reachable) - find_routes(open_links, start).keys() - set(closed)
