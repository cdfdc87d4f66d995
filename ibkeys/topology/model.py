"""The model of a fabric: the nodes and ports that one sweep found, and the attributes that it could not read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from ibkeys.client.address import AddressLike, as_address
from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.find import find_port
from ibkeys.topology.nodes import Node, Port
from ibkeys.topology.troubles import Trouble as Trouble
from ibkeys.topology.troubles import UnqueriedPlace as UnqueriedPlace


@dataclass(slots=True)
class Topology:
    """The result of one sweep.

    ``nodes``: the local node first, the others as `put_in_order` has them. ``troubles``: attributes that could not be
    read. ``notes``: facts that a reader should know (duplicate GUIDs, violations that this sweep counted). ``unasked``:
    places where no node was queried. ``doubtful``: ports whose GUID is not trusted because it is known at another
    place, with the reason in words. No key is chosen for such a port by its GUID. ``missing``: GUIDs of ports that are
    known as protected and were not found at their known place.
    """

    nodes: list[Node] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unasked: list[UnqueriedPlace] = field(default_factory=list)
    doubtful: dict[Port, str] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()

    def put_in_order(self) -> None:
        """Order nodes and troubles by the links alone: breadth first from the local node, lower port numbers first.
        Nodes that share a GUID are numbered in the same order.

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
        """Yield every port that ``--all`` reads: port 0 and all external ports of a switch, each CA or router port that
        a link of this subnet reaches.

        The order is that of ``nodes``, and within a node by port number.
        """
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
        """The number of CA and router ports that no link of this subnet reaches. These ports may have a link to another
        subnet.
        """
        return sum(
            num not in node.ports or node.ports[num].path is None
            for node in self.nodes
            if not node.is_switch
            for num in range(1, node.num_ports + 1)
        )

    def port_of(self, address: AddressLike, portnum: int | None = None) -> Port:
        """Return the port that a name, GUID, LID or directed route means, in the forms of the command line: see
        `as_address`.

        A name is a NodeDescription, the node's name in the node name map, or a host's name where the host has one node.
        *portnum*: port of the node; by default 0 of a switch, else the port with that address.

        Raises AddressError (several nodes match) and Unreachable (no node does); their ``candidates`` are arguments for
        this method, one for each node that may be meant. UsageError for a port number that the node does not have,
        ImpossibleValue if the node's own port numbers make no sense.
        """
        return find_port(self, as_address(address), portnum)

    def find_lid(self, lid: int) -> Port | None:
        """Return the end port that has *lid* among its LIDs (base LID and LMC), or None.

        A port whose GUID is not trusted is returned only if no other port has the LID.
        """
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
        """Return the end ports with the port GUID *guid*, else all reached ports of nodes with this node GUID.

        A port whose GUID is not trusted is returned only if no other port has it.
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
