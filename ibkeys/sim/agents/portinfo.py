"""Applying a Set(PortInfo) to a port (IBA 14.2.5.6).

Valid fields are applied even if another field is invalid. The reply then has status 0x1C and the resulting PortInfo
(Linux qib SMA). The table of PortInfo in the standard shows which fields are for end ports, and which are for external
ports of switches.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ibkeys.mad.attributes import VIOLATION_COUNTERS, PortInfo, SwitchInfo
from ibkeys.mad.const import MAX_UNICAST_LID, CapabilityMask, NodeType, PortPhysicalState, PortState
from ibkeys.mad.fields import NumberRow
from ibkeys.sim.nodes import KEY, LID, SimPort
from ibkeys.sim.physical import links
from ibkeys.sim.physical.power import ENFORCEMENT
from ibkeys.sim.traps import Traps

_DISABLE_EXTENDED: Final = 30
_ALL_EXTENDED: Final = 31


_ALL_WIDTHS: Final = 0xFF
_ALL_SPEEDS: Final = 0x0F
_STORED: Final = (PortInfo.vl_high_limit, PortInfo.local_phy_errors, PortInfo.overrun_errors)
"""The fields that every port stores from a Set without a check."""
_STORED_BY_END_PORTS: Final = (
    PortInfo.m_key_lease_period,
    PortInfo.m_key_protect_bits,
    PortInfo.init_type,
    PortInfo.subnet_timeout,
)
_GID_PREFIX: Final = PortInfo.gid_prefix.span
_SM_LID: Final = PortInfo.master_sm_lid.span
_OF_ONE_PORT: Final = PortInfo.capability_mask.byte
"""The length of the first part of PortInfo: M_Key, GIDPrefix, LID and MasterSMLID. Many ports have equal second
parts."""
_ENFORCED_BY_ROUTERS: Final = (PortInfo.partition_enforcement_inbound, PortInfo.partition_enforcement_outbound)


def apply(port: SimPort, data: bytes, traps: Traps) -> bool:
    """Apply the attribute *data* of a Set to *port*; return whether every field was valid. *traps*: sends traps about
    the link."""
    node, info = port.node, port.info
    switch_info = None if node.switch_info is None else bytes(node.switch_info)
    valid, has_sm_lid = _apply_own_fields(info, data) if port.is_end_port else (True, False)
    before, kind = bytes(info[_OF_ONE_PORT:]), (node.node_type, port.number == 0)
    info[_OF_ONE_PORT:], others_valid = _other_fields(before, data[_OF_ONE_PORT:], *kind, has_sm_lid, switch_info)
    valid &= others_valid & _apply_states(port, data, traps)
    port.touch(reroutes=False)
    return valid


def _apply_own_fields(info: bytearray, data: bytes) -> tuple[bool, bool]:
    """Apply the first part of PortInfo, which only end ports have. Return whether all its fields are valid, and whether
    MasterSMLID is."""
    info[KEY], info[_GID_PREFIX] = data[KEY], data[_GID_PREFIX]
    has_lid = 0 < PortInfo.lid.decode(data) <= MAX_UNICAST_LID
    if has_lid:
        info[LID] = data[LID]
    has_sm_lid = 0 < PortInfo.master_sm_lid.decode(data) <= MAX_UNICAST_LID
    if has_sm_lid:
        info[_SM_LID] = data[_SM_LID]
    return has_lid and has_sm_lid, has_sm_lid


@lru_cache(maxsize=1024)
def _other_fields(
    before: bytes, data: bytes, node_type: int, is_port_0: bool, has_sm_lid: bool, switch_info: bytes | None
) -> tuple[bytes, bool]:
    """Return the second part of a PortInfo after a Set, and whether its fields in the Set were valid. PortState and
    PortPhysicalState are left to `_apply_states`.

    *before*: this part before the Set; *data*: this part in the Set. *has_sm_lid*: whether MasterSMLID was valid.
    *switch_info*: the SwitchInfo of a switch, else None. The result is cached, because a subnet manager sets most ports
    to the same values. No M_Key gets into the cache.
    """
    info, requested = bytearray(_OF_ONE_PORT) + before, PortInfo(bytes(_OF_ONE_PORT) + data)
    data = requested.raw
    is_switch = node_type == NodeType.SWITCH
    valid = _apply_link_fields(info, requested)
    if is_port_0 or not is_switch:
        valid &= _apply_end_port_fields(info, requested, has_sm_lid, switch_info)
    has_link = not (is_switch and is_port_0)
    if has_link and node_type != NodeType.CA:
        PortInfo.hoq_life.copy(data, info)
        if is_switch:
            PortInfo.vl_stall_count.copy(data, info)
    if has_link and switch_info is not None:
        for bit, capability in ENFORCEMENT:
            bit.patch(info, bit.decode(data) & capability.decode(switch_info))
    elif node_type == NodeType.ROUTER and any(bit.decode(info) for bit in _ENFORCED_BY_ROUTERS):
        # No field shows whether a router can enforce, so a port that enforces already counts as able to.
        for bit in _ENFORCED_BY_ROUTERS:
            bit.copy(data, info)
    return bytes(info[_OF_ONE_PORT:]), valid


def _apply_end_port_fields(info: bytearray, requested: PortInfo, has_sm_lid: bool, switch_info: bytes | None) -> bool:
    data = requested.raw
    for row in _STORED_BY_END_PORTS:
        row.copy(data, info)
    # A base switch port 0 has only one LID.
    has_one_lid = switch_info is not None and not SwitchInfo.enhanced_port0.decode(switch_info)
    valid = _store_if_valid(info, requested, not (requested.lmc and has_one_lid), PortInfo.lmc)
    _store_if_valid(info, requested, has_sm_lid, PortInfo.master_sm_sl)
    for row in VIOLATION_COUNTERS:
        if not row.decode(data):
            row.copy(data, info)
    PortInfo.client_reregister.patch(info, 0)  # It is a request to the port, and not stored.
    suppression = PortInfo.multicast_p_key_trap_suppression_enabled
    if PortInfo.capability_mask.decode(info) & CapabilityMask.IS_MULTICAST_P_KEY_TRAP_SUPPRESSION_SUPPORTED:
        suppression.copy(data, info)
    else:
        suppression.patch(info, 0)
    return valid


def _apply_link_fields(info: bytearray, requested: PortInfo) -> bool:
    data, current = requested.raw, PortInfo(bytes(info))
    valid = _enable(
        info, PortInfo.link_width_enabled, requested.link_width_enabled, current.link_width_supported, _ALL_WIDTHS
    )
    valid &= _enable(
        info, PortInfo.link_speed_enabled, requested.link_speed_enabled, current.link_speed_supported, _ALL_SPEEDS
    )
    valid &= _enable_extended_speed(info, requested.link_speed_ext_enabled, current.link_speed_ext_supported)
    if down := requested.link_down_default_state:
        is_state = down in (PortPhysicalState.SLEEP, PortPhysicalState.POLLING)
        valid &= _store_if_valid(info, requested, is_state, PortInfo.link_down_default_state)
    valid &= _store_if_valid(info, requested, 1 <= requested.neighbor_mtu <= current.mtu_cap, PortInfo.neighbor_mtu)
    if requested.operational_vls:
        valid &= _store_if_valid(info, requested, requested.operational_vls <= current.vl_cap, PortInfo.operational_vls)
    for row in _STORED:
        row.copy(data, info)
    return valid


def _store_if_valid(info: bytearray, requested: PortInfo, is_valid: bool, row: NumberRow) -> bool:
    """Store the field *row* of *requested* in *info* if *is_valid*, and return *is_valid*."""
    if is_valid:
        row.copy(requested.raw, info)
    return is_valid


def _enable(info: bytearray, enabled: NumberRow, value: int, supported: int, all_bits: int) -> bool:
    """Write the bits of *value*, widths or speeds, to the field *enabled*; return False if the port does not support
    them.

    0 changes nothing; *all_bits* enables all that are supported.
    """
    if value == all_bits:
        value = supported
    if value & ~supported:
        return False
    if value:
        enabled.patch(info, value)
    return True


def _enable_extended_speed(info: bytearray, value: int, supported: int) -> bool:
    if value in (0, _ALL_EXTENDED) and not (value and supported):
        return True
    if value == _DISABLE_EXTENDED:
        value = 0
    elif value == _ALL_EXTENDED:
        value = supported
    if value & ~supported:
        return False
    PortInfo.link_speed_ext_enabled.patch(info, value)
    return True


def _apply_states(port: SimPort, data: bytes, traps: Traps) -> bool:
    """Apply PortState and PortPhysicalState of *data* to *port*, and return whether they are valid (IBA 7.2,
    14.2.5.6).

    The value 2 (Initialize) of PortState is never valid in a Set.
    """
    requested, physical = PortInfo.port_state.decode(data), PortInfo.port_physical_state.decode(data)
    current = port.state
    if requested > PortState.ACTIVE or requested == PortState.INITIALIZE:
        return False
    if physical > PortPhysicalState.DISABLED or (physical and requested > PortState.DOWN):
        return False
    if port.node.is_switch and port.number == 0:
        return True  # Port 0 has no link and is always Active.
    if requested in (PortState.ARMED, PortState.ACTIVE):
        # Valid is the next state after the current one, or the current state.
        if current == PortState.DOWN or requested - current not in (0, 1):
            return False
        PortInfo.port_state.patch(port.info, requested)
        return True
    if requested == PortState.DOWN or physical:
        _retrain(port, physical, traps)
    return True


def _retrain(port: SimPort, physical: int, traps: Traps) -> None:
    """Take the link down; then let it train up to Initialize, unless *physical* or the current physical state is Sleep
    or Disabled. *physical*: the PortPhysicalState in the Set, 0 for no change."""
    target = physical or port.physical_state
    if target not in (PortPhysicalState.SLEEP, PortPhysicalState.DISABLED):
        target = PortPhysicalState.POLLING
    links.take_down(port, traps, target)
    links.bring_up(port, traps)
