"""Impossible values in a node's answers, which would make the model of its ports wrong.

Such a node is defective or hostile. It is shown as far as possible and reported as an error.
"""

from __future__ import annotations

from typing import Final

from ibkeys.errors import ImpossibleValue
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import MAX_PORT, MAX_UNICAST_LID, NODE_TYPE_NAMES, NodeType, PortState
from ibkeys.topology.nodes import Port

Problem = tuple[str, str]
"""The field with the problem, by the standard's name, and a sentence."""

NO_ENTRIES: Final = "NodeInfo says PartitionCap 0: every port has room for one P_Key at least"
_NO_PORT_GUID: Final[Problem] = ("PortGUID", "NodeInfo says PortGUID 0: no port has it")
_PORT_STATES: Final = frozenset(map(int, PortState)) - {PortState.NO_CHANGE}


def node_problems(node_info: NodeInfo) -> list[Problem]:
    """Return the impossible values in NodeInfo, except for the port by which the node was reached. Source: IBA
    14.2.5.3."""
    found: list[Problem] = []
    kind, ports = node_info.node_type, node_info.num_ports
    if kind not in NODE_TYPE_NAMES:
        found.append(("NodeType", f"NodeInfo says NodeType {kind}: valid are 1 (CA), 2 (switch) and 3 (router)"))
    if not 1 <= ports <= MAX_PORT:
        found.append(("NumPorts", f"NodeInfo says NumPorts {ports}: a node has 1 to {MAX_PORT} ports"))
    if not node_info.node_guid:
        found.append(("NodeGUID", "NodeInfo says NodeGUID 0: no node has it"))
    if kind == NodeType.SWITCH and not node_info.port_guid:
        found.append(_NO_PORT_GUID)
    if not node_info.partition_cap:
        found.append(("PartitionCap", NO_ENTRIES))
    return found


def arrival_problems(node_info: NodeInfo, over_link: bool) -> list[Problem]:
    """Return the impossible values in NodeInfo about the port by which the node was reached.

    *over_link*: it was reached by a link, so not at port 0.
    """
    ports, num, on_switch = node_info.num_ports, node_info.local_port_num, node_info.node_type == NodeType.SWITCH
    found: list[Problem] = [] if on_switch or node_info.port_guid else [_NO_PORT_GUID]
    if ports and num > ports:
        found.append(("LocalPortNum", f"NodeInfo says LocalPortNum {num} of NumPorts {ports}: there is no such port"))
    elif ports and not num and (over_link or not on_switch):
        found.append(("LocalPortNum", "NodeInfo says LocalPortNum 0: no link leads to port 0"))
    return found


def port_problems(port: Port) -> list[Problem]:
    """Return the impossible values in the PortInfo of *port*. Source: IBA 14.2.5.6, 4.1.3 (LID ranges)."""
    info = port.info
    if info is None:
        return []
    found: list[Problem] = []
    if not port.is_external:
        found += _lid_problem(PortInfo.lid.decode(info), PortInfo.lmc.decode(info))
    if port.num and (state := PortInfo.port_state.decode(info)) not in _PORT_STATES:
        found.append(("PortState", f"PortInfo says PortState {state}: a port has 1 to {max(_PORT_STATES)}"))
    return found


def _lid_problem(lid: int, lmc: int) -> list[Problem]:
    if lid > MAX_UNICAST_LID:
        return [("LID", f"PortInfo says LID {lid}: the LIDs of ports end at {MAX_UNICAST_LID}")]
    if lid and (lid % (1 << lmc) or lid + (1 << lmc) - 1 > MAX_UNICAST_LID):
        return [("LMC", f"PortInfo says LID {lid} and LMC {lmc}: the LID must be a multiple of {1 << lmc}")]
    return []


def check_port_numbers(port: Port) -> None:
    """Raise ImpossibleValue if it cannot be determined which port of its node was reached.

    *port*: the port as NodeInfo.LocalPortNum has it.
    """
    node = port.node
    for field, text in (*node_problems(node.node_info), *arrival_problems(node.node_info, over_link=bool(node.path))):
        if field in ("NumPorts", "LocalPortNum"):
            raise ImpossibleValue(f"{port}: {text}; the node is defective or lies")
