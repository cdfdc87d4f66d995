"""The state of a subnet as a JSON document: only what differs from a fresh subnet of the same net file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibkeys.errors import StoreError
from ibkeys.sim.nodes import Node, Port, SubnetManager
from ibkeys.sim.pma import Counters

if TYPE_CHECKING:
    from ibkeys.sim.subnet import Subnet

VERSION: Final = 1


def dump(subnet: Subnet) -> dict[str, Any]:
    """Return the document for `Subnet.dump_state`."""
    return {
        "version": VERSION,
        "fabric": subnet.fingerprint,
        "now": subnet.now,
        "ports": [_dump_port(port) for port in sorted(subnet.touched_ports, key=_place)],
        "nodes": [_dump_node(node) for node in sorted(subnet.touched_nodes, key=lambda node: node.index)],
    }


def load(subnet: Subnet, document: dict[str, Any]) -> None:
    """Apply a document of `dump`. Raises StoreError."""
    try:
        if document["version"] != VERSION:
            raise StoreError(f"simulator state of version {document['version']!r}; version {VERSION} is known")
        if document["fabric"] != subnet.fingerprint:
            raise StoreError("the simulator state belongs to another net file (or to other port-guids= or links=)")
        for record in document["nodes"]:
            _load_node(subnet, record)  # first, because capacities decide how large tables are
        for record in document["ports"]:
            _load_port(subnet, record)
        subnet.advance(max(0.0, float(document["now"]) - subnet.now))
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise StoreError(f"damaged simulator state: {type(error).__name__}") from None


def _place(port: Port) -> tuple[int, int]:
    return port.node.index, port.number


def _dump_port(port: Port) -> dict[str, Any]:
    record: dict[str, Any] = {"at": [port.node.index, port.number], "info": port.info.hex()}
    if port.p_key_bytes is not None:
        record["p_keys"] = port.p_key_bytes.hex()
    if port.guids:
        record["guids"] = {str(index): guid for index, guid in port.guids.items()}
    if port.lease_deadline is not None:
        record["lease_deadline"] = port.lease_deadline
    if port.counters is not None:
        record["counters"] = [port.counters.basic.hex(), port.counters.extended.hex()]
    if port.peer is not port.first_peer:
        record["peer"] = None if port.peer is None else [port.peer.node.index, port.peer.number]
    return record


def _load_port(subnet: Subnet, record: dict[str, Any]) -> None:
    node, number = record["at"]
    port = subnet.nodes[node].ports[number]
    info = bytes.fromhex(record["info"])
    if len(info) != len(port.info):
        raise ValueError("PortInfo of another size")
    port.info[:] = info
    port.p_key_bytes = bytes.fromhex(record["p_keys"]) if "p_keys" in record else None
    port.guids = {int(index): int(guid) for index, guid in record["guids"].items()} if "guids" in record else None
    port.lease_deadline = float(record["lease_deadline"]) if "lease_deadline" in record else None
    if "counters" in record:
        basic, extended = (bytes.fromhex(counted) for counted in record["counters"])
        fresh = Counters()
        if (len(basic), len(extended)) != (len(fresh.basic), len(fresh.extended)):
            raise ValueError("counters of another size")
        port.counters = Counters(basic, extended)
    if "peer" in record:
        far_end = record["peer"]
        port.peer = None if far_end is None else subnet.nodes[far_end[0]].ports[far_end[1]]
    subnet.touched_ports.add(port)


def _dump_node(node: Node) -> dict[str, Any]:
    record: dict[str, Any] = {
        "at": node.index,
        "silent": node.silent,
        "caps": [node.partition_capacity, node.enforcement_capacity],
        "description": node.description_bytes.hex(),
    }
    if node.switch_info is not None:
        record["switch_info"] = node.switch_info.hex()
        if node.routes is not None:
            record["routes"] = node.routes.hex()
    if node.tables:
        record["tables"] = [[attribute, place, data.hex()] for (attribute, place), data in node.tables.items()]
    if node.sm is not None:
        record["sm"] = [node.sm.port.number, node.sm.state, node.sm.priority, node.sm.sm_key]
    return record


def _load_node(subnet: Subnet, record: dict[str, Any]) -> None:
    node = subnet.nodes[record["at"]]
    node.silent = int(record["silent"])
    node.partition_capacity, node.enforcement_capacity = (int(value) for value in record["caps"])
    if "description" in record:
        node.description_bytes = bytes.fromhex(record["description"])[:64]
    if node.switch_info is not None:
        node.switch_info[:] = bytes.fromhex(record["switch_info"]).ljust(64, b"\0")[:64]
        if "routes" in record:
            node.routes = bytearray.fromhex(record["routes"])
    if "tables" in record:
        node.tables = {(int(attribute), int(place)): bytes.fromhex(data) for attribute, place, data in record["tables"]}
    manager = None
    if "sm" in record:
        number, state, priority, sm_key = record["sm"]
        manager = SubnetManager(node.ports[number], state, priority, sm_key)
    subnet.place_sm(node, manager)
    subnet.touched_nodes.add(node)
