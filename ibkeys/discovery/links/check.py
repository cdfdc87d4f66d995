"""Checking links again that a sweep proved, before another key is sent over them.

Time passes between a sweep and the use of its result: a user has to confirm, a run takes long. A cable that was moved
in the meantime shows at the port before it. So each link on the route to a port is checked once more from its near
side, beginning with the link nearest to the local port. Nodes behind a link that changed are not queried.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ibkeys.client.smp import SmpClient, Task
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.links.gmps import LinkGmps
from ibkeys.discovery.links.proof import LinkProof, LinkProver
from ibkeys.errors import IbkeysError
from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd, Node, Port

LOOK_HOLDS: Final = 1.0
"""Seconds for which a check of a link is valid: a cable takes longer to be moved and to train."""


class LinkCheck:
    """The links of one sweep, checked again.

    ``changed``: the links that differ from the sweep, and how. ``unread``: links that the last check could not read.

    SMPs for a link: a Get(PortInfo) of its near port, and a Get(PortCounters) where the sweep read LinkDownedCounter.
    Keys are sent only to nodes whose own links were checked before.
    """

    def __init__(self, client: SmpClient, ring: KeyRing, found: Topology) -> None:
        self._client = client
        self._ring = ring
        self._found = found
        self._gmps = LinkGmps(client)
        self._switches: dict[tuple[int, ...], Node] = {node.path: node for node in found.nodes if node.is_switch}
        self._routes = {(node.guid, node.path) for node in found.nodes}
        self._own = found.nodes[0]
        self._looked: dict[Port, float] = {}
        self.changed: dict[Port, str] = {}
        self.unread: dict[Port, str] = {}
        own_port = next((port for port in self._own.ports.values() if port.path == () or port.num == 0), None)
        if own_port is not None:
            self._gmps.start(own_port)

    def at_links_to(self, ports: Iterable[Port], max_age: float = 0.0) -> dict[Port, str]:
        """Check the links to *ports*, except those checked within *max_age* seconds; return the ports behind a changed
        link.

        Ports behind a link that could not be checked are returned too; each has the reason. A port that the sweep did
        not find is not checked. Raises TransportError.
        """
        ways = {port: tuple(self._links_to(port)) for port in ports if (port.node.guid, port.node.path) in self._routes}
        for depth in range(max(map(len, ways.values()), default=0)):
            found = (way[depth] for way in ways.values() if len(way) > depth and not self._reason(way[:depth]))
            due = dict.fromkeys(found)  # each link once, in the order of *ports*
            self._client.run([self._at(near) for near in due if not max_age or self._age(near) >= max_age])
        return {port: why for port, way in ways.items() if (why := self._reason(way))}

    def find_unproven(self, links: Mapping[Port, LinkEnd]) -> dict[Port, str]:
        """Prove links, near port → far end, as a sweep with M_Keys does (`ibkeys.discovery.links.proof`); return the
        near ports of those that are not proven, with the reason.

        Check the links first. Raises TransportError.
        """
        prover = LinkProver(self._client, self._ring, self._gmps)
        unproven: dict[Port, str] = {}

        def task(near: Port, far: LinkEnd) -> Task:
            proof: LinkProof = yield from prover.prove(near, far)
            if not proof.is_known:
                unproven[near] = proof.reason

        self._client.run([task(near, far) for near, far in links.items()])
        return unproven

    def has_changed(self, port: Port) -> bool:
        """Return whether a link to *port* has changed, as far as the links were checked."""
        return any(near in self.changed for near in self._links_to(port))

    def at_way(self, port: Port) -> Task:
        """Task: check each link to *port* that was not checked within the last second; return the change, "" for
        none."""
        if (port.node.guid, port.node.path) not in self._routes:
            return ""
        for near in self._links_to(port):
            if self._age(near) >= LOOK_HOLDS:
                yield from self._at(near)
            if why := self._reason([near]):
                return why
        return ""

    def _links_to(self, port: Port) -> Iterator[Port]:
        """Yield the near port of each link on the route to *port*, the nearest first."""
        path = port.path if port.path is not None and not port.node.is_switch else port.node.path
        for hop, num in enumerate(path):
            node = self._own if hop == 0 else self._switches.get(path[:hop])
            if node is not None:
                yield node.port(num)

    def _age(self, near: Port) -> float:
        return self._client.port.now() - self._looked.get(near, -math.inf)

    def _reason(self, way: Iterable[Port]) -> str:
        wrong = {**self.unread, **self.changed}
        return next((f"{near}: {wrong[near]}" for near in way if near in wrong), "") if wrong else ""

    def _at(self, near: Port) -> Task:
        """Task: compare the PortInfo of one near port with that of the sweep."""
        before, counter = near.info, near.link_downed
        path = near.node.path if near.node.is_switch else ()
        key = self._ring.for_found(near, self._found)
        # A new object stands for the node in each request, so that a node that was silent once is asked again.
        request = self._client.get_along(path, PortInfo, near.num, object(), key)
        try:
            info: bytes = yield request
        except IbkeysError as error:
            self.unread[near] = f"it could not be read again: {error}"
            return
        self.unread.pop(near, None)
        self._looked[near] = self._client.port.now()
        near.info = info
        if before is not None and _states(info) != _states(before):
            self.changed[near] = f"its link is {near.state_name} now, unlike in the sweep"
            return
        if counter is not None:
            now = yield from self._gmps.read_counter(near, insists=True)
            near.link_downed = counter
            if now is None:
                self.unread[near] = "its LinkDownedCounter could not be read again"
            elif now != counter:
                self.changed[near] = f"its LinkDownedCounter changed from {counter} to {now}"


def _states(info: bytes) -> tuple[int, int]:
    port_info = PortInfo(info)
    return port_info.port_state, port_info.port_physical_state
