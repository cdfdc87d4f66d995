"""A simulated subnet as the walker's plain data, read from its physical side: no SMP, and no rule of the simulator."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.const import NodeType
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.routing import forwarding_table
from ibkeys.sim.subnet import Subnet
from tests.routes.plain import Fabric, Node, NodeKind, Place, Port

_KINDS: Final[dict[int, NodeKind]] = {NodeType.CA: "ca", NodeType.SWITCH: "switch", NodeType.ROUTER: "router"}


def place_of(port: SimPort) -> Place:
    """Return the place of a port: nodes are named by their node ids."""
    return port.node.node_id, port.number


def read(net: Subnet) -> Fabric:
    """Return the nodes, cables and tables of *net* as they are now."""
    cables = {
        place_of(port): place_of(port.peer) for node in net.nodes for port in node.all_ports if port.peer is not None
    }
    return Fabric({node.node_id: _node(node) for node in net.nodes}, cables)


def _node(node: SimNode) -> Node:
    ports = {port.number: _port(port) for port in node.all_ports}
    if node.switch_info is None:
        return Node(_KINDS[node.node_type], ports, node.partition_capacity)
    info = SwitchInfo(bytes(node.switch_info))
    return Node(
        "switch",
        ports,
        node.partition_capacity,
        enforcement_cap=info.partition_enforcement_cap,
        inbound_cap=bool(info.inbound_enforcement_cap),
        outbound_cap=bool(info.outbound_enforcement_cap),
        routes=dict(enumerate(forwarding_table(node))),
        top=info.linear_fdb_top,
        is_linear=info.linear_fdb_cap > 0,
    )


def _port(port: SimPort) -> Port:
    return Port(
        tuple(port.p_keys),
        port.lid if port.is_end_port else 0,
        port.lmc if port.is_end_port else 0,
        port.state,
        bool(port.inbound_enforcement),
        bool(port.outbound_enforcement),
    )
