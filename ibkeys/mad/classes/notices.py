"""Details of the traps that the management classes with keys of their own send after a MAD with a wrong key.

Offsets count from the beginning of the Notice. A trap number has a meaning only together with the class: several
classes use 0, and subnet management uses 259 too. The key in a trap is the refused one, which may be the real key of
another port. Sources: opensm's ib_mad_notice_attr_t (0x21, 0x05), and NVIDIA's version of 2025 (0x0A, 0x0C, trap 1600).
It is a guess, from their place in that file, that the traps of 0x0A and 0x0C are vendor Notices, with the number in the
last two bytes.
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
    """Trap 0 of the vendor classes 0x0A and 0x0C: a MAD with a wrong key. Trap 1 of class 0x0C: a misconfigured key."""

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
"""(MgmtClass, trap number) → the layout of the details of the Notice."""


def details_of(notice: Notice, mgmt_class: int) -> DataDetails | None:
    """Return the details of *notice*, a trap of the class *mgmt_class*; None if that trap is not known."""
    layout = DETAILS.get((mgmt_class, notice.number))
    return layout(notice.raw) if layout is not None else None
