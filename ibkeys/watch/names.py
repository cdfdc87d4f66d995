"""Finding the ports of a trap's LIDs and GUIDs in the last sweep."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.watch.event import EventEnd

_INTERFACE_ID = (1 << 64) - 1


class Names:
    """The ports of the last sweep by LID and by GUID.

    ``misses``: how many look-ups since the sweep did not find a port, or found a contradiction. A miss is a reason for
    a new sweep.
    """

    def __init__(self) -> None:
        self.misses = 0
        self._by_lid: dict[int, Port] = {}
        self._by_guid: dict[int, Port] = {}
        self._end_of: Callable[[Port], EventEnd] = EventEnd.of

    def learn(self, found: Topology) -> None:
        """Replace the ports by those of a sweep. A port whose GUID is not trusted comes last. A LID that two ports have
        names neither of them."""
        self.misses = 0
        self._by_lid, self._by_guid = {}, {}
        shared = set()
        self._end_of = cache(EventEnd.of)  # made once for each port: many traps are about the same few ports
        for port in sorted(found.end_ports(), key=lambda each: each not in found.doubtful):
            if port.guid:
                self._by_guid.setdefault(port.guid, port)
            info = port.port_info
            if info is not None and info.lid:
                for lid in range(info.lid, info.lid + (1 << info.lmc)):
                    other = self._by_lid.setdefault(lid, port)
                    if other is not port and (other in found.doubtful) == (port in found.doubtful):
                        shared.add(lid)
        for lid in shared:
            del self._by_lid[lid]

    def by_lid(self, lid: int) -> Port | None:
        """Return the end port that has *lid*, None if the sweep found none, or several."""
        port = self._by_lid.get(lid)
        if port is None and lid:
            self.misses += 1
        return port

    def by_gid(self, gid: int) -> Port | None:
        """Return the end port whose port GUID is the lower half of *gid*, None if the sweep found none."""
        return self._by_guid.get(gid & _INTERFACE_ID)

    def end(self, lid: int, gid: int = 0) -> EventEnd:
        """Return the end with *lid*, or the end with *gid* if no port has that LID. If no port is known, the end has
        the LID and GUID alone.

        If the GID belongs to another port than the LID, that counts as a miss: LIDs may have changed since the sweep.
        """
        port, named = self.by_lid(lid), self.by_gid(gid)
        if port is not None and named is not None and named is not port:
            self.misses += 1
        found = port or named
        if found is not None:
            return self._end_of(found)
        return EventEnd(port_guid=gid & _INTERFACE_ID or None, lid=lid or None)

    def switch_port(self, lid: int, num: int) -> EventEnd:
        """Return the port *num* of the switch with *lid*.

        If the last sweep found no such port, the end has the LID and number alone. If it found another port with that
        LID, that counts as a miss.
        """
        port = self.by_lid(lid)
        if port is None:
            return EventEnd(lid=lid or None, port=num)
        if not port.node.is_switch or num not in port.node.ports:
            self.misses += 1
            return EventEnd(lid=lid, port=num)
        return self._end_of(port.node.ports[num])
