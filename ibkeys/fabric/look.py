"""Looking again at links that a sweep proved, before the next key goes over them.

Time passes between a sweep and what is done with it: a user is asked, a long run goes its way. A cable that was moved
meanwhile shows at the port before it. So each link on the way to a port is looked at once more from its near side, the
nearest first, and what lies behind a link that changed is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibkeys.errors import IbkeysError
from ibkeys.fabric.client import SmpClient, Task
from ibkeys.fabric.keyring import KeyRing
from ibkeys.fabric.linkproof import LinkProver, state_name
from ibkeys.fabric.model import Fabric, Node, Port
from ibkeys.mad.attributes import PortInfo


def look_again(client: SmpClient, ring: KeyRing, found: Fabric, ports: Iterable[Port]) -> dict[Port, str]:
    """Return the ports of *found* to which a link changed since the sweep, with the reason.

    SMPs: a Get(PortInfo) for each link on the way to *ports*, and a Get(PortCounters) where the sweep read
    LinkDownedCounter. Keys go only to nodes whose own links were looked at before. Raises TransportError.
    """
    look = _Look(client, ring, found)
    ways = {port: tuple(look.links_to(port)) for port in ports}
    deepest = max(map(len, ways.values()), default=0)
    for depth in range(deepest):
        due = {way[depth] for way in ways.values() if len(way) > depth and look.changed_on(way[:depth]) is None}
        client.run([look.at(near) for near in due])
    return {port: why for port, way in ways.items() if (why := look.changed_on(way)) is not None}


class _Look:
    """One look at many links. ``changed``: the links that are not as they were, and how."""

    def __init__(self, client: SmpClient, ring: KeyRing, found: Fabric) -> None:
        self._client = client
        self._ring = ring
        self._doubtful = found.doubtful
        self._prover = LinkProver(client, ring)
        self._switches: dict[tuple[int, ...], Node] = {node.path: node for node in found.nodes if node.is_switch}
        self._own = found.nodes[0]
        self.changed: dict[Port, str] = {}
        own_port = next((port for port in self._own.ports.values() if port.path == () or port.num == 0), None)
        if own_port is not None:
            self._prover.start(own_port)

    def links_to(self, port: Port) -> Iterator[Port]:
        """Yield the near port of each link on the route to *port*, the nearest first."""
        path = port.path if port.path is not None and not port.node.is_switch else port.node.path
        for hop, num in enumerate(path):
            node = self._own if hop == 0 else self._switches.get(path[:hop])
            if node is not None:
                yield node.port(num)

    def changed_on(self, way: Iterable[Port]) -> str | None:
        """Return what changed on *way*, None for nothing."""
        return next((f"{near}: {self.changed[near]}" for near in way if near in self.changed), None)

    def at(self, near: Port) -> Task:
        """Task: compare one near port with what the sweep saw of it."""
        before, counter = near.info, near.link_downed
        path, own = near.node.path if near.node.is_switch else (), near.end_port
        key = own.m_key if own in self._doubtful else self._ring.learned.get(own.guid, own.m_key)
        try:
            info: bytes = yield self._client.get_along(path, PortInfo, near.num, near.node, key)
        except IbkeysError as error:
            self.changed[near] = f"it could not be read again: {error}"
            return
        near.info = info
        if before is not None and (info[32] & 0x0F, info[33] >> 4) != (before[32] & 0x0F, before[33] >> 4):
            self.changed[near] = f"its link is {state_name(near)} now, which it was not in the sweep"
            return
        if counter is not None:
            now = yield from self._prover.read_counter(near)
            if now != counter:
                self.changed[near] = (
                    f"its LinkDownedCounter is {now if now is not None else 'unreadable'}, not {counter}"
                )
