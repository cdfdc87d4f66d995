"""Switching a node off and on: state in NV-RAM stays, most other state returns to its value after power-up."""

from __future__ import annotations

from typing import Final

from ibkeys.keys.pkey import DEFAULT_FULL
from ibkeys.mad.attributes import VIOLATION_COUNTERS, PortInfo, SwitchInfo
from ibkeys.mad.const import CapabilityMask
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.physical import links
from ibkeys.sim.traps import Traps

# A PortInfo bit that a Set writes at an external switch port, and the SwitchInfo capability that it needs.
ENFORCEMENT: Final = (
    (PortInfo.partition_enforcement_inbound, SwitchInfo.inbound_enforcement_cap),
    (PortInfo.partition_enforcement_outbound, SwitchInfo.outbound_enforcement_cap),
    (PortInfo.filter_raw_inbound, SwitchInfo.filter_raw_inbound_cap),
    (PortInfo.filter_raw_outbound, SwitchInfo.filter_raw_outbound_cap),
)
STORED_BY_SWITCHES: Final = (
    SwitchInfo.default_port,
    SwitchInfo.default_multicast_primary_port,
    SwitchInfo.default_multicast_not_primary_port,
    SwitchInfo.life_time_value,
    SwitchInfo.optimized_sl_to_vl_mapping_programming,
)
"""The fields that a switch stores from a Set without a check. A reset sets them to 0."""

_SUBNET_TIMEOUT: Final = 31
_KEY: Final = (PortInfo.m_key, PortInfo.m_key_lease_period, PortInfo.m_key_protect_bits)
_LOST_BY_END_PORTS: Final = (
    PortInfo.gid_prefix,
    PortInfo.lid,
    PortInfo.lmc,
    PortInfo.master_sm_lid,
    PortInfo.master_sm_sl,
    PortInfo.init_type,
    *VIOLATION_COUNTERS,
    PortInfo.client_reregister,
    PortInfo.multicast_p_key_trap_suppression_enabled,
)
_LOST_BY_EXTERNAL_PORTS: Final = tuple(bit for bit, _ in ENFORCEMENT)
_LOST_BY_SWITCHES: Final = (SwitchInfo.linear_fdb_top, *STORED_BY_SWITCHES, SwitchInfo.multicast_fdb_top)


def reset(node: SimNode, traps: Traps, p_key: int = DEFAULT_FULL) -> None:
    """Reset *node*: its links fall and train again up to Initialize, at both ends.

    End ports lose LID, LMC, MasterSMLID, GIDPrefix, SubnetTimeOut, further GUIDs and violation counts. Without
    IsMKeyNVRAM they lose the M_Key with ProtectBits and lease (IBA 14.2.4). Without IsPKeyNVRAM the P_Key tables have
    one entry then, *p_key*, which is 0xFFFF or 0x7FFF (IBA 10.9.2); the bit of a switch's port 0 is for all its ports.
    A switch also loses its forwarding tables and partition enforcement. Counters of the PMA return to 0. Enabled speeds
    and widths stay, because here they belong to the cable; the keys of other management classes and the virtual ports
    stay too. The caller must have ended a subnet manager on the node.
    """
    for port in node.all_ports:
        _reset_port(port, traps, p_key)
    if node.switch_info is not None:
        for row in _LOST_BY_SWITCHES:
            row.patch(node.switch_info, 0)
        SwitchInfo.port_state_change.patch(node.switch_info, 1)  # as after power-up
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


def _reset_port(port: SimPort, traps: Traps, p_key: int) -> None:
    info = port.info
    nv_ram = port.guard.capability_mask
    lost = [PortInfo.vl_high_limit]
    if not port.is_end_port:
        lost += _LOST_BY_EXTERNAL_PORTS
    else:
        lost += _LOST_BY_END_PORTS
        if not nv_ram & CapabilityMask.IS_M_KEY_NVRAM:
            lost += _KEY
        port.guids = None
        port.lease_deadline = port.last_trap = None
        traps.repeats.forget(port)
    for row in lost:
        row.patch(info, 0)
    if port.is_end_port:
        port.subnet_timeout = _SUBNET_TIMEOUT
    if not nv_ram & CapabilityMask.IS_P_KEY_NVRAM:
        port.p_key_bytes = None if p_key == DEFAULT_FULL else p_key.to_bytes(2)
    port.touch()
