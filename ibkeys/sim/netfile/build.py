"""Building nodes and ports from the records of a fabric, in the state in which a subnet manager leaves them.

Values that a net file does not have are those of ibsim, so that tools get the same answers from both. The exceptions
are values that ibsim does not simulate: the capabilities of enforcement and of trap 259 are those of real switches, and
the M_Key lease period is 0 at the start. Values that were read from a node or port replace all of these.
"""

from __future__ import annotations

from typing import Final, Literal

from ibkeys.mad.attributes import PortInfo, SpeedsAboveNdr, SwitchInfo
from ibkeys.mad.const import MAX_UNICAST_LID, CapabilityMask, CapabilityMask2, PortPhysicalState, PortState
from ibkeys.sim.agents import extended_port_info
from ibkeys.sim.history import SimHistory
from ibkeys.sim.netfile.model import FileNode, FilePort, NetFile, RecordedPortValues
from ibkeys.sim.nodes import ClassAgent, SimNode, SimPort
from ibkeys.sim.physical.links import negotiate

PortGuids = Literal["file", "ibsim"]
InitialState = Literal["active", "initialize"]

ENFORCEMENT_P_KEYS: Final = 64
LINEAR_FDB_CAP: Final = 30720
LARGE_LINEAR_FDB_CAP: Final = 0xC000
MULTICAST_FDB_CAP: Final = 1024
GID_PREFIX: Final = 0xFE80_0000_0000_0000
SM_SUBNET_TIMEOUT: Final = 18

_COMMON: Final = PortInfo.new(
    link_width_supported=0x1F,
    link_speed_supported=7,
    link_down_default_state=2,
    vl_cap=4,
    vl_arbitration_high_cap=8,
    vl_arbitration_low_cap=8,
    operational_vls=4,
)
_CA_PORT: Final = _COMMON.replace(
    capability_mask=0x0050C048,
    capability_mask2=0x30,
    neighbor_mtu=4,
    mtu_cap=4,
    vl_stall_count=7,
    guid_cap=32,
    subnet_timeout=31,
)
_SWITCH_PORT0: Final = _COMMON.replace(
    capability_mask=0x0000D048,
    capability_mask2=0x30,
    neighbor_mtu=1,
    mtu_cap=3,
    guid_cap=1,
    subnet_timeout=31,
    resp_time_value=8,
    port_state=4,
    port_physical_state=5,
)
_EXTERNAL_PORT: Final = _COMMON.replace(neighbor_mtu=4, mtu_cap=4, vl_stall_count=7)
_IS_CAPABILITY_MASK_NOTICE_SUPPORTED: Final = 1 << 22
# Plain numbers, because operations on the enums would take more time than all other work for a port.
_HAS_MASK2: Final = int(CapabilityMask.IS_CAPABILITY_MASK2_SUPPORTED)
_NDR: Final = int(CapabilityMask2.IS_LINK_SPEED_NDR_SUPPORTED)
_DOWN: Final = int(PortState.DOWN)
_POLLING: Final = int(PortPhysicalState.POLLING)
_LINK_UP: Final = int(PortPhysicalState.LINK_UP)

NEVER_ZERO: Final = (
    PortInfo.link_width_supported,
    PortInfo.link_width_enabled,
    PortInfo.link_width_active,
    PortInfo.link_speed_supported,
    PortInfo.link_speed_enabled,
    PortInfo.link_speed_active,
    PortInfo.link_down_default_state,
    PortInfo.neighbor_mtu,
    PortInfo.mtu_cap,
    PortInfo.vl_cap,
    PortInfo.operational_vls,
)
"""The fields that are never 0 in a real port (IBA 14.2.5.6). A 0 means that the source did not have the field."""

#             LinkSpeedEnabled, LinkSpeedExtSupported, LinkSpeedExtEnabled
_SPEEDS: Final = {
    "SDR": (1, 0, 0),
    "DDR": (3, 0, 0),
    "QDR": (7, 0, 0),
    "FDR10": (7, 0, 0),
    "FDR": (7, 7, 1),
    "EDR": (7, 7, 3),
    "HDR": (7, 7, 7),
    "NDR": (7, 15, 15),
    "XDR": (7, 15, 15),
}
_WIDTHS: Final = {1: 1, 2: 17, 4: 3, 8: 7, 12: 11}


def build(history: SimHistory, file: NetFile, port_guids: PortGuids, link_state: InitialState | None) -> list[SimNode]:
    """Return the nodes of *file*, with their cables. *link_state*: the state of the links; None: as it was read, else
    active."""
    nodes = [_build_node(history, index, record, port_guids) for index, record in enumerate(file.nodes)]
    state = int(PortState.INITIALIZE if link_state == "initialize" else PortState.ACTIVE)
    for (a, p), (b, q) in file.links:
        port, peer = nodes[a].ports[p], nodes[b].ports[q]
        port.peer = port.first_peer = peer
        peer.peer = peer.first_peer = port
        negotiate(port, peer)
        for end in (port, peer):
            end.set_states(state, _LINK_UP)
    read_ports = _apply_readings(nodes, file, state if link_state is not None else None)
    if link_state != "initialize":
        _configure_as_sm(nodes, read_ports)
    _set_fdb_capacities(nodes, file, link_state)
    return nodes


def _build_node(history: SimHistory, index: int, record: FileNode, port_guids: PortGuids) -> SimNode:
    node = SimNode(
        history,
        index,
        record.node_id,
        record.node_type,
        record.num_ports,
        record.guid,
        record.system_image_guid,
        record.description,
        record.vendor_id,
        record.device_id,
    )
    if record.revision is not None:
        node.revision = record.revision
    if record.partition_cap is not None:
        node.partition_capacity = record.partition_cap
    if node.is_switch:
        node.enforcement_capacity = ENFORCEMENT_P_KEYS
        node.switch_info = bytearray(
            SwitchInfo.new(
                multicast_fdb_cap=MULTICAST_FDB_CAP,
                partition_enforcement_cap=ENFORCEMENT_P_KEYS,
                inbound_enforcement_cap=1,
                outbound_enforcement_cap=1,
                filter_raw_inbound_cap=1,
                filter_raw_outbound_cap=1,
                enhanced_port0=record.enhanced_port0,
            ).raw
        )
        if record.switch_info is not None:
            node.switch_info[:] = record.switch_info
            node.enforcement_capacity = SwitchInfo.partition_enforcement_cap.decode(node.switch_info)
        port0 = _SWITCH_PORT0.replace(lid=record.lid, lmc=record.lmc if record.enhanced_port0 else 0)
        guid0 = record.port0_guid if port_guids == "file" and record.port0_guid is not None else node.guid
        node.ports.append(SimPort(node, 0, guid0, bytearray(_with_rate(port0, None, record.defaults))))
        template = _EXTERNAL_PORT
    else:
        template = _CA_PORT
    shared: dict[object, bytes] = {}
    for number in range(1, record.num_ports + 1):
        line = record.ports.get(number)
        guid = node.guid if node.is_switch else node.guid + number & (1 << 64) - 1
        if line is None:
            if "unlisted" not in shared:
                unused = template.replace(local_phy_errors=4) if node.is_switch else template
                shared["unlisted"] = _down(_with_rate(unused, None, record.defaults))
            info = shared["unlisted"]
        else:
            if line.guid is not None and port_guids == "file" and not node.is_switch:
                guid = line.guid
            info = _port_info_of_line(template, line, shared, node.is_switch)
        node.ports.append(SimPort(node, number, guid, bytearray(info)))
        if line is not None and line.speed == "FDR10":
            extended_port_info.run_at_fdr10(node.ports[-1])
    if not node.is_switch:
        node.ports.insert(0, node.ports[0])
    return node


def _port_info_of_line(template: PortInfo, line: FilePort, shared: dict[object, bytes], on_switch: bool) -> bytes:
    rate = (line.width, line.speed, *sorted(line.enabled.items()))
    info = shared.get(rate)
    if info is None:
        info = shared[rate] = _down(_with_rate(template, line, line.enabled))
    if on_switch:
        return info
    if line.remote is None and not line.remote_alias:
        return info
    # In ibsim a port with a cable has IsCapabilityMaskNoticeSupported (trap 144), a port without a cable does not.
    return PortInfo(info).replace(lid=line.lid, lmc=line.lmc, capability_mask=_CA_PORT.capability_mask).raw


def _down(info: bytes) -> bytes:
    up = PortInfo(info)
    down = up.replace(
        port_state=_DOWN,
        port_physical_state=_POLLING,
        capability_mask=up.capability_mask & ~_IS_CAPABILITY_MASK_NOTICE_SUPPORTED,
    )
    return down.raw


def _with_rate(info: PortInfo, line: FilePort | None, enabled: dict[str, int]) -> bytes:
    width = _WIDTHS.get(line.width, 2) if line else 2
    speed, supported, extended = _SPEEDS.get(line.speed, (1, 0, 0)) if line else (1, 0, 0)
    rated = info.replace(
        link_width_enabled=enabled.get("w", width),
        link_width_active=2,
        link_speed_enabled=enabled.get("s", speed),
        link_speed_active=1,
        link_speed_ext_supported=supported,
        link_speed_ext_enabled=enabled.get("e", extended),
    )
    if line is None or line.speed not in ("NDR", "XDR"):
        return rated.raw
    if rated.capability_mask & _HAS_MASK2:
        rated = rated.replace(capability_mask2=rated.capability_mask2 | _NDR)
    if line.speed == "XDR":
        return SpeedsAboveNdr(rated.raw).replace(link_speed_ext_supported2=1, link_speed_ext_enabled2=1).raw
    return rated.raw


def _apply_readings(nodes: list[SimNode], file: NetFile, state: int | None) -> set[SimPort]:
    """Replace the default values of ports by those in the readings of *file*; return the ports whose PortInfo was read.

    *state*: the PortState for links that are up; None: as it was read.
    """
    read_ports = set()
    for node, record in zip(nodes, file.nodes, strict=True):
        for number, line in record.ports.items():
            if line.readings is None:
                continue
            port, info = node.ports[number], line.readings.port_info
            _apply_tables(port, line.readings)
            if info is not None:
                port.info[:] = _fill_zeros(info, bytes(port.info)) if line.readings.is_partial else info
                read_ports.add(port)
                if state is not None and port.peer is not None and port.state != _DOWN:
                    port.state = state
    return read_ports


def _fill_zeros(info: bytes, defaults: bytes) -> bytes:
    """Return *info*, in which the fields of `NEVER_ZERO` that are 0 are replaced by those of *defaults*."""
    filled = bytearray(info)
    for row in NEVER_ZERO:
        if not row.decode(info):
            row.copy(defaults, filled)
    return bytes(filled)


def _apply_tables(port: SimPort, readings: RecordedPortValues) -> None:
    if readings.p_key_table is not None:
        port.p_key_bytes = readings.p_key_table
    port.guids = readings.guids
    port.virtualization = readings.virtualization
    for name, count in readings.counters.items():
        port.count(name, count)
    if readings.class_keys:
        port.class_agents = {
            int(of.mgmt_class): ClassAgent(bytearray(info), of.capability) for of, info in readings.class_keys.items()
        }


def _configure_as_sm(nodes: list[SimNode], read_ports: set[SimPort]) -> None:
    """Set the values that a subnet manager sets: GIDPrefix, SubnetTimeOut, MasterSMLID, and a LID for each end port
    without a valid one. Ports in *read_ports* keep their values.
    """
    used_lids: dict[int, SimPort] = {}
    without_lid: list[SimPort] = []
    for port in read_ports:
        if port.is_end_port and port.lid:
            used_lids.update(dict.fromkeys(range(port.lid, port.lid + (1 << port.lmc)), port))
    for node in nodes:
        for port in node.end_ports:
            if port not in read_ports and (node.is_switch or port.peer is not None):
                port.gid_prefix, port.subnet_timeout = GID_PREFIX, SM_SUBNET_TIMEOUT
                lids = range(port.lid, port.lid + (1 << port.lmc))
                if port.lid == 0 or lids.stop - 1 > MAX_UNICAST_LID or any(lid in used_lids for lid in lids):
                    without_lid.append(port)
                else:
                    used_lids.update(dict.fromkeys(lids, port))
    next_lid = 1
    for port in without_lid:
        size = 1 << port.lmc
        while any(lid in used_lids for lid in range(next_lid, next_lid + size)):
            next_lid += 1
        port.lid = next_lid if next_lid + size - 1 <= MAX_UNICAST_LID else 0
        used_lids.update(dict.fromkeys(range(next_lid, next_lid + size), port))
    # The SM that set these values has ended, and nothing answers SMInfo there. MasterSMLID is the one that the file
    # has, else the LID of the first end port with a LID.
    sm_lids = (port.sm_lid for port in read_ports if port.is_end_port)
    master = max(sm_lids, default=0) or next((port.lid for port in used_lids.values()), 0)
    for port in used_lids.values():
        if port not in read_ports:
            port.sm_lid = master


def _set_fdb_capacities(nodes: list[SimNode], file: NetFile, link_state: InitialState | None) -> None:
    top = max((port.lid + (1 << port.lmc) - 1 for node in nodes for port in node.end_ports), default=0)
    capacity = LINEAR_FDB_CAP if top < LINEAR_FDB_CAP else LARGE_LINEAR_FDB_CAP
    for node, record in zip(nodes, file.nodes, strict=True):
        if node.switch_info is None:
            continue
        if record.switch_info is None:
            SwitchInfo.linear_fdb_cap.patch(node.switch_info, capacity)
        # The first routes lead to every LID. A file may have a lower LinearFDBTop, where it does not have every LID.
        if link_state != "initialize" and SwitchInfo.linear_fdb_top.decode(node.switch_info) < top:
            SwitchInfo.linear_fdb_top.patch(node.switch_info, top)
        if link_state == "initialize":
            SwitchInfo.port_state_change.patch(node.switch_info, 1)  # as after power-up
            node.routes = bytearray()
