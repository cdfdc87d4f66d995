"""The attributes of virtual ports, which NVIDIA's adapters have behind a physical port.

SMPs to the physical port read them. The AttributeModifier that selects a virtual port is not publicly known. So ibkeys
reads only VirtualizationInfo (modifier 0), and can only decode the other attributes. Source of every offset: NVIDIA's
ib_types.h of 2025, compiled.
"""

from __future__ import annotations

from ibkeys.mad.attributes import Attribute
from ibkeys.mad.const import AttributeID
from ibkeys.mad.fields import ArrayRow, field


class VirtualizationInfo(Attribute):
    """VirtualizationInfo: whether a port has virtual ports, and the number that it can have. AttributeModifier: 0."""

    name = "VirtualizationInfo"
    attribute_id = AttributeID.VIRTUALIZATION_INFO
    # fmt: off
    #                                name                      byte width
    vport_cap              = field("VPortCap",                   0, 16)
    vport_index_top        = field("VPortIndexTop",              2, 16)
    virtualization_enable   = field("VirtualizationEnable",       4,  1)
    vclient_reregistration = field("VClientReregistration",      4,  1, bit=1)
    vport_state_change     = field("VPortStateChange",           4,  1, bit=2)
    virtualization_revision = field("VirtualizationRevision",     6,  8)
    capability_mask         = field("CapabilityMask",             7,  8)
    # fmt: on


class VPortInfo(Attribute):
    """VPortInfo: one virtual port. Its LID is VPortLID if LIDRequired is set, else that of the virtual port with the
    index LIDByVPortIndex.
    """

    name = "VPortInfo"
    attribute_id = AttributeID.V_PORT_INFO
    # fmt: off
    #                          name                 byte width
    vport_state       = field("VPortState",            0,  4)
    client_reregister  = field("ClientReregister",      0,  1, bit=4)
    lid_required       = field("LIDRequired",           0,  1, bit=5)
    guid_cap           = field("GUIDCap",               1,  8)
    capability_mask    = field("CapabilityMask",        2, 16)
    p_key_violations   = field("P_KeyViolations",       4, 16)
    q_key_violations   = field("Q_KeyViolations",       6, 16)
    vport_lid         = field("VPortLID",              8, 16)
    lid_by_vport_index = field("LIDByVPortIndex",     10, 16)
    vport_guid        = field("VPortGUID",            12, 64, hex=True)
    vport_profile     = field("VPortProfile",         20, 64, hex=True)
    # fmt: on


class VNodeInfo(Attribute):
    """VNodeInfo: the virtual node of virtual ports, which a virtual function shows to its host as its node."""

    name = "VNodeInfo"
    attribute_id = AttributeID.V_NODE_INFO
    # fmt: off
    #                        name           byte width
    partition_cap  = field("PartitionCap",     0, 16)
    local_port_num = field("LocalPortNum",     2,  8)
    num_ports      = field("NumPorts",         3,  8)
    vnode_guid    = field("VNodeGUID",        4, 64, hex=True)
    # fmt: on


class _Halves(ArrayRow):
    """A row for numbers of 4 bits. The first number of a byte is in its upper half."""

    def decode(self, raw: bytes | bytearray) -> tuple[int, ...]:
        """Return all numbers in *raw*."""
        return tuple(half for byte in raw[self.span] for half in (byte >> 4, byte & 0xF))


class VPortState(Attribute):
    """VPortState: the PortState (0 to 4) of a block of 128 virtual ports, 4 bits for each."""

    name = "VPortState"
    attribute_id = AttributeID.V_PORT_STATE
    vport_states = _Halves("VPortStates", 0, 4, 0, 128, "number")


VIRTUAL_ATTRIBUTES = (VirtualizationInfo, VPortInfo, VNodeInfo, VPortState)
