"""Tables that the simulator only stores: SL to VL mapping, VL arbitration, multicast forwarding."""

from __future__ import annotations

from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.const import AttributeID
from ibkeys.sim.agents.request import INVALID, OK, AgentRequest, SmpAnswer, SmpRefused
from ibkeys.sim.nodes import BLOCK_SIZE, EMPTY_BLOCK

SL_TO_VL: Final = bytes.fromhex("0123456789abcde7").ljust(BLOCK_SIZE, b"\0")
VL_ARBITRATION_LOW: Final = b"\0\0" + b"".join(bytes([vl, 4]) for vl in range(1, 8))
VL_ARBITRATION_HIGH: Final = b"\0\4" + b"".join(bytes([vl, 0]) for vl in range(1, 8))


def _table_key(request: AgentRequest) -> tuple[tuple[int, int], bytes]:
    """Return the key of the requested table in `SimNode.tables`, and its content after power-up. Raises SmpRefused if
    there is no such table."""
    node, modifier = request.node, request.modifier
    attribute = int.from_bytes(request.mad[at.ATTRIBUTE_ID])
    if attribute == AttributeID.SL_TO_VL_MAPPING_TABLE:
        in_port, out_port = modifier >> 8 & 0xFF, modifier & 0xFF
        if node.is_switch and max(in_port, out_port) > node.num_ports:
            raise SmpRefused(INVALID)
        return (attribute, modifier & 0xFFFF if node.is_switch else request.ingress), SL_TO_VL
    if attribute == AttributeID.VL_ARBITRATION_TABLE:
        part, port = modifier >> 16, modifier & 0xFFFF
        if not 1 <= part <= 4 or (node.is_switch and port > node.num_ports):
            raise SmpRefused(INVALID)
        table = modifier if node.is_switch else part << 16 | request.ingress
        start = {1: VL_ARBITRATION_LOW, 3: VL_ARBITRATION_HIGH}.get(part, b"")
        return (attribute, table), start.ljust(BLOCK_SIZE, b"\0")
    capacity = SwitchInfo.multicast_fdb_cap.decode(request.switch_info())
    if (modifier & 0x1FF) * 32 >= capacity or (modifier >> 28) * 16 > node.num_ports:
        raise SmpRefused(INVALID)
    # The bits between position and block are reserved and ignored.
    return (attribute, modifier & 0xF000_01FF), EMPTY_BLOCK


def get(request: AgentRequest) -> SmpAnswer:
    """Return the requested block as it was set, else its content after power-up. Raises SmpRefused if there is none."""
    table, start = _table_key(request)
    return OK, (request.node.tables or {}).get(table, start)


def set_block(request: AgentRequest) -> SmpAnswer:
    """Store the block of a Set and return it. Raises SmpRefused if there is no such table."""
    request.node.store_table(_table_key(request)[0], request.data)
    request.node.touch(reroutes=False)
    return OK, request.data
