"""A plain fabric as the topology that a sweep of it would read, with the forwarding tables."""

from __future__ import annotations

import struct

from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import NodeType, PortPhysicalState
from ibkeys.topology.forwarding import LIDS_PER_BLOCK, NO_PORT
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port
from tests.routes import plain

_TYPES = {"ca": NodeType.CA, "switch": NodeType.SWITCH, "router": NodeType.ROUTER}


def topology(fabric: plain.Fabric) -> dict[plain.Place, Port]:
    """Return every port of the topology by its place in *fabric*."""
    ports: dict[plain.Place, Port] = {}
    for number, (name, each) in enumerate(fabric.nodes.items(), 1):
        count = max(each.ports)
        info = NodeInfo.new(
            node_type=_TYPES[each.kind], num_ports=count, partition_cap=each.partition_cap, node_guid=number
        )
        node = Node(info.raw, (number,), description=name)
        if each.kind == "switch":
            node.switch_info_raw = SwitchInfo.new(
                linear_fdb_cap=0xBFFF if each.is_linear else 0,
                linear_fdb_top=each.top,
                partition_enforcement_cap=each.enforcement_cap,
                inbound_enforcement_cap=each.inbound_cap,
                outbound_enforcement_cap=each.outbound_cap,
            ).raw
            node.forwarding = None if each.routes is None else _blocks(each.routes)
        for at, port in each.ports.items():
            ports[name, at] = node.port(at)
            _fill(node.port(at), port, each, number << 8 | at)
    for here, there in fabric.cables.items():
        ports[here].peer = ports[there]
    return ports


def _fill(port: Port, plain_port: plain.Port, node: plain.Node, guid: int) -> None:
    port.guid, port.path = guid, (1,)
    if plain_port.inbound is not None and plain_port.outbound is not None:
        port.info = PortInfo.new(
            lid=plain_port.lid,
            lmc=plain_port.lmc,
            port_state=plain_port.state,
            port_physical_state=PortPhysicalState.POLLING
            if plain_port.state == plain.DOWN
            else PortPhysicalState.LINK_UP,
            partition_enforcement_inbound=plain_port.inbound,
            partition_enforcement_outbound=plain_port.outbound,
        ).raw
    capacity = node.enforcement_cap if port.is_external else node.partition_cap
    if plain_port.table is not None:
        table = (*plain_port.table, *[0] * capacity)[:capacity]
        port.p_key_raw = struct.pack(f">{capacity}H", *table)


def _blocks(routes: dict[int, int]) -> dict[int, bytes]:
    table = bytes(routes.get(lid, NO_PORT) for lid in range(0xC000))
    return {at // LIDS_PER_BLOCK: table[at : at + LIDS_PER_BLOCK] for at in range(0, len(table), LIDS_PER_BLOCK)}


def fabric_of(ports: dict[plain.Place, Port]) -> Topology:
    """Return the topology with these ports."""
    return Topology(list(dict.fromkeys(port.node for port in ports.values())))
