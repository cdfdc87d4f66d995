"""Records of subnet administration (IBA 15.2.5) that ibkeys uses, with the bits of their components.

Source of every offset and bit: IBA volume 1, 15.2.5, checked against libibmad's field table and OpenSM's ib_types.h.
A record in an answer may be longer than its layout, because OpenSM pads it to a multiple of 8 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ibkeys.errors import EncodeError
from ibkeys.mad.attributes import NodeInfo, PKeyTable, PortInfo
from ibkeys.mad.fields import Layout, array, field, text


class SaRecord(Layout):
    """A record of the SA.

    ``components``: the number of the bit in ComponentMask for each field by which a query may select. ``inner``: an
    attribute inside the record, and the byte at which it begins; its fields are fields of the record too.
    """

    components: ClassVar[Mapping[str, int]] = {}
    inner: ClassVar[tuple[type[Layout], int] | None] = None

    def __init_subclass__(cls) -> None:
        if cls.inner is not None:
            layout, offset = cls.inner
            for attr, row in layout.rows.items():
                moved = replace(row, byte=row.byte + offset)
                moved.__set_name__(cls, attr)
                setattr(cls, attr, moved)
        super().__init_subclass__()


def _bits_from(first: int, *names: str) -> dict[str, int]:
    """Return the bit of each of *names*, whose bits follow each other from *first* on."""
    return {name: first + index for index, name in enumerate(names)}


class NodeRecord(SaRecord):
    """NodeRecord (IBA 15.2.5.2). There is one for each port of a CA or router, and one for each switch."""

    size = 108
    name = "NodeRecord"
    attribute_id = 0x0011
    inner = NodeInfo, 4
    # fmt: off
    #                        name             byte width
    lid              = field("LID",              0, 16)
    node_description = text( "NodeDescription", 44, 64)
    # fmt: on
    components: ClassVar[Mapping[str, int]] = {
        "lid": 0,
        **_bits_from(2, "base_version", "class_version", "node_type", "num_ports", "system_image_guid", "node_guid"),
        **_bits_from(8, "port_guid", "partition_cap", "device_id", "revision", "local_port_num", "vendor_id"),
        "node_description": 14,
    }

    @property
    def node_info(self) -> NodeInfo:
        """The NodeInfo in the record, as this port would answer it to an SMP."""
        return NodeInfo(self.raw[4:44].ljust(NodeInfo.size, b"\0"))


class PortInfoRecord(SaRecord):
    """PortInfoRecord (IBA 15.2.5.3). All ports of a switch have the EndportLID of port 0; PortNum distinguishes them.

    M_Key is no component here: OpenSM compares it for untrusted requesters too, so that queries could guess M_Keys.
    """

    size = 68
    name = "PortInfoRecord"
    attribute_id = 0x0012
    inner = PortInfo, 4
    # fmt: off
    #                   name       byte width
    endport_lid = field("EndportLID", 0, 16)
    port_num    = field("PortNum",    2,  8)
    options     = field("Options",    3,  8)
    # fmt: on
    components: ClassVar[Mapping[str, int]] = {
        **_bits_from(0, "endport_lid", "port_num", "options"),
        **_bits_from(4, "gid_prefix", "lid", "master_sm_lid", "capability_mask", "diag_code", "m_key_lease_period"),
        **_bits_from(10, "local_port_num", "link_width_enabled", "link_width_supported", "link_width_active"),
        **_bits_from(14, "link_speed_supported", "port_state", "port_physical_state", "link_down_default_state"),
        **_bits_from(18, "m_key_protect_bits"),
        **_bits_from(20, "lmc", "link_speed_active", "link_speed_enabled", "neighbor_mtu", "master_sm_sl", "vl_cap"),
        **_bits_from(26, "init_type", "vl_high_limit", "vl_arbitration_high_cap", "vl_arbitration_low_cap"),
        **_bits_from(30, "init_type_reply", "mtu_cap", "vl_stall_count", "hoq_life", "operational_vls"),
        **_bits_from(35, "partition_enforcement_inbound", "partition_enforcement_outbound"),
        **_bits_from(37, "filter_raw_inbound", "filter_raw_outbound"),
        **_bits_from(39, "m_key_violations", "p_key_violations", "q_key_violations", "guid_cap"),
        "capability_mask2": 53,
    }

    @property
    def port_info(self) -> PortInfo:
        """The PortInfo that the SM read last, so counters and states may be old. M_Key is 0 for an untrusted
        requester."""
        return PortInfo(self.raw[4:68])


class LinkRecord(SaRecord):
    """LinkRecord (IBA 15.2.5.13): one direction of a link. For a port of a switch, the LID is that of port 0."""

    size = 6
    name = "LinkRecord"
    attribute_id = 0x0020
    # fmt: off
    #                 name     byte width
    from_lid  = field("FromLID",  0, 16)
    from_port = field("FromPort", 2,  8)
    to_port   = field("ToPort",   3,  8)
    to_lid    = field("ToLID",    4, 16)
    # fmt: on
    components: ClassVar[Mapping[str, int]] = _bits_from(0, "from_lid", "from_port", "to_port", "to_lid")


class PKeyTableRecord(SaRecord):
    """P_KeyTableRecord (IBA 15.2.5.11): one block of 32 P_Keys. OpenSM shows it to trusted requesters only."""

    size = 72
    name = "P_KeyTableRecord"
    attribute_id = 0x0033
    # fmt: off
    #                 name       byte width
    lid       = field("LID",        0, 16)
    block_num = field("BlockNum",   2, 16)
    port_num  = field("PortNum",    4,  8)
    p_keys    = array("P_KeyBlock", 8, 16, 32, hex=True)
    # fmt: on
    components: ClassVar[Mapping[str, int]] = _bits_from(0, "lid", "block_num", "port_num")

    @property
    def p_key_table(self) -> PKeyTable:
        """The block of P_KeyTable in the record, as the port would answer it to an SMP."""
        return PKeyTable(self.raw[8:])


class MCMemberRecord(SaRecord):
    """MCMemberRecord (IBA 15.2.5.17): a multicast group, or a member of one. MTU and Rate are codes without
    selectors."""

    size = 52
    name = "MCMemberRecord"
    attribute_id = 0x0038
    # fmt: off
    #                  name       byte width
    mgid       = field("MGID",       0, 128, hex=True)
    port_gid   = field("PortGID",   16, 128, hex=True)
    q_key      = field("Q_Key",     32,  32, hex=True)
    mlid       = field("MLID",      36,  16)
    mtu        = field("MTU",       38,   6, bit=2)
    t_class    = field("TClass",    39,   8)
    p_key      = field("P_Key",     40,  16, hex=True)
    rate       = field("Rate",      42,   6, bit=2)
    sl         = field("SL",        44,   4)
    flow_label = field("FlowLabel", 44,  20, bit=4)
    join_state = field("JoinState", 48,   4, bit=4)
    proxy_join = field("ProxyJoin", 49,   1)
    # fmt: on
    components: ClassVar[Mapping[str, int]] = {
        **_bits_from(0, "mgid", "port_gid", "q_key", "mlid"),
        **_bits_from(6, "t_class", "p_key"),
        **_bits_from(12, "sl", "flow_label"),
        "join_state": 16,
        "proxy_join": 17,
    }


class PathRecord(SaRecord):
    """PathRecord (IBA 15.2.5.16): a path between two ports. Only the fields that ibkeys uses have rows."""

    size = 64
    name = "PathRecord"
    attribute_id = 0x0035
    # fmt: off
    #                 name      byte width
    dgid      = field("DGID",      8, 128, hex=True)
    sgid      = field("SGID",     24, 128, hex=True)
    dlid      = field("DLID",     40,  16)
    slid      = field("SLID",     42,  16)
    numb_path = field("NumbPath", 49,   7, bit=1)
    sl        = field("SL",       53,   4, bit=4)
    # fmt: on
    components: ClassVar[Mapping[str, int]] = {
        **_bits_from(2, "dgid", "sgid", "dlid", "slid"),
        "numb_path": 12,
        "sl": 15,
    }


def query_of(record: type[SaRecord], components: Mapping[str, Any]) -> tuple[int, bytes]:
    """Return the ComponentMask and the record data of a query for records whose fields have the values in *components*.

    *components*: the values by field name; without any, the query selects all records. Raises EncodeError for a name
    that is no component of the record, and for a value that does not fit.
    """
    mask = 0
    for name in components:
        if name not in record.components:
            known = ", ".join(record.components)
            raise EncodeError(f"{record.name} has no component {name!r} to select by; it has: {known}")
        mask |= 1 << record.components[name]
    return mask, record.new(**components).raw
