"""Switching a node off and on: what is volatile returns to its state of power-up, what is in NV-RAM stays."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.const import CapabilityMask
from ibkeys.sim.nodes import CAPABILITY_MASK, KEY, LEASE_PERIOD, LID, PROTECT_BYTE, SM_LID, Node, Port
from ibkeys.sim.physical import links
from ibkeys.sim.traps import Traps

_SUBNET_TIMEOUT: Final = 31
_GID_PREFIX: Final = bytes(8)


def reset(node: Node, traps: Traps) -> None:
    """Reset *node*: its links fall and train again up to Initialize, at both ends.

    End ports lose LID, LMC, MasterSMLID, GIDPrefix, SubnetTimeOut, further GUIDs and violation counts; their M_Key with
    ProtectBits and lease unless IsMKeyNVRAM (IBA 14.2.4), their P_Keys unless IsPKeyNVRAM (IBA 10.9.2: one entry 0xFFFF
    is left). A switch loses its forwarding tables and partition enforcement too; its port 0 decides for all its ports.
    Counters of the PMA return to 0. Enabled speeds and widths stay: here they are the cable's. A subnet manager on the
    node was ended before.
    """
    for port in node.all_ports:
        _reset_port(port, traps)
    if node.switch_info is not None:
        node.switch_info[6:12] = bytes(5) + b"\x04"  # LinearFDBTop to LifeTimeValue; PortStateChange is latched
        node.switch_info[18:20] = bytes(2)
        node.routes = bytearray()
    node.tables = None
    node.touch()
    node.ports[0].record("reset")
    for port in node.all_ports:
        if port.peer is not None:
            links.take_down(port, traps)
            links.bring_up(port, traps)
    for port in node.all_ports:
        port.counters = None


def _reset_port(port: Port, traps: Traps) -> None:
    info = port.info
    nv_ram = int.from_bytes(port.guard.info[CAPABILITY_MASK])
    if port.is_end_port:
        if not nv_ram & CapabilityMask.IS_M_KEY_NVRAM:
            info[KEY] = bytes(8)
            info[LEASE_PERIOD] = bytes(2)
            info[PROTECT_BYTE] &= 0x3F
        info[8:16] = _GID_PREFIX
        info[LID] = info[SM_LID] = bytes(2)
        info[PROTECT_BYTE] &= 0xF8  # LMC
        info[36] &= 0xF0  # MasterSMSL
        info[37] &= 0xF0  # InitType
        info[44:50] = bytes(6)  # M_KeyViolations, P_KeyViolations, Q_KeyViolations
        info[51] = _SUBNET_TIMEOUT
        port.guids = None
        port.lease_deadline = port.last_trap = None
        traps.repeats.forget(port)
    else:
        info[43] &= 0xF0  # partition enforcement and raw filters
    info[38] = 0  # VLHighLimit
    if not nv_ram & CapabilityMask.IS_P_KEY_NVRAM:
        port.p_key_bytes = None
    port.touch()
