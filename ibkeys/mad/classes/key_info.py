"""Attributes of the classes with keys of their own, as tables: the KeyInfo of each, and the attributes next to it.

The first 14 bytes of the four KeyInfo are alike; each class has its own names for them. Bytes after the last field are
reserved. Sources: CongestionKeyInfo and CongestionInfo: libibmad's field table and opensm's ib_types.h (annex A10);
BKeyInfo: the baseboard agent of opa-ff; VSKeyInfo, N2NKeyInfo and NeighborsInfo: NVIDIA's ib_types.h of 2025. None of
these was read from a device.
"""

from __future__ import annotations

from typing import Any, Final

from ibkeys.mad.fields import Layout, field


class KeySettings(Layout):
    """The fields that the KeyInfo of all four classes have in common, with common names."""

    size = 16
    # fmt: off
    #                     name         byte width
    key          = field("Key",           0, 64, secret=True)
    protect_bit  = field("ProtectBit",    8,  1)
    lease_period = field("LeasePeriod",  10, 16, unit="s")
    violations   = field("Violations",   12, 16)
    # fmt: on


class KeyInfo(Layout):
    """The key of one class at one port, with its protection. AttributeModifier: 0."""

    size = 16

    @property
    def settings(self) -> KeySettings:
        """The same bytes with the names that all four have."""
        return KeySettings(self.raw)


class CongestionKeyInfo(KeyInfo):
    """CongestionKeyInfo of class 0x21 (annex A10). A Set with 0 clears the violations, any other value leaves them."""

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
    """BKeyInfo of class 0x05. The violations are read-only; 0xffff also means that they are not counted."""

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
    """KeyInfo of the vendor class 0x0C: the key of the manager, and violations of the key between nodes as well."""

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
    """One record of NeighborsInfo: a neighbour with the key between the two nodes, in clear."""

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
"""Records in one NeighborsInfo."""


class NeighborsInfo(Layout):
    """NeighborsInfo of the vendor class 0x0C. AttributeModifier: number of the block.

    One record for each port of the node; whether block 0 begins with port 0 or port 1 is not known.
    """

    size = NEIGHBORS * NeighborRecord.size
    name = "NeighborsInfo"
    attribute_id = 0x0010

    @property
    def neighbors(self) -> list[NeighborRecord]:
        """The records, in order."""
        step = NeighborRecord.size
        return [NeighborRecord(self.raw[at : at + step]) for at in range(0, self.size, step)]

    def to_json(self, show_keys: bool = False) -> dict[str, Any]:
        """Return the records under ``neighbors``."""
        return {"neighbors": [record.to_json(show_keys) for record in self.neighbors]}
