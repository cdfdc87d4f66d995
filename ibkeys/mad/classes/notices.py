"""Details of the traps that the classes with keys of their own send after a MAD with a wrong key.

Offsets count from the start of the Notice. A trap number has a meaning only together with the class: 0 and 259 are used
twice. The key in a trap is the offender's, and may be the real key of another port. Sources: opensm's
ib_mad_notice_attr_t (0x21, 0x05) and NVIDIA's of 2025 (0x0A, 0x0C, trap 1600). That the traps of 0x0A and 0x0C are
vendor notices, with their number in the last two bytes, is a guess from their place there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ibkeys.mad.const import MgmtClass
from ibkeys.mad.fields import field
from ibkeys.mad.notice import DataDetails, Notice

BAD_CC_KEY: Final = 0
BAD_B_KEY: Final = 259
BAD_VENDOR_KEY: Final = 0
KEY_MISCONFIGURED: Final = 1


class BadCCKeyDetails(DataDetails):
    """Trap 0 of class 0x21: a MAD with a wrong CC_Key."""

    # fmt: off
    #                          name                byte width
    slid               = field("SLID",               10,  16)
    method             = field("METHOD",             12,   8)
    attribute_id       = field("ATTRIBUTEID",        14,  16)
    attribute_modifier = field("ATTRIBUTEMODIFIER",  18,  32)
    qp                 = field("QP",                 23,  24)
    cc_key             = field("CC_KEY",             26,  64, secret=True)
    gid_addr           = field("GIDADDR",            34, 128, hex=True)
    # fmt: on


class BadBKeyDetails(DataDetails):
    """Trap 259 of class 0x05: a MAD with a wrong B_Key."""

    # fmt: off
    #                          name                byte width
    lid_addr           = field("LIDADDR",            10,  16)
    method             = field("METHOD",             12,   8)
    attribute_id       = field("ATTRIBUTEID",        14,  16)
    attribute_modifier = field("ATTRIBUTEMODIFIER",  16,  32)
    qp                 = field("QP",                 21,  24)
    b_key              = field("BKEY",               24,  64, secret=True)
    gid_addr           = field("GIDADDR",            32, 128, hex=True)
    # fmt: on


class BadVendorKeyDetails(DataDetails):
    """Trap 0 or 1 of the vendor classes 0x0A and 0x0C: a MAD with a wrong key, or a key that is set wrong."""

    # fmt: off
    #                          name                byte width
    slid               = field("SLID",               10,  16)
    method             = field("METHOD",             12,   8)
    attribute_id       = field("ATTRIBUTEID",        14,  16)
    attribute_modifier = field("ATTRIBUTEMODIFIER",  16,  32)
    qp                 = field("QP",                 21,  24)
    key                = field("KEY",                24,  64, secret=True)
    gid_addr           = field("GIDADDR",            32, 128, hex=True)
    # fmt: on


DETAILS: Final[Mapping[tuple[int, int], type[DataDetails]]] = {
    (MgmtClass.CONGESTION, BAD_CC_KEY): BadCCKeyDetails,
    (MgmtClass.BASEBOARD, BAD_B_KEY): BadBKeyDetails,
    (MgmtClass.VENDOR_VS, BAD_VENDOR_KEY): BadVendorKeyDetails,
    (MgmtClass.VENDOR_N2N, BAD_VENDOR_KEY): BadVendorKeyDetails,
    (MgmtClass.VENDOR_N2N, KEY_MISCONFIGURED): BadVendorKeyDetails,
}
"""(class, trap number) → the layout of the Notice's details."""


def details_of(notice: Notice, mgmt_class: int) -> DataDetails | None:
    """Return the details of a trap of *mgmt_class*, None for one that is not known."""
    layout = DETAILS.get((mgmt_class, notice.number))
    return layout(notice.raw) if layout is not None else None
