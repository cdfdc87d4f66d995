"""Set(PortInfo): what each field of it does to a port (IBA 14.2.5.6).

Valid fields are applied even when another one is invalid; the reply then has status 0x1C and shows what the port has
become (Linux qib SMA). Which fields belong to end ports and which to external ports of switches: IBA table of PortInfo.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad.const import MAX_UNICAST_LID, NodeType, PortPhysicalState, PortState
from ibkeys.sim.nodes import PROTECT_BYTE, STATE_BYTE, Port
from ibkeys.sim.physical import links
from ibkeys.sim.traps import Traps

_DISABLE_EXTENDED: Final = 30
_ALL_EXTENDED: Final = 31


def apply(port: Port, data: bytes, traps: Traps) -> bool:
    """Apply the attribute of a Set to *port*; returns whether every field was valid."""
    node = port.node
    valid = _link_fields(port, data)
    if port.is_end_port:
        valid &= _end_port_fields(port, data)
    info = port.info
    on_link = not (node.is_switch and port.number == 0)
    if on_link and node.node_type != NodeType.CA:
        stall = data[42] & 0xE0 if node.is_switch else info[42] & 0xE0
        info[42] = stall | data[42] & 0x1F
    if node.is_switch and port.number and node.switch_info is not None:
        # SwitchInfo byte 16 has the four capabilities in the order in which PortInfo byte 43 has the four bits.
        info[43] = info[43] & 0xF0 | data[43] & node.switch_info[16] >> 4
    valid &= _states(port, data, traps)
    port.touch()
    return valid


def _end_port_fields(port: Port, data: bytes) -> bool:
    info = port.info
    valid = True
    info[0:16] = data[0:16]  # M_Key, GIDPrefix
    info[26:28] = data[26:28]  # M_KeyLeasePeriod
    lmc = data[PROTECT_BYTE] & 0x07
    if lmc and port.node.switch_info is not None and not port.node.switch_info[16] & 0x08:
        valid, lmc = False, info[PROTECT_BYTE] & 0x07  # a base switch port 0 has one LID
    info[PROTECT_BYTE] = data[PROTECT_BYTE] & 0xC0 | info[PROTECT_BYTE] & 0x38 | lmc
    if 0 < int.from_bytes(data[16:18]) <= MAX_UNICAST_LID:
        info[16:18] = data[16:18]
    else:
        valid = False
    if 0 < int.from_bytes(data[18:20]) <= MAX_UNICAST_LID:
        info[18:20] = data[18:20]
        info[36] = info[36] & 0xF0 | data[36] & 0x0F  # MasterSMSL
    else:
        valid = False
    info[37] = info[37] & 0xF0 | data[37] & 0x0F  # InitType
    for at in (44, 46, 48):  # the violation counters are cleared by 0 and ignore the rest
        if data[at : at + 2] == b"\0\0":
            info[at : at + 2] = b"\0\0"
    suppression = data[51] & 0x60 if info[20] & 0x20 else 0
    info[51] = suppression | data[51] & 0x1F  # ClientReregister is a request and not stored
    return valid


def _link_fields(port: Port, data: bytes) -> bool:
    info = port.info
    valid = True
    for at, all_of_them, value, supported, mask in (
        (29, 0xFF, data[29], info[30], 0xFF),  # LinkWidthEnabled
        (35, 0x0F, data[35] & 0x0F, info[32] >> 4, 0x0F),  # LinkSpeedEnabled
    ):
        if value == all_of_them:
            value = supported
        if value & ~supported:
            valid = False
        elif value:
            info[at] = info[at] & ~mask & 0xFF | value
    valid &= _extended_speed(port, data[63] & 0x1F)
    down_default = data[33] & 0x0F
    if down_default in (1, 2):
        info[33] = info[33] & 0xF0 | down_default
    elif down_default:
        valid = False
    mtu = data[36] >> 4
    if 1 <= mtu <= info[41] & 0x0F:
        info[36] = info[36] & 0x0F | mtu << 4
    else:
        valid = False
    operational_vls = data[43] >> 4
    if operational_vls > info[37] >> 4:
        valid = False
    elif operational_vls:
        info[43] = info[43] & 0x0F | operational_vls << 4
    info[38] = data[38]  # VLHighLimit
    info[53] = data[53]  # LocalPhyErrors, OverrunErrors
    return valid


def _extended_speed(port: Port, value: int) -> bool:
    info = port.info
    supported = info[62] & 0x0F
    if value in (0, _ALL_EXTENDED) and not (value and supported):
        return True
    if value == _DISABLE_EXTENDED:
        value = 0
    elif value == _ALL_EXTENDED:
        value = supported
    if value & ~supported:
        return False
    info[63] = info[63] & 0xE0 | value
    return True


def _states(port: Port, data: bytes, traps: Traps) -> bool:
    """PortState and PortPhysicalState. Source: IBA 7.2, 14.2.5.6; the value 2 (Initialize) is never valid in a Set."""
    wanted, physical = data[STATE_BYTE] & 0x0F, data[33] >> 4
    now = port.info[STATE_BYTE] & 0x0F
    if wanted > PortState.ACTIVE or wanted == PortState.INITIALIZE:
        return False
    if physical > PortPhysicalState.DISABLED or (physical and wanted > PortState.DOWN):
        return False
    if port.node.is_switch and port.number == 0:
        return True  # port 0 has no link: it is always Active
    if wanted in (PortState.ARMED, PortState.ACTIVE):
        # One step up from Initialize, or a state that is there already.
        if now == PortState.DOWN or wanted - now not in (0, 1):
            return False
        port.info[STATE_BYTE] = port.info[STATE_BYTE] & 0xF0 | wanted
        return True
    if wanted == PortState.DOWN or physical:
        _relink(port, physical, traps)
    return True


def _relink(port: Port, physical: int, traps: Traps) -> None:
    """Take the link down; unless it is told to stay there, hardware trains it again up to Initialize."""
    target = physical or links.physical_state(port)
    if target not in (PortPhysicalState.SLEEP, PortPhysicalState.DISABLED):
        target = PortPhysicalState.POLLING
    links.take_down(port, traps, target)
    links.bring_up(port, traps)
