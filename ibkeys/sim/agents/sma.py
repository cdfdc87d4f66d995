"""The subnet management agent of every node: one table from (method, attribute) to the handler (IBA 14.2.5).

A handler gets an `AgentRequest` and returns the status and 64 bytes. `answer` calls it after the M_Key check of the
port at which the SMP arrived. `ibkeys.sim.mad_carrier` finds the route and builds the reply.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import GUIDInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import (
    GUIDS_PER_BLOCK,
    MAX_UNICAST_LID,
    P_KEYS_PER_BLOCK,
    AttributeID,
    CapabilityMask,
    Method,
)
from ibkeys.mad.smp import CommonHeader
from ibkeys.sim import routing
from ibkeys.sim.agents import extended_port_info, kept_tables, mkey_check, portinfo, sm_info
from ibkeys.sim.agents.request import (
    BAD_ATTRIBUTE,
    BAD_METHOD,
    BAD_VERSION,
    INVALID,
    OK,
    AgentRequest,
    Handler,
    SmpAnswer,
    SmpRefused,
)
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.nodes import BLOCK_SIZE, GUID_CAP_BYTE, KEY, SimNode, SimPort
from ibkeys.sim.physical.power import STORED_BY_SWITCHES
from ibkeys.sim.traps import Traps


def _node_description(request: AgentRequest) -> SmpAnswer:
    return INVALID if request.modifier else OK, request.node.description_bytes.ljust(BLOCK_SIZE, b"\0")


def _node_info(request: AgentRequest) -> SmpAnswer:
    return INVALID if request.modifier else OK, request.node.node_info(request.ingress)


def _get_switch_info(request: AgentRequest) -> SmpAnswer:
    info = request.switch_info()
    return INVALID if request.modifier else OK, bytes(info)


def _set_switch_info(request: AgentRequest) -> SmpAnswer:
    info, data = request.switch_info(), request.data
    if request.modifier:
        return INVALID, bytes(info)
    requested, status = SwitchInfo(data), OK
    if requested.linear_fdb_top < SwitchInfo.linear_fdb_cap.decode(info):
        SwitchInfo.linear_fdb_top.copy(data, info)
    else:
        status = INVALID
    for row in STORED_BY_SWITCHES:
        row.copy(data, info)
    if requested.port_state_change:  # A 1 in a Set clears the bit, a 0 changes nothing.
        SwitchInfo.port_state_change.patch(info, 0)
    if request.node.ports[0].capability_mask & CapabilityMask.IS_MULTICAST_FDB_TOP_SUPPORTED:
        SwitchInfo.multicast_fdb_top.copy(data, info)
    request.node.touch(reroutes=False)
    return status, bytes(info)


_LOCAL_PORT_NUM: Final = PortInfo.local_port_num.byte


def _port_info_bytes(request: AgentRequest, port: SimPort, key_hidden: bool) -> bytes:
    info = bytearray(port.info)
    info[_LOCAL_PORT_NUM] = request.ingress  # the port at which the SMP arrived, not the port in the modifier
    if key_hidden:
        info[KEY] = bytes(8)
    return bytes(info)


def _check_other_port(request: AgentRequest, port: SimPort) -> int | None:
    """Check the M_Key of *port* too, if it is another port of a CA or router than the ingress port.

    Returns the verdict; None if it is the ingress port, or the node is a switch. Raises SmpRefused for a wrong key.
    """
    if request.node.is_switch or port.number == request.ingress:
        return None
    verdict = mkey_check.check(port, request.mad, request.traps)
    if verdict == mkey_check.REFUSED:
        raise SmpRefused(Drop.M_KEY)
    return verdict


def _get_port_info(request: AgentRequest) -> SmpAnswer:
    port = request.named_port()
    verdict = _check_other_port(request, port)
    hidden = request.key_hidden if verdict is None else verdict == mkey_check.ACCEPTED_KEY_HIDDEN
    return OK, _port_info_bytes(request, port, hidden)


def _set_port_info(request: AgentRequest) -> SmpAnswer:
    port = request.named_port()
    if _check_other_port(request, port) is not None:
        return OK, _port_info_bytes(
            request, port, False
        )  # A Set does not change another port of a CA, but is answered with its values (qib, hfi1).
    valid = portinfo.apply(port, request.data, request.traps)
    answer_info = bytearray(_port_info_bytes(request, port, False))
    if port.is_end_port:
        PortInfo.client_reregister.copy(request.data, answer_info)  # ClientReregister is echoed, and not stored.
    return OK if valid else INVALID, bytes(answer_info)


def _p_key_target(request: AgentRequest) -> tuple[SimPort, int]:
    """Return the port and the number of the block. Raises SmpRefused if there is no such table or block (IBA
    14.2.5.7)."""
    number, block = request.modifier >> 16, request.modifier & 0xFFFF
    node = request.node
    if not node.is_switch:
        number = request.ingress  # A CA or router ignores the port in the modifier.
    if number > node.num_ports or block * P_KEYS_PER_BLOCK >= node.ports[number].p_key_capacity:
        raise SmpRefused(INVALID)
    return node.ports[number], block


def _get_p_key_table(request: AgentRequest) -> SmpAnswer:
    port, block = _p_key_target(request)
    return OK, port.p_key_block(block)


def _set_p_key_table(request: AgentRequest) -> SmpAnswer:
    port, block = _p_key_target(request)
    port.set_p_key_block(block, request.data)
    return OK, port.p_key_block(block)


def _get_guid_info(request: AgentRequest) -> SmpAnswer:
    if request.modifier * GUIDS_PER_BLOCK >= request.port.info[GUID_CAP_BYTE]:
        raise SmpRefused(INVALID)
    return OK, request.port.guid_block(request.modifier)


def _set_guid_info(request: AgentRequest) -> SmpAnswer:
    port, first = request.port, request.modifier * GUIDS_PER_BLOCK
    if first >= port.info[GUID_CAP_BYTE]:
        raise SmpRefused(INVALID)
    written = GUIDInfo(request.data).guids
    for place in range(GUIDS_PER_BLOCK):
        index = first + place
        if 0 < index < port.info[GUID_CAP_BYTE]:  # Entry 0 is the port GUID, which is read-only.
            if port.guids is None:
                port.guids = {}
            port.guids[index] = written[place]
    port.touch(reroutes=False)
    return OK, port.guid_block(request.modifier)


def _get_virtualization(request: AgentRequest) -> SmpAnswer:
    """Return VirtualizationInfo. Raises SmpRefused for a port without the attribute, and for a modifier other than
    0."""
    info = request.port.virtualization
    if info is None or request.modifier:
        raise SmpRefused(BAD_ATTRIBUTE if info is None else INVALID)
    return OK, info


def _start_of_routes(request: AgentRequest) -> int:
    """Return the first LID in the requested block of the forwarding table. Raises SmpRefused if there is no such table
    or block."""
    start = BLOCK_SIZE * request.modifier
    if start >= SwitchInfo.linear_fdb_cap.decode(request.switch_info()):
        raise SmpRefused(INVALID)
    return start


def _get_routes(request: AgentRequest) -> SmpAnswer:
    start, table = _start_of_routes(request), routing.forwarding_table(request.node)
    return OK, bytes(table[start : start + BLOCK_SIZE]).ljust(BLOCK_SIZE, b"\xff")


def _set_routes(request: AgentRequest) -> SmpAnswer:
    start, table = _start_of_routes(request), routing.forwarding_table(request.node)
    if start <= MAX_UNICAST_LID:
        table.extend(b"\xff" * max(0, start + BLOCK_SIZE - len(table)))
        table[start : start + BLOCK_SIZE] = request.data
    request.node.touch(reroutes=False)
    return OK, request.data


GET: Final[dict[int, Handler]] = {
    AttributeID.NODE_DESCRIPTION: _node_description,
    AttributeID.NODE_INFO: _node_info,
    AttributeID.SWITCH_INFO: _get_switch_info,
    AttributeID.GUID_INFO: _get_guid_info,
    AttributeID.PORT_INFO: _get_port_info,
    AttributeID.P_KEY_TABLE: _get_p_key_table,
    AttributeID.SL_TO_VL_MAPPING_TABLE: kept_tables.get,
    AttributeID.VL_ARBITRATION_TABLE: kept_tables.get,
    AttributeID.LINEAR_FORWARDING_TABLE: _get_routes,
    AttributeID.MULTICAST_FORWARDING_TABLE: kept_tables.get,
    AttributeID.SM_INFO: sm_info.get,
    AttributeID.VIRTUALIZATION_INFO: _get_virtualization,
    extended_port_info.ATTRIBUTE: extended_port_info.get,
}
SET: Final[dict[int, Handler]] = {
    AttributeID.SWITCH_INFO: _set_switch_info,
    AttributeID.GUID_INFO: _set_guid_info,
    AttributeID.PORT_INFO: _set_port_info,
    AttributeID.P_KEY_TABLE: _set_p_key_table,
    AttributeID.SL_TO_VL_MAPPING_TABLE: kept_tables.set_block,
    AttributeID.VL_ARBITRATION_TABLE: kept_tables.set_block,
    AttributeID.LINEAR_FORWARDING_TABLE: _set_routes,
    AttributeID.MULTICAST_FORWARDING_TABLE: kept_tables.set_block,
    AttributeID.SM_INFO: sm_info.set_state,
    extended_port_info.ATTRIBUTE: extended_port_info.set_info,
}
_HANDLERS: Final[dict[int, dict[int, Handler]]] = {int(Method.GET): GET, int(Method.SET): SET}
_HEAD: Final = at.reader(
    CommonHeader.class_version, CommonHeader.method, CommonHeader.attribute_id, CommonHeader.attribute_modifier
)
_CHECKED: Final = frozenset(map(int, (Method.GET, Method.SET, Method.TRAP_REPRESS)))
"""The methods for which the M_Key is checked (IBA 14.2.4)."""
_NOT_ANSWERED: Final = frozenset(map(int, (Method.SEND, Method.TRAP, Method.REPORT, Method.TRAP_REPRESS)))


def answer(node: SimNode, ingress: int, mad: bytes, traps: Traps) -> SmpAnswer | Drop:
    """Return the status and attribute with which *node* answers the SMP *mad*, or the reason why it does not answer.

    The checks are in the order of the Linux software SMAs: class version, M_Key, method, attribute.
    """
    class_version, method, attribute, modifier = _HEAD.unpack_from(mad)
    if class_version != 1:
        return BAD_VERSION, mad[at.DATA]
    verdict = mkey_check.ACCEPTED
    if method in _CHECKED:
        verdict = mkey_check.check(node.arrival_port(ingress), mad, traps)
        if verdict == mkey_check.REFUSED:
            other = modifier & 0x7FFF_FFFF
            names_other = not node.is_switch and 0 < other <= node.num_ports and other != ingress
            if attribute == AttributeID.PORT_INFO and names_other:
                mkey_check.check(
                    node.ports[other], mad, traps
                )  # If its M_Key is wrong too, that port also counts it (qib).
            return Drop.M_KEY
    handlers = _HANDLERS.get(method)
    if handlers is None:
        return Drop.NOT_ANSWERED if method in _NOT_ANSWERED else (BAD_METHOD, mad[at.DATA])
    handler = handlers.get(attribute)
    if handler is None:
        return BAD_ATTRIBUTE, mad[at.DATA]
    try:
        return handler(AgentRequest(node, ingress, mad, modifier, verdict == mkey_check.ACCEPTED_KEY_HIDDEN, traps))
    except SmpRefused as refused:
        return refused.outcome
