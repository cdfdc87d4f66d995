"""The attributes of subnet management, and ClassPortInfo, as tables of fields.

Source of every offset: IBA volume 1, the section named in each class; checked against libibmad's field table.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad.const import AttributeID
from ibkeys.mad.fields import Layout, array, field, text

_TIME: Final = "4.096 us * 2^n"


class Attribute(Layout):
    """An attribute of 64 bytes, as in an SMP."""

    size = 64


class NodeDescription(Attribute):
    """NodeDescription (IBA 14.2.5.2). AttributeModifier: 0."""

    name = "NodeDescription"
    attribute_id = AttributeID.NODE_DESCRIPTION
    #                   name       byte size
    node_description = text("NodeString", 0, 64)


class NodeInfo(Attribute):
    """NodeInfo (IBA 14.2.5.3). AttributeModifier: 0.

    On a CA or router, PortGUID and LocalPortNum are those of the port at which the SMP arrived. On a switch, PortGUID
    is that of port 0, and LocalPortNum is the port at which the SMP arrived.
    """

    name = "NodeInfo"
    attribute_id = AttributeID.NODE_INFO
    # fmt: off
    #                         name             byte width
    base_version      = field("BaseVersion",      0,  8)
    class_version     = field("ClassVersion",     1,  8)
    node_type         = field("NodeType",         2,  8)
    num_ports         = field("NumPorts",         3,  8)
    system_image_guid = field("SystemImageGUID",  4, 64, hex=True)
    node_guid         = field("NodeGUID",        12, 64, hex=True)
    port_guid         = field("PortGUID",        20, 64, hex=True)
    partition_cap     = field("PartitionCap",    28, 16)
    device_id         = field("DeviceID",        30, 16)
    revision          = field("Revision",        32, 32)
    local_port_num    = field("LocalPortNum",    36,  8)
    vendor_id         = field("VendorID",        37, 24)
    # fmt: on


class SwitchInfo(Attribute):
    """SwitchInfo (IBA 14.2.5.4). AttributeModifier: 0. Switches only."""

    name = "SwitchInfo"
    attribute_id = AttributeID.SWITCH_INFO
    # fmt: off
    #                                              name                               byte width
    linear_fdb_cap                         = field("LinearFDBCap",                       0, 16)
    random_fdb_cap                         = field("RandomFDBCap",                       2, 16)
    multicast_fdb_cap                      = field("MulticastFDBCap",                    4, 16)
    linear_fdb_top                         = field("LinearFDBTop",                       6, 16)
    default_port                           = field("DefaultPort",                        8,  8)
    default_multicast_primary_port         = field("DefaultMulticastPrimaryPort",        9,  8)
    default_multicast_not_primary_port     = field("DefaultMulticastNotPrimaryPort",    10,  8)
    life_time_value                        = field("LifeTimeValue",                     11,  5)
    port_state_change                      = field("PortStateChange",                   11,  1, bit=5)
    optimized_sl_to_vl_mapping_programming = field("OptimizedSLtoVLMappingProgramming", 11,  2, bit=6)
    lids_per_port                          = field("LIDsPerPort",                       12, 16)
    partition_enforcement_cap              = field("PartitionEnforcementCap",           14, 16)
    inbound_enforcement_cap                = field("InboundEnforcementCap",             16,  1)
    outbound_enforcement_cap               = field("OutboundEnforcementCap",            16,  1, bit=1)
    filter_raw_inbound_cap                 = field("FilterRawInboundCap",               16,  1, bit=2)
    filter_raw_outbound_cap                = field("FilterRawOutboundCap",              16,  1, bit=3)
    enhanced_port0                         = field("EnhancedPort0",                     16,  1, bit=4)
    multicast_fdb_top                      = field("MulticastFDBTop",                   18, 16)
    # fmt: on


class GUIDInfo(Attribute):
    """GUIDInfo (IBA 14.2.5.5). AttributeModifier: the number of a block of 8 GUIDs. Entry 0 of block 0 is read-only."""

    name = "GUIDInfo"
    attribute_id = AttributeID.GUID_INFO
    guids = array("GUIDBlock", 0, 64, 8, hex=True)


class PortInfo(Attribute):
    """PortInfo (IBA 14.2.5.6). AttributeModifier: the port number; on a CA, 0 is the port at which the SMP arrived.

    Byte 56 has the speeds above NDR in newer devices (`SpeedsAboveNdr`). It has no row here, so `replace` never changes
    it.
    """

    name = "PortInfo"
    attribute_id = AttributeID.PORT_INFO
    # fmt: off
    #                                                name                                 byte width
    m_key                                    = field("M_Key",                                0, 64, secret=True)
    gid_prefix                               = field("GIDPrefix",                            8, 64, hex=True)
    lid                                      = field("LID",                                 16, 16)
    master_sm_lid                            = field("MasterSMLID",                         18, 16)
    capability_mask                          = field("CapabilityMask",                      20, 32)
    diag_code                                = field("DiagCode",                            24, 16)
    m_key_lease_period                       = field("M_KeyLeasePeriod",                    26, 16, unit="s")
    local_port_num                           = field("LocalPortNum",                        28,  8)
    link_width_enabled                       = field("LinkWidthEnabled",                    29,  8)
    link_width_supported                     = field("LinkWidthSupported",                  30,  8)
    link_width_active                        = field("LinkWidthActive",                     31,  8)
    link_speed_supported                     = field("LinkSpeedSupported",                  32,  4)
    port_state                               = field("PortState",                           32,  4, bit=4)
    port_physical_state                      = field("PortPhysicalState",                   33,  4)
    link_down_default_state                  = field("LinkDownDefaultState",                33,  4, bit=4)
    m_key_protect_bits                       = field("M_KeyProtectBits",                    34,  2)
    lmc                                      = field("LMC",                                 34,  3, bit=5)
    link_speed_active                        = field("LinkSpeedActive",                     35,  4)
    link_speed_enabled                       = field("LinkSpeedEnabled",                    35,  4, bit=4)
    neighbor_mtu                             = field("NeighborMTU",                         36,  4)
    master_sm_sl                             = field("MasterSMSL",                          36,  4, bit=4)
    vl_cap                                   = field("VLCap",                               37,  4)
    init_type                                = field("InitType",                            37,  4, bit=4)
    vl_high_limit                            = field("VLHighLimit",                         38,  8)
    vl_arbitration_high_cap                  = field("VLArbitrationHighCap",                39,  8)
    vl_arbitration_low_cap                   = field("VLArbitrationLowCap",                 40,  8)
    init_type_reply                          = field("InitTypeReply",                       41,  4)
    mtu_cap                                  = field("MTUCap",                              41,  4, bit=4)
    vl_stall_count                           = field("VLStallCount",                        42,  3)
    hoq_life                                 = field("HOQLife",                             42,  5, bit=3)
    operational_vls                          = field("OperationalVLs",                      43,  4)
    partition_enforcement_inbound            = field("PartitionEnforcementInbound",         43,  1, bit=4)
    partition_enforcement_outbound           = field("PartitionEnforcementOutbound",        43,  1, bit=5)
    filter_raw_inbound                       = field("FilterRawInbound",                    43,  1, bit=6)
    filter_raw_outbound                      = field("FilterRawOutbound",                   43,  1, bit=7)
    m_key_violations                         = field("M_KeyViolations",                     44, 16)
    p_key_violations                         = field("P_KeyViolations",                     46, 16)
    q_key_violations                         = field("Q_KeyViolations",                     48, 16)
    guid_cap                                 = field("GUIDCap",                             50,  8)
    client_reregister                        = field("ClientReregister",                    51,  1)
    multicast_p_key_trap_suppression_enabled = field("MulticastPKeyTrapSuppressionEnabled", 51,  2, bit=1)
    subnet_timeout                           = field("SubnetTimeOut",                       51,  5, bit=3, unit=_TIME)
    resp_time_value                          = field("RespTimeValue",                       52,  5, bit=3, unit=_TIME)
    local_phy_errors                         = field("LocalPhyErrors",                      53,  4)
    overrun_errors                           = field("OverrunErrors",                       53,  4, bit=4)
    max_credit_hint                          = field("MaxCreditHint",                       54, 16)
    link_round_trip_latency                  = field("LinkRoundTripLatency",                57, 24)
    capability_mask2                         = field("CapabilityMask2",                     60, 16)
    link_speed_ext_active                    = field("LinkSpeedExtActive",                  62,  4)
    link_speed_ext_supported                 = field("LinkSpeedExtSupported",               62,  4, bit=4)
    link_speed_ext_enabled                   = field("LinkSpeedExtEnabled",                 63,  5, bit=3)
    # fmt: on


VIOLATION_COUNTERS: Final = (PortInfo.m_key_violations, PortInfo.p_key_violations, PortInfo.q_key_violations)
"""The fields that count packets with a wrong key. A Set with 0 clears a counter; any other value leaves it."""


def counted_violations(info: PortInfo) -> dict[str, int]:
    """Return the violation counters of a PortInfo that are not 0, by the Python name of the field."""
    return {row.attr: count for row in VIOLATION_COUNTERS if (count := row.decode(info.raw))}


class SpeedsAboveNdr(Layout):
    """The fields of a PortInfo for speeds above NDR, all in byte 56. Source: libibmad's field table."""

    size = PortInfo.size
    # fmt: off
    #                                 name                  byte width
    link_speed_ext_active2    = field("LinkSpeedExtActive2",    56, 2, bit=1)
    link_speed_ext_supported2 = field("LinkSpeedExtSupported2", 56, 2, bit=3)
    link_speed_ext_enabled2   = field("LinkSpeedExtEnabled2",   56, 3, bit=5)
    # fmt: on


class PKeyTable(Attribute):
    """One block of P_KeyTable (IBA 14.2.5.7).

    AttributeModifier: the number of the block in bits 15..0, and on a switch the port in bits 31..16. A CA or router
    ignores the port bits and answers for the port at which the SMP arrived.
    """

    name = "P_KeyTable"
    attribute_id = AttributeID.P_KEY_TABLE
    p_keys = array("P_KeyBlock", 0, 16, 32, hex=True)


class LinearForwardingTable(Attribute):
    """One block of LinearForwardingTable (IBA 14.2.5.10): the egress port for each of 64 LIDs. AttributeModifier: the
    number of the block.
    """

    name = "LinearForwardingTable"
    attribute_id = AttributeID.LINEAR_FORWARDING_TABLE
    ports = array("PortBlock", 0, 8, 64)


class SMInfo(Attribute):
    """SMInfo (IBA 14.2.5.13). The subnet manager of the port answers it, not the SMA. AttributeModifier: 0 in a Get."""

    name = "SMInfo"
    attribute_id = AttributeID.SM_INFO
    # fmt: off
    #                 name      byte width
    guid      = field("GUID",      0, 64, hex=True)
    sm_key    = field("SM_Key",    8, 64, secret=True)
    act_count = field("ActCount", 16, 32)
    priority  = field("Priority", 20,  4)
    sm_state  = field("SMState",  20,  4, bit=4)
    # fmt: on


class ClassPortInfo(Layout):
    """ClassPortInfo (IBA 13.4.8.1), an attribute of the GMP classes: 72 bytes."""

    size = 72
    name = "ClassPortInfo"
    # fmt: off
    #                        name             byte width
    base_version     = field("BaseVersion",      0,   8)
    class_version    = field("ClassVersion",     1,   8)
    capability_mask  = field("CapabilityMask",   2,  16)
    capability_mask2 = field("CapabilityMask2",  4,  27)
    resp_time_value  = field("RespTimeValue",    7,   5, bit=3, unit=_TIME)
    redirect_gid     = field("RedirectGID",      8, 128, hex=True)
    redirect_tc      = field("RedirectTC",      24,   8)
    redirect_sl      = field("RedirectSL",      25,   4)
    redirect_fl      = field("RedirectFL",      25,  20, bit=4)
    redirect_lid     = field("RedirectLID",     28,  16)
    redirect_p_key   = field("RedirectP_Key",   30,  16, hex=True)
    redirect_qp      = field("RedirectQP",      33,  24)
    redirect_q_key   = field("RedirectQ_Key",   36,  32, hex=True)
    trap_gid         = field("TrapGID",         40, 128, hex=True)
    trap_tc          = field("TrapTC",          56,   8)
    trap_sl          = field("TrapSL",          57,   4)
    trap_fl          = field("TrapFL",          57,  20, bit=4)
    trap_lid         = field("TrapLID",         60,  16)
    trap_p_key       = field("TrapP_Key",       62,  16, hex=True)
    trap_hl          = field("TrapHL",          64,   8)
    trap_qp          = field("TrapQP",          65,  24)
    trap_q_key       = field("TrapQ_Key",       68,  32, hex=True)
    # fmt: on
