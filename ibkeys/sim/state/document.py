"""The state of a subnet as a JSON document: the differences from a fresh subnet of the same net file, or those since
the last save."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ibkeys.errors import StoreError
from ibkeys.mad.classes.gmp import KEY_CLASS_OF, KEY_CLASSES
from ibkeys.mad.classes.key_info import KeySettings
from ibkeys.mad.const import SMState
from ibkeys.mad.performance import PortCounters, PortCountersExtended
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.sim.agents.class_keys import CHOICES, ClassRules, default_rules
from ibkeys.sim.counters import SimCounters
from ibkeys.sim.nodes import MAX_P_KEYS, ClassAgent, SimNode, SimPort, SimSubnetManager
from ibkeys.sim.running_managers import Managers
from ibkeys.sim.subnet import Subnet

VERSION: Final = 1
_ATTRIBUTE_SIZE: Final = 64
_MOST_ROUTES: Final = 48 * 1024
_MOST_SECONDS: Final = 1e12


def dump_state(subnet: Subnet) -> dict[str, Any]:
    """Return the differences from a fresh subnet of the same net file as a JSON document. It contains keys."""
    return _document(subnet, subnet.history.touched_ports, subnet.history.touched_nodes)


def dump_changes(subnet: Subnet) -> dict[str, Any]:
    """Return the changes since the last `SimHistory.forget_fresh` as a JSON document, which is loaded after the earlier
    documents. It contains keys."""
    return _document(subnet, subnet.history.fresh_ports, subnet.history.fresh_nodes)


def _document(subnet: Subnet, ports: Iterable[tuple[int, int]], touched: Iterable[int]) -> dict[str, Any]:
    nodes, history = subnet.nodes, subnet.history
    return {
        "version": VERSION,
        "fabric": subnet.fingerprint,
        "now": history.now,
        "class_rules": _dump_rules(subnet.carrier.class_rules),
        "ports": [_dump_port(nodes[index].ports[number]) for index, number in sorted(ports)],
        "nodes": [_dump_node(nodes[index]) for index in sorted(touched)],
    }


def load_state(subnet: Subnet, document: dict[str, Any], *changes: dict[str, Any]) -> None:
    """Bring a fresh subnet of the same net file to the saved state.

    *document*: the result of `dump_state`; *changes*: the results of `dump_changes` after it, in order. Raises
    StoreError.
    """
    try:
        ports = {port: None for each in (document, *changes) for port in _load(subnet, each)}
        for port in ports:
            _check_cable(port)
        last = changes[-1] if changes else document
        _load_rules(subnet.carrier.class_rules, last.get("class_rules", {}))
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise StoreError(f"damaged simulator state: {type(error).__name__}") from None


def _load(subnet: Subnet, document: dict[str, Any]) -> list[SimPort]:
    """Bring *subnet* to the state in one *document*; return the ports that are in the document."""
    nodes, history = subnet.nodes, subnet.history
    if document["version"] != VERSION:
        raise StoreError(f"simulator state of version {document['version']!r}; version {VERSION} is known")
    if document["fabric"] != subnet.fingerprint:
        raise StoreError("the simulator state belongs to another net file (or to other port-guids= or links=)")
    for record in document["nodes"]:
        _load_node(nodes, subnet.managers, record)  # before the ports, because capacities decide the size of tables
    loaded = [_load_port(nodes, record) for record in document["ports"]]
    history.advance(max(0.0, _seconds_of(document["now"]) - history.now))
    return loaded


def _dump_port(port: SimPort) -> dict[str, Any]:
    record: dict[str, Any] = {"at": [port.node.index, port.number], "info": port.info.hex()}
    if port.p_key_bytes is not None:
        record["p_keys"] = port.p_key_bytes.hex()
    if port.guids:
        record["guids"] = {str(index): guid for index, guid in port.guids.items()}
    if port.lease_deadline is not None:
        record["lease_deadline"] = port.lease_deadline
    if port.class_agents:
        record["class_keys"] = _dump_agents(port.class_agents)
    if port.virtualization is not None:
        record["virtualization"] = port.virtualization.hex()
    if port.counters is not None:
        record["counters"] = [port.counters.basic.hex(), port.counters.extended.hex()]
    if port.peer is not port.first_peer:
        record["peer"] = None if port.peer is None else [port.peer.node.index, port.peer.number]
    return record


def _load_port(nodes: Sequence[SimNode], record: dict[str, Any]) -> SimPort:
    port = _port_at(nodes, record["at"])
    port.info[:] = _bytes_of(record["info"], len(port.info))
    port.p_key_bytes = bytes.fromhex(record["p_keys"]) if "p_keys" in record else None
    port.guids = _load_guids(record["guids"]) if "guids" in record else None
    port.lease_deadline = _seconds_of(record["lease_deadline"]) if "lease_deadline" in record else None
    port.class_agents = _load_agents(record["class_keys"]) if "class_keys" in record else None
    virtual = VirtualizationInfo.size
    port.virtualization = _bytes_of(record["virtualization"], virtual) if "virtualization" in record else None
    port.counters = None  # An earlier document may have counters that a reset has cleared since.
    if "counters" in record:
        basic, extended = record["counters"]
        port.counters = SimCounters(_bytes_of(basic, PortCounters.size), _bytes_of(extended, PortCountersExtended.size))
    port.peer = port.first_peer
    if "peer" in record:  # The cable no longer leads to first_peer.
        port.peer = None if record["peer"] is None else _port_at(nodes, record["peer"])
    port.touch()
    return port


def _load_guids(record: dict[str, Any]) -> dict[int, int]:
    return {_number_of(int(index), 0xFFFF): _number_of(guid, (1 << 64) - 1) for index, guid in record.items()}


def _check_cable(port: SimPort) -> None:
    """Raise ValueError if the two ends of the cable of *port* do not agree, or its first neighbour still leads to
    it."""
    first_peer = port.first_peer
    if port.peer is not None and (port.peer.peer is not port or not port.peer.number or not port.number):
        raise ValueError("a cable with one end")
    if first_peer is not None and first_peer.peer is port and port.peer is not first_peer:
        raise ValueError("a cable with one end")


def _port_at(nodes: Sequence[SimNode], place: Any) -> SimPort:
    index, number = place
    node = nodes[_number_of(index, len(nodes) - 1)]
    return node.ports[_number_of(number, node.num_ports)]


def _dump_node(node: SimNode) -> dict[str, Any]:
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


def _load_node(nodes: Sequence[SimNode], managers: Managers, record: dict[str, Any]) -> None:
    node = nodes[_number_of(record["at"], len(nodes) - 1)]
    node.silent = _number_of(record["silent"], 2)
    node.partition_capacity, node.enforcement_capacity = (_number_of(value, MAX_P_KEYS) for value in record["caps"])
    if "description" in record:
        node.description_bytes = bytes.fromhex(record["description"])[:_ATTRIBUTE_SIZE]
    if node.switch_info is not None:
        switch_info = bytes.fromhex(record["switch_info"])
        node.switch_info[:] = switch_info.ljust(_ATTRIBUTE_SIZE, b"\0")[:_ATTRIBUTE_SIZE]
        if "routes" in record:
            node.routes = bytearray.fromhex(record["routes"])
            _number_of(len(node.routes), _MOST_ROUTES)
    if "tables" in record:
        node.tables = {
            (_number_of(attribute, 0xFFFF), _number_of(place, 0xFFFFFFFF)): _bytes_of(data, _ATTRIBUTE_SIZE)
            for attribute, place, data in record["tables"]
        }
    manager = None
    if "sm" in record:
        number, state, priority, sm_key = record["sm"]
        if node.ports[_number_of(number, node.num_ports)] not in node.end_ports:
            raise ValueError("a subnet manager at a port of another node")
        manager = SimSubnetManager(
            node.ports[number],
            _number_of(state, SMState.MASTER),
            _number_of(priority, 15),
            _number_of(sm_key, (1 << 64) - 1),
        )
    managers.place(node, manager)
    node.touch()


def _dump_agents(agents: Mapping[int, ClassAgent]) -> dict[str, Any]:
    """Return name of the class → KeyInfo, CapabilityMask and lease deadline of each of the *agents* of one port. The
    keys are in clear, as M_Keys are in this document."""
    return {
        KEY_CLASS_OF[mgmt_class].name: [agent.info.hex(), agent.capability_mask, agent.deadline]
        for mgmt_class, agent in agents.items()
    }


def _load_agents(record: Mapping[str, Any]) -> dict[int, ClassAgent]:
    """Return the agents of a port from the result of `_dump_agents`. Raises KeyError, TypeError or ValueError if it is
    not valid."""
    agents = {}
    for name, (info, capabilities, deadline) in record.items():
        agent = ClassAgent(bytearray(_bytes_of(info, KeySettings.size)), _number_of(capabilities, 0xFFFF))
        agent.deadline = None if deadline is None else _seconds_of(deadline)
        agents[int(KEY_CLASSES[name].mgmt_class)] = agent  # type: ignore[index]
    return agents


def _dump_rules(rules: Mapping[int, ClassRules]) -> dict[str, Any]:
    """Return name of the class → name of the rule → its value, for the rules that differ from `default_rules`."""
    defaults = default_rules()
    record: dict[str, Any] = {}
    for mgmt_class, each in rules.items():
        differing = {
            name: getattr(each, name) for name in CHOICES if getattr(each, name) != getattr(defaults[mgmt_class], name)
        }
        if differing:
            record[KEY_CLASS_OF[mgmt_class].name] = differing
    return record


def _load_rules(rules: Mapping[int, ClassRules], record: Mapping[str, Any]) -> None:
    """Set *rules* to the values in *record*, the result of `_dump_rules`. Raises the errors of `_load_agents`."""
    for name, chosen in record.items():
        for field, value in chosen.items():
            if value not in CHOICES[field]:
                raise ValueError("a rule that does not exist")
            setattr(rules[int(KEY_CLASSES[name].mgmt_class)], field, value)  # type: ignore[index]


# --- values: a wrong type or range would otherwise fail later, at an unrelated place ---------------------------------


def _number_of(value: Any, highest: int) -> int:
    """Return *value* if it is an integer from 0 to *highest*. Raises ValueError."""
    if type(value) is not int or not 0 <= value <= highest:
        raise ValueError(f"a number that is not in 0..{highest}")
    return value


def _seconds_of(value: Any) -> float:
    """Return *value* as a number of seconds. Raises TypeError or ValueError."""
    seconds = float(value)
    if not math.isfinite(seconds) or abs(seconds) > _MOST_SECONDS:
        raise ValueError("an invalid time")
    return seconds


def _bytes_of(value: str, size: int) -> bytes:
    """Return *size* bytes from the hex text *value*. Raises TypeError or ValueError."""
    data = bytes.fromhex(value)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes instead of {size}")
    return data
