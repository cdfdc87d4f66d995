"""Determining which node sent an answer.

Nodes are distinguished even if their GUIDs are equal, and a GUID that is known at another place is not trusted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.links.proof import LinkProof
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import NodeType
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd, Node, Port

_NODE_TYPE: Final = NodeInfo.node_type.byte
_NODE_GUID: Final = NodeInfo.node_guid.span
# The fields that are equal in each NodeInfo of one node, by whichever port it was read.
_OF_A_SWITCH: Final = slice(0, NodeInfo.local_port_num.byte), slice(NodeInfo.vendor_id.byte, NodeInfo.size)
_OF_A_CA: Final = (
    slice(0, NodeInfo.port_guid.byte),
    slice(NodeInfo.partition_cap.byte, NodeInfo.local_port_num.byte),
    NodeInfo.vendor_id.span,
)


class FoundNodes:
    """The nodes that one sweep found, by their GUIDs.

    ``topology``: the topology that they are added to. ``proven``: GUIDs of the ports that answered at their known
    place.
    """

    def __init__(self, topology: Topology, ring: KeyRing) -> None:
        self.topology = topology
        self.proven: set[int] = set()
        self._ring = ring
        self._by_guid: dict[int, list[Node]] = {}

    def with_guid(self, guid: int) -> Sequence[Node]:
        """Return the nodes with this NodeGUID: several if it is used more than once."""
        return self._by_guid.get(guid, ())

    def was_reached(self, info: bytes) -> bool:
        """Return whether the port that sent the NodeInfo *info* was reached before, on any route."""
        arrival = NodeInfo(info)
        return any(
            _same_node(node.info, info) and (node.is_switch or node.port(arrival.local_port_num).path is not None)
            for node in self.with_guid(arrival.node_guid)
        )

    def find_node(self, info: bytes, num: int, near: Port | None) -> Node | None:
        """Return the node that sent the NodeInfo *info*, if it was found before, else None.

        *num*: the number of the port that answered; *near*: its neighbour, None if not known. It is another node with
        the same GUID if its NodeInfo differs, or if port *num* of the node that was found is linked elsewhere or has no
        link.
        """
        for node in self.with_guid(int.from_bytes(info[_NODE_GUID])):
            if not _same_node(node.info, info):
                continue
            port = node.ports.get(num)
            if port is None or port is near:
                return node
            taken = port.peer is not None and port.peer is not near
            if not taken and (near is None or port.info is None or port.is_linked):
                return node
        return None

    def add(self, info: bytes, path: tuple[int, ...]) -> Node:
        """Add the node with NodeInfo *info* to the topology, and a note if another node has its GUID. Return the
        node."""
        guid = int.from_bytes(info[_NODE_GUID])
        twins = self._by_guid.setdefault(guid, [])
        node = Node(info, path, len(twins))
        if twins:
            self.topology.notes.append(
                f"node GUID 0x{guid:016x} is used by {len(twins) + 1} different nodes: route "
                f"{','.join(map(str, (0, *twins[0].path)))} and route {','.join(map(str, (0, *path)))}"
            )
        twins.append(node)
        # The local node is always the first, even if it answers last.
        self.topology.nodes.insert(len(self.topology.nodes) if path else 0, node)
        return node

    def doubt_of(self, arrival: NodeInfo, near: Port, far: LinkEnd | None, proof: LinkProof | None) -> str:
        """Return why the GUIDs of *arrival*, the port that answered behind *near*, are not trusted; "" if they are.

        *far*: the port that is proven to be there; *proof*: the evidence that names it. If a port that was found before
        has the same GUID and neither is proven, that port becomes doubtful in the topology too.
        """
        ring = self._ring
        guid = arrival.node_guid if arrival.node_type == NodeType.SWITCH else arrival.port_guid
        claimed = {arrival.port_guid, guid}
        expected = far or ring.expected_behind(near.link_end)
        if expected is not None and claimed == {expected[0]}:
            return ""
        if all(ring.by_guid.get(each, NO_MKEY).is_zero for each in claimed):
            return ""
        rivals = [port for port in self._end_ports_with(claimed) if port not in self.topology.doubtful]
        if far is None and not rivals and not any(ring.is_placed(each) for each in claimed):
            return ""  # No place is known for the GUID, and no other node claims it.
        if arrival.node_type == NodeType.SWITCH and rivals and not self.proven & claimed:
            return ""  # Another link of a switch that was queried without a key before.
        for rival in rivals:
            if rival.guid not in self.proven:  # Then neither of the two ports is proven.
                self.topology.doubtful[rival] = f"GUID 0x{rival.guid:016x} is at {near} too, and neither is proven"
        if proof is not None and proof.far_end is not None and proof.far_end[0] == guid and self.switch_named(proof):
            return ""  # The SM has the switch behind this port too, so this is another of its links.
        there = f"; GUID 0x{far[0]:016x} is known there, and its M_Key was answered" if far else ""
        return (
            f"it reports port GUID 0x{arrival.port_guid:016x} of node GUID 0x{arrival.node_guid:016x}, "
            f"{self._where_known(guid, rivals)}{there}: a port that moved, or a false GUID; it gets no M_Key of that "
            "GUID (`ibkeys keystore list --settle` records ports that moved)"
        )

    def switch_named(self, proof: LinkProof) -> Node | None:
        """Return the proven switch that *proof* names; None if none was found with the GUID and the LID that the SA has
        for it.

        Another node could claim the GUID, but it would have another LID.
        """
        if proof.far_end is None or not proof.lid or proof.far_end[0] not in self.proven:
            return None
        for node in self.with_guid(proof.far_end[0]):
            own = node.port(0)
            if node.is_switch and own.lid == proof.lid and own not in self.topology.doubtful:
                return node
        return None

    def _end_ports_with(self, guids: Collection[int]) -> Iterator[Port]:
        for node in self.topology.nodes:
            for port in node.ports.values():
                if port.is_end_port and (port.guid in guids or (node.is_switch and node.guid in guids)):
                    yield port

    def _where_known(self, guid: int, ports: Sequence[Port]) -> str:
        """Return in words the route to the first of *ports*; if there are none, the known place of *guid*."""
        for port in ports:
            route = ",".join(map(str, (0, *port.agent_path)))
            return f"which was found at route {route} ({port})"
        place = self._ring.place_of(guid)
        return f"which is known behind GUID 0x{place[0]:016x} port {place[1]}" if place else "which is known elsewhere"


def _same_node(a: bytes, b: bytes) -> bool:
    """Return whether two NodeInfo are equal except for the fields that differ from port to port: LocalPortNum, and on a
    CA or router PortGUID."""
    if a[_NODE_TYPE] == NodeType.SWITCH:
        return all(a[part] == b[part] for part in _OF_A_SWITCH)
    return all(a[part] == b[part] for part in _OF_A_CA)
