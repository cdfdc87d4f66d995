"""The model of a fabric: what one sweep found, and what it could not read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Self

from ibkeys.errors import IbkeysError, LimitReached, NoReply
from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.nodes import LinkEnd, Node, Port, Reading


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that should have been read and was not: at which port, and why.

    ``attribute``: what was asked, or the field whose value no port can have (`ibkeys.topology.plausible`). ``reading``:
    ``refused``, ``silent`` or ``not-asked``. ``limit``: the name of that which was reached. NodeInfo is asked of the
    far end of a link, so its trouble is that of the port before it: whoever is behind that port did not answer.
    """

    port: Port
    error: str
    attribute: str = ""
    reading: Reading = "refused"
    limit: str = field(default="", compare=False)

    @classmethod
    def of(cls, port: Port, attribute: str, error: IbkeysError, text: str | None = None) -> Self:
        """Return the trouble that *error* is, in the words of *text* where that says more."""
        reading: Reading = "refused"
        if isinstance(error, NoReply):
            reading = "silent" if error.attempts else "not-asked"
        limit = error.limit if isinstance(error, LimitReached) else ""
        return cls(port, text or str(error), attribute, reading, limit)

    @property
    def is_behind(self) -> bool:
        """Whether it is the far end of the port's link that could not be read."""
        return self.attribute == "NodeInfo"


@dataclass(frozen=True, slots=True)
class Unasked:
    """A place behind which a sweep asked nobody, because a protected port may be there.

    ``near``: the port before it. ``known``: (GUID, port) that the known links place there, ``named``: that the SA or a
    forwarding table names there (port 0 where it does not say which); None for nothing.
    """

    near: Port
    known: LinkEnd | None
    named: LinkEnd | None


@dataclass(slots=True)
class Topology:
    """All that one sweep found.

    ``nodes``: the local node first, the others as `put_in_order` has them. ``troubles``: what could not be read.
    ``notes``: what a reader should know (duplicate GUIDs, violations that this sweep counted). ``unasked``: places
    behind which nobody was asked. ``doubtful``: ports whose GUID is not believed, for another place is known for it;
    why, in words. They get no key by that GUID. ``missing``: GUIDs of ports that are known as protected and were not
    found where they are known.
    """

    nodes: list[Node] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unasked: list[Unasked] = field(default_factory=list)
    doubtful: dict[Port, str] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()

    def put_in_order(self) -> None:
        """Order nodes and troubles by the links alone: breadth first from the local node, lower port numbers first.
        Nodes with one GUID are counted in that order too.

        Answers come in any order, and two sweeps of one fabric should read the same.
        """
        place: dict[Node, int] = {}
        waiting = deque(self.nodes[:1])
        while waiting:
            node = waiting.popleft()
            if node in place:
                continue
            place[node] = len(place)
            if node.is_switch or not node.path:
                for num in sorted(node.ports):
                    peer = node.ports[num].peer
                    if peer is not None and peer.node not in place:
                        waiting.append(peer.node)
        self.nodes.sort(key=lambda node: place.get(node, len(place)))
        twins: dict[int, int] = {}
        for node in self.nodes:
            node.twin = twins.get(node.guid, 0)
            twins[node.guid] = node.twin + 1
        self.troubles.sort(key=lambda trouble: (place.get(trouble.port.node, len(place)), trouble.port.num))

    def ports(self) -> Iterator[Port]:
        """Yield every port that is read by ``--all``: port 0 and all external ports of a switch, each CA or router port
        that a link reaches; by node in the order of ``nodes``, then by number."""
        for node in self.nodes:
            for num in sorted(node.ports):
                port = node.ports[num]
                if node.is_switch or port.path is not None:
                    yield port

    def end_ports(self) -> Iterator[Port]:
        """Yield the ports that own an M_Key and a LID."""
        return (port for port in self.ports() if port.is_end_port)

    @property
    def unreached(self) -> int:
        """CA and router ports that no link of this subnet reaches; they may have one on another."""
        return sum(
            num not in node.ports or node.ports[num].path is None
            for node in self.nodes
            if not node.is_switch
            for num in range(1, node.num_ports + 1)
        )

    def find_lid(self, lid: int) -> Port | None:
        """Return the end port that has *lid* among its LIDs (base LID and LMC), or None."""
        believed = [port for port in self.end_ports() if port not in self.doubtful] if self.doubtful else []
        for port in chain(believed, self.end_ports()):
            info = port.info
            if info is None:
                if lid and port.stated_lid == lid:
                    return port
                continue
            base = PortInfo.lid.decode(info)
            if base and base <= lid < base + (1 << PortInfo.lmc.decode(info)):
                return port
        return None

    def find_guid(self, guid: int) -> list[Port]:
        """Return the end ports with *guid*: those whose port GUID it is, else all reached ports of nodes so named.

        A port whose GUID is not believed only where no other one has it.
        """
        for found in (
            [port for port in self.end_ports() if port.guid == guid],
            [port for port in self.end_ports() if port.node.guid == guid],
        ):
            if found:
                return [port for port in found if port not in self.doubtful] or found
        return []

    def find_name(self, name: str) -> list[Node]:
        """Return the nodes with that NodeDescription."""
        return [node for node in self.nodes if node.description == name]
