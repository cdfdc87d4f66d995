"""Routes to nodes that do not answer, from known links, and the nodes that are reached only through them. The links
come from OpenSM's ``neighbors`` file, the key store, or a snapshot; nothing here reads the fabric. The links may be out
of date, so a route may lead elsewhere by now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from ibkeys.mad.const import MAX_HOPS
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd

LinkMap = Mapping[LinkEnd, LinkEnd]
"""One end of a link → the other, each link from both its ends. Switch ports go by the switch GUID, others by their own
port GUID, as in the ``neighbors`` file."""


def links_of(fabric: Topology) -> dict[LinkEnd, LinkEnd]:
    """Return the links that a sweep or a snapshot has, from both ends."""
    return {
        port.link_end: port.peer.link_end
        for node in fabric.nodes
        for port in node.ports.values()
        if port.peer is not None
    }


def routes(links: LinkMap, start: LinkEnd) -> dict[int, tuple[int, ...]]:
    """Return the shortest directed route to every switch and end port that *links* lead to, by GUID, *start* included.

    *start* is the local port; port 0 is that of a switch. Nodes more than 63 hops away are left out.
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
                continue  # a local port that is not this one: its routes begin elsewhere
            far = links[guid, num][0]
            if far not in found:
                found[far] = (*path, num)
                waiting.append(far)
    return found


def hidden_behind(links: LinkMap, start: LinkEnd, closed: Collection[int]) -> set[int]:
    """Return the GUIDs that *links* lead to from *start* only through the nodes *closed*."""
    all_ways = routes(links, start).keys()
    others = {near: far for near, far in links.items() if near[0] not in closed and far[0] not in closed}
    return set(all_ways) - routes(others, start).keys() - set(closed)
