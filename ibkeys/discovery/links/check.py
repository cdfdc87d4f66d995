"""Checking links again that a sweep proved, before another key is sent over them.

Time passes between a sweep and the use of its result: a user has to confirm, and a run takes long. A cable that was
moved in the meantime is noticed at the near port of its link. So each link on the route to a port is checked once more
at its near port, beginning with the link nearest to the local port. Nodes behind a link that changed are not queried.
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

CHECK_VALID_SECONDS: Final = 1.0
"""Seconds for which a check of a link is valid: a cable takes longer to be moved and to train."""


class LinkCheck:
    """Checks the links of one sweep again. A link is named by its near port.

    ``changed``: links that differ from the sweep → the difference. ``unread``: links that the last check could not read
    → the reason.

    It sends for each link a Get(PortInfo) of its near port, and a Get(PortCounters) if the sweep read
    LinkDownedCounter. Keys are sent only to nodes whose own links were checked before.
    """

    def __init__(self, client: SmpClient, ring: KeyRing, topology: Topology) -> None:
        self._client = client
        self._ring = ring
        self._topology = topology
        self._gmps = LinkGmps(client)
        self._switches: dict[tuple[int, ...], Node] = {node.path: node for node in topology.nodes if node.is_switch}
        self._routes = {(node.guid, node.path) for node in topology.nodes}
        self._own = topology.nodes[0]
        self._checked_at: dict[Port, float] = {}
        self.changed: dict[Port, str] = {}
        self.unread: dict[Port, str] = {}
        own_port = next((port for port in self._own.ports.values() if port.path == () or port.num == 0), None)
        if own_port is not None:
            self._gmps.start(own_port)

    def at_links_to(self, ports: Iterable[Port], max_age: float = 0.0) -> dict[Port, str]:
        """Check the links on the routes to *ports*, except those checked within the last *max_age* seconds.

        Returns the ports behind a link that changed or could not be checked, each with the reason. A port that the
        sweep did not find is not checked. Raises TransportError.
        """
        routes = {
            port: tuple(self._links_to(port)) for port in ports if (port.node.guid, port.node.path) in self._routes
        }
        for depth in range(max(map(len, routes.values()), default=0)):
            topology = (
                links[depth] for links in routes.values() if len(links) > depth and not self._reason(links[:depth])
            )
            to_check = dict.fromkeys(topology)  # Each link once, in the order of *ports*.
            self._client.run([self._check_link(near) for near in to_check if not max_age or self._age(near) >= max_age])
        return {port: why for port, links in routes.items() if (why := self._reason(links))}

    def find_unproven(self, links: Mapping[Port, LinkEnd]) -> dict[Port, str]:
        """Prove *links*, near port → far end, as a sweep with M_Keys does (`ibkeys.discovery.links.proof`).

        Returns the near ports of the links that are not proven, each with the reason. Call `at_links_to` first. Raises
        TransportError.
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
        """Return whether the checks so far found a changed link on the route to *port*."""
        return any(near in self.changed for near in self._links_to(port))

    def check_route(self, port: Port) -> Task:
        """Task: check each link on the route to *port* that was not checked within the last `CHECK_VALID_SECONDS`.

        Returns the first link that changed or could not be read, in words with the reason; "" if there is none.
        """
        if (port.node.guid, port.node.path) not in self._routes:
            return ""
        for near in self._links_to(port):
            if self._age(near) >= CHECK_VALID_SECONDS:
                yield from self._check_link(near)
            if why := self._reason([near]):
                return why
        return ""

    def _links_to(self, port: Port) -> Iterator[Port]:
        """Yield the near port of each link on the route to *port*, beginning at the local port."""
        path = port.path if port.path is not None and not port.node.is_switch else port.node.path
        for hop, num in enumerate(path):
            node = self._own if hop == 0 else self._switches.get(path[:hop])
            if node is not None:
                yield node.port(num)

    def _age(self, near: Port) -> float:
        return self._client.port.now() - self._checked_at.get(near, -math.inf)

    def _reason(self, links: Iterable[Port]) -> str:
        reasons = {**self.unread, **self.changed}
        return next((f"{near}: {reasons[near]}" for near in links if near in reasons), "") if reasons else ""

    def _check_link(self, near: Port) -> Task:
        """Task: read PortInfo and LinkDownedCounter of the near port *near* again, and record how they differ from the
        sweep."""
        before, counter = near.info, near.link_downed
        path = near.node.path if near.node.is_switch else ()
        key = self._ring.for_found(near, self._topology)
        # A new object as *node* of each request: the scheduler would send nothing to a node that was silent before.
        request = self._client.gets_to(path, object(), key).ask(PortInfo, near.num)
        try:
            info: bytes = yield request
        except IbkeysError as error:
            self.unread[near] = f"it could not be read again: {error}"
            return
        self.unread.pop(near, None)
        self._checked_at[near] = self._client.port.now()
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
