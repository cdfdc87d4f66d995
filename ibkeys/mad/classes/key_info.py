"""Attributes of the management classes with keys of their own, as tables of fields: KeyInfo of each class, and others.

The first 14 bytes of all four KeyInfo have the same fields, for which each class has its own names. Bytes after the
last field are reserved. Sources: libibmad's field table and opensm's ib_types.h for CongestionKeyInfo and
CongestionInfo (annex A10); the baseboard agent of opa-ff for BKeyInfo; NVIDIA's ib_types.h of 2025 for VSKeyInfo,
N2NKeyInfo and NeighborsInfo. None of these was checked against a device.
"""

from __future__ import annotations

from typing import Any, Final

from ibkeys.mad.fields import Layout, field


class KeySettings(Layout):
    """The fields that KeyInfo of all four classes has in common, under common names."""

    size = 16
    # fmt: off
    #                     name         byte width
    key          = field("Key",           0, 64, secret=True)
    protect_bit  = field("ProtectBit",    8,  1)
    lease_period = field("LeasePeriod",  10, 16, unit="s")
    violations   = field("Violations",   12, 16)
    # fmt: on


class KeyInfo(Layout):
    """The base class of the four KeyInfo: the key of a management class at one port, with its protection.
    AttributeModifier: 0.
    """

    size = 16

    @property
    def settings(self) -> KeySettings:
        """The same bytes, with the field names that all four classes have in common."""
        return KeySettings(self.raw)


class CongestionKeyInfo(KeyInfo):
    """CongestionKeyInfo of class 0x21 (annex A10). A Set with 0 violations clears the counter; any other value leaves
    it."""

    name = "CongestionKeyInfo"
    attribute_id = 0x0012
    # fmt: off
    #                             name                byte width
    cc_key              = field("CC_Key",               0, 64, secret=True)
    cc_key_protect_bit  = field("CC_KeyProtectBit",     8,  1)
    cc_key_lease_period = field("CC_KeyLeasePeriod",   10, 16, unit="s")
    cc_key_violations   = field("CC_KeyViolations",    12, 16)
    # fmt: on


class CongestionInfo(Layout):
    """CongestionInfo of class 0x21 (annex A10). ControlTableCap counts blocks of 64 entries. AttributeModifier: 0."""

    size = 4
    name = "CongestionInfo"
    attribute_id = 0x0011
    # fmt: off
    congestion_info   = field("CongestionInfo",  0, 16)
    control_table_cap = field("ControlTableCap", 2,  8)
    # fmt: on


class BKeyInfo(KeyInfo):
    """BKeyInfo of class 0x05. The violations are read-only. 0xffff may also mean that the port does not count them."""

    name = "BKeyInfo"
    attribute_id = 0x0010
    # fmt: off
    #                            name               byte width
    b_key              = field("B_Key",               0, 64, secret=True)
    b_key_protect_bit  = field("B_KeyProtectBit",     8,  1)
    b_key_lease_period = field("B_KeyLeasePeriod",   10, 16, unit="s")
    b_key_violations   = field("B_KeyViolations",    12, 16)
    # fmt: on


class VSKeyInfo(KeyInfo):
    """KeyInfo of the vendor class 0x0A."""

    name = "VSKeyInfo"
    attribute_id = 0x000F
    # fmt: off
    #                             name                byte width
    vs_key              = field("VS_Key",               0, 64, secret=True)
    vs_key_protect_bit  = field("VS_KeyProtectBit",     8,  1)
    vs_key_lease_period = field("VS_KeyLeasePeriod",   10, 16, unit="s")
    vs_key_violations   = field("VS_KeyViolations",    12, 16)
    # fmt: on


class N2NKeyInfo(KeyInfo):
    """KeyInfo of the vendor class 0x0C: the key of the manager, and violations of that key and of the keys between
    nodes."""

    name = "N2NKeyInfo"
    attribute_id = 0x000F
    # fmt: off
    #                              name                 byte width
    n2n_mgr_key          = field("N2N_MgrKey",            0, 64, secret=True)
    n2n_key_protect_bit  = field("N2N_KeyProtectBit",     8,  1)
    n2n_key_lease_period = field("N2N_KeyLeasePeriod",   10, 16, unit="s")
    n2n_key_violations   = field("N2N_KeyViolations",    12, 16)
    node_key_violations  = field("NodeKeyViolations",    14, 16)
    # fmt: on


class NeighborRecord(Layout):
    """One record of NeighborsInfo: a neighbour, and the key between the two nodes in clear text."""

    size = 16
    name = "NeighborRecord"
    attribute_id = 0x0010
    # fmt: off
    #                   name      byte width
    node_type = field("NodeType",   0,  3)
    lid       = field("LID",        2, 16)
    n2n_key   = field("N2N_Key",    8, 64, secret=True)
    # fmt: on


NEIGHBORS: Final = 14
"""The number of records in one block of NeighborsInfo."""


class NeighborsInfo(Layout):
    """NeighborsInfo of the vendor class 0x0C. AttributeModifier: the number of the block.

    There is one record for each port of the node. Whether block 0 begins with port 0 or port 1 is not known.
    """

    size = NEIGHBORS * NeighborRecord.size
    name = "NeighborsInfo"
    attribute_id = 0x0010

    @property
    def neighbors(self) -> list[NeighborRecord]:
        """The records of this block, in order."""
        step = NeighborRecord.size
        return [NeighborRecord(self.raw[at : at + step]) for at in range(0, self.size, step)]

    def to_json(self, show_keys: bool = False) -> dict[str, Any]:
        """Return the records as JSON, in a list under ``neighbors``. Keys are masked unless *show_keys*."""
        return {"neighbors": [record.to_json(show_keys) for record in self.neighbors]}
