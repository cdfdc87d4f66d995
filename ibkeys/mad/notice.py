"""Notice (IBA 13.4.8.2) and the DataDetails of the traps that subnet management sends (IBA 14.2.5.1).

Byte offsets count from the beginning of the Notice; the details begin at byte 10. Trap 259 has the fields of traps 257
and 258 and three more. Its key has 16 bits in place of 32, so the fields after it are two bytes earlier. Trap 128 has
no padding before its LID. Source: opensm's ib_mad_notice_attr_t and the Linux kernel's qib SMA, which agree.
"""

from __future__ import annotations

from typing import Any, Final

from ibkeys.mad.attributes import Attribute
from ibkeys.mad.const import AttributeID, TrapNumber
from ibkeys.mad.fields import Layout, array, field

DETAILS_AT: Final = 10
"""The offset of the details in a Notice."""
VENDOR_TRAP_NUMBER: Final = slice(62, 64)
"""The bytes with the number of the trap in a vendor's Notice."""


class Notice(Attribute):
    """Notice (IBA 13.4.8.2). If IsGeneric is 0, ProducerType is the VendorID and TrapNumber the DeviceID."""

    name = "Notice"
    attribute_id = AttributeID.NOTICE
    # fmt: off
    #                     name         byte width
    is_generic    = field("IsGeneric",    0,  1)
    type          = field("Type",         0,  7, bit=1)
    producer_type = field("ProducerType", 1, 24)
    trap_number   = field("TrapNumber",   4, 16)
    issuer_lid    = field("IssuerLID",    6, 16)
    notice_toggle = field("NoticeToggle", 8,  1)
    notice_count  = field("NoticeCount",  8, 15, bit=1)
    # fmt: on

    @property
    def number(self) -> int:
        """The number of the trap, which a vendor's Notice has in its last two bytes."""
        return self.trap_number if self.is_generic else int.from_bytes(self.raw[VENDOR_TRAP_NUMBER])

    @property
    def details(self) -> DataDetails | None:
        """The DataDetails of a trap that subnet management sends; None if the number of the trap is not known."""
        layout = (DATA_DETAILS if self.is_generic else _VENDOR_DETAILS).get(self.number)
        return layout(self.raw) if layout else None

    def with_details(self, details: DataDetails) -> Notice:
        """Return a copy in which the bytes from 10 on are those of *details*."""
        return Notice(self.raw[:DETAILS_AT] + details.raw[DETAILS_AT:])

    def to_json(self, show_keys: bool = False) -> dict[str, Any]:
        """Return the fields and ``data_details`` as JSON. The details of an unknown trap are ``{"raw": hex}``."""
        details = self.details
        shown = details.to_json(show_keys) if details else {"raw": self.raw[DETAILS_AT:].hex()}
        return {**super().to_json(show_keys), "data_details": shown}

    def masked(self) -> Notice:
        """Return a copy without the refused key in the details of traps 256 and 1600, or this view if the trap is not
        known."""
        details = self.details
        return self.with_details(details.masked()) if details else self


class DataDetails(Layout):
    """A view of a whole Notice with the fields of the details of one kind of trap."""

    size = 64


class GidDetails(DataDetails):
    """Traps 64 to 67, which the SM issues: a port or a multicast group appeared or disappeared."""

    gid_addr = field("GIDADDR", 16, 128, hex=True)


class LinkStateDetails(DataDetails):
    """Trap 128: the link state of a port of the switch changed; the Notice does not name the port."""

    lid_addr = field("LIDADDR", 10, 16)


class PortErrorDetails(DataDetails):
    """Traps 129 to 131: a threshold of a port was reached."""

    # fmt: off
    lid_addr = field("LIDADDR", 12, 16)
    port_no  = field("PORTNO",  14,  8)
    # fmt: on


class CapabilityChangeDetails(DataDetails):
    """Trap 144: CapabilityMask or another local setting changed."""

    # fmt: off
    #                                 name                    byte width
    lid_addr                  = field("LIDADDR",                12, 16)
    other_local_changes       = field("OtherLocalChanges",      15,  1, bit=7)
    capability_mask           = field("CapabilityMask",         16, 32)
    change_flags              = field("ChangeFlags",            20, 16)
    node_description_change   = field("NodeDescriptionChange",  21,  1, bit=7, part_of="ChangeFlags")
    link_width_enabled_change = field("LinkWidthEnabledChange", 21,  1, bit=6, part_of="ChangeFlags")
    link_speed_enabled_change = field("LinkSpeedEnabledChange", 21,  1, bit=5, part_of="ChangeFlags")
    sm_priority_change        = field("SMPriorityChange",       21,  1, bit=4, part_of="ChangeFlags")
    capability_mask2          = field("CapabilityMask2",        22, 16)
    # fmt: on


class SystemImageGUIDDetails(DataDetails):
    """Trap 145: SystemImageGUID changed."""

    # fmt: off
    lid_addr          = field("LIDADDR",         12, 16)
    system_image_guid = field("SystemImageGUID", 16, 64, hex=True)
    # fmt: on


class BadMKeyDetails(DataDetails):
    """Trap 256: an SMP with a wrong M_Key. The return path is only a hint: some senders begin it at entry 0, others at
    1."""

    # fmt: off
    #                             name                byte width
    lid_addr              = field("LIDADDR",            12, 16)
    dr_slid               = field("DRSLID",             14, 16)
    method                = field("METHOD",             16,  8)
    attribute_id          = field("ATTRIBUTEID",        18, 16)
    attribute_modifier    = field("ATTRIBUTEMODIFIER",  20, 32)
    m_key                 = field("M_KEY",              24, 64, secret=True)
    dr_notice             = field("DRNotice",           33,  1)
    dr_path_truncated     = field("DRPathTruncated",    33,  1, bit=1)
    dr_hop_count          = field("DRHopCount",         33,  6, bit=2)
    dr_notice_return_path = array("DRNoticeReturnPath", 34,  8, 30)
    # fmt: on


class _BadKeyDetails(DataDetails):
    """The fields of traps about a packet with a wrong key at an end port. LIDADDR1 and GIDADDR1 are those of the
    sender."""

    # fmt: off
    #                 name      byte width
    lid_addr1 = field("LIDADDR1", 12,  16)
    lid_addr2 = field("LIDADDR2", 14,  16)
    key       = field("KEY",      16,  32, hex=True)
    sl        = field("SL",       20,   4)
    qp1       = field("QP1",      21,  24)
    qp2       = field("QP2",      25,  24)
    gid_addr1 = field("GIDADDR1", 28, 128, hex=True)
    gid_addr2 = field("GIDADDR2", 44, 128, hex=True)
    # fmt: on


class BadQKeyDetails(_BadKeyDetails):
    """Trap 258: a packet with a wrong Q_Key."""


class BadPKeyDetails(BadQKeyDetails):
    """Trap 257: a packet with a wrong P_Key at an end port; the P_Key is the low half of KEY."""

    p_key = field("P_KEY", 18, 16, hex=True, part_of="KEY")


class BadQKeyVPortDetails(_BadKeyDetails):
    """NVIDIA's vendor trap 1258: a packet with a wrong Q_Key at a virtual port.

    Source: NVIDIA's ib_types.h of 2025. No device has confirmed it.
    """

    vport_index = field("VPortIndex", 60, 16)


class BadPKeyVPortDetails(BadQKeyVPortDetails):
    """NVIDIA's vendor trap 1257: a packet with a wrong P_Key at a virtual port; the P_Key is the low half of KEY."""

    p_key = field("P_KEY", 18, 16, hex=True, part_of="KEY")


class BadPKeySwitchPortDetails(DataDetails):
    """Trap 259: a packet with a wrong P_Key at an external port of a switch."""

    # fmt: off
    #                   name       byte width
    data_valid  = field("DataValid", 10,  16)
    lid_addr1   = field("LIDADDR1",  12,  16)
    lid_addr2   = field("LIDADDR2",  14,  16)
    p_key       = field("P_KEY",     16,  16, hex=True)
    sl          = field("SL",        18,   4)
    qp1         = field("QP1",       19,  24)
    qp2         = field("QP2",       23,  24)
    gid_addr1   = field("GIDADDR1",  26, 128, hex=True)
    gid_addr2   = field("GIDADDR2",  42, 128, hex=True)
    sw_lid_addr = field("SWLIDADDR", 58,  16)
    port_no     = field("PORTNO",    60,   8)
    # fmt: on


class ReportedKeyDetails(DataDetails):
    """NVIDIA's vendor trap 1600, which its SM issues: a node received a MAD with a wrong key of another management
    class.

    Source: NVIDIA's ib_types.h of 2025.
    """

    # fmt: off
    #                     name          byte width
    slid         = field("SLID",          10,  16)
    attribute_id = field("ATTRIBUTEID",   12,  16)
    method       = field("METHOD",        14,   8)
    mgmt_class   = field("MGMTCLASS",     15,   8)
    gid_addr     = field("GIDADDR",       16, 128, hex=True)
    port_guid    = field("PORTGUID",      32,  64, hex=True)
    key          = field("KEY",           40,  64, secret=True)
    # fmt: on


_VENDOR_DETAILS: dict[int, type[DataDetails]] = {
    1257: BadPKeyVPortDetails,
    1258: BadQKeyVPortDetails,
    1600: ReportedKeyDetails,
}
DATA_DETAILS: dict[int, type[DataDetails]] = {
    TrapNumber.GID_IN_SERVICE: GidDetails,
    TrapNumber.GID_OUT_OF_SERVICE: GidDetails,
    TrapNumber.MULTICAST_GROUP_CREATED: GidDetails,
    TrapNumber.MULTICAST_GROUP_DELETED: GidDetails,
    TrapNumber.LINK_STATE_CHANGE: LinkStateDetails,
    TrapNumber.LOCAL_LINK_INTEGRITY: PortErrorDetails,
    TrapNumber.EXCESSIVE_BUFFER_OVERRUN: PortErrorDetails,
    TrapNumber.FLOW_CONTROL_WATCHDOG: PortErrorDetails,
    TrapNumber.CAPABILITY_CHANGE: CapabilityChangeDetails,
    TrapNumber.SYSTEM_IMAGE_GUID_CHANGE: SystemImageGUIDDetails,
    TrapNumber.BAD_M_KEY: BadMKeyDetails,
    TrapNumber.BAD_P_KEY: BadPKeyDetails,
    TrapNumber.BAD_Q_KEY: BadQKeyDetails,
    TrapNumber.BAD_P_KEY_SWITCH_PORT: BadPKeySwitchPortDetails,
}
