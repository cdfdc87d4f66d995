"""Directed routes in a fabric that files describe, from its links: as a sweep from one port would find them."""

from __future__ import annotations

from collections import deque

from ibkeys.dumps.addresses import end_ports
from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import MAX_HOPS
from ibkeys.printable import counted
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port


def start_of(fabric: Topology, guids: list[int]) -> Port | None:
    """Return the port with the first known one of *guids*, of ports or nodes; None if none is known."""
    for guid in guids:
        for node in fabric.nodes:
            for port in end_ports(node):
                if guid in (port.guid, node.guid):
                    return port
    return None


def lay_routes(fabric: Topology, start: Port | None) -> list[str]:
    """Give each node and port that links reach its route from *start*, and put the nodes in that order.

    Returns notes for the reader. If no file has a start, the routes begin at the first node. A node that no link
    reaches gets the route of the start, which is not its own.
    """
    notes = []
    if start is None:
        start = fabric.nodes[0].first_end_port()
        notes.append(f"no file says where it was written, so routes are from {start}")
    fabric.nodes.remove(start.node)
    fabric.nodes.insert(0, start.node)
    reached = _walk(start)
    lost = [node for node in fabric.nodes if node not in reached]
    if lost:
        notes.append(f"{counted(len(lost), 'node')} without a known link to {start}: their routes are not known")
    for node in fabric.nodes:
        for port in node.ports.values():
            if not node.is_switch and port.path is None and _is_described(port):
                port.path = ()
        _name_arrival(node)
    fabric.put_in_order()
    return notes


def _walk(start: Port) -> set[Node]:
    start.node.path = ()
    if not start.node.is_switch:
        start.path = ()
    reached = {start.node}
    waiting = deque([start.node])
    while waiting:
        node = waiting.popleft()
        for port in [port for _, port in sorted(node.ports.items())] if node.is_switch else [start]:
            far = port.peer
            if far is None or len(node.path) >= MAX_HOPS:
                continue
            path = (*node.path, port.num)
            if far.path is None and not far.node.is_switch:
                far.path = path
            if far.node not in reached:
                reached.add(far.node)
                far.node.path = path
                _name_arrival(far.node, far)
                if far.node.is_switch:  # no packet goes through another node
                    waiting.append(far.node)
    return reached


def _name_arrival(node: Node, port: Port | None = None) -> None:
    """Set the port in NodeInfo to one that a link reaches, unless a file has NodeInfo as it was read."""
    if NodeInfo(node.info).local_port_num or (node.is_switch and port is None):
        return
    port = port or node.first_end_port()
    node.info = NodeInfo(node.info).replace(local_port_num=port.num, port_guid=port.port_guid).raw


def _is_described(port: Port) -> bool:
    """Return whether a file has more data about a CA port than its number. Such a port counts as read."""
    if port.peer is not None or port.p_key_raw is not None:
        return True
    return port.is_linked if port.info is not None else port.stated_lid is not None
