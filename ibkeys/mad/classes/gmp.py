"""MADs of the management classes with keys of their own: their header, the place of their attributes, and requests.

Every MAD of these classes has the key of the class at byte 24. The attribute begins at byte 64 or 32. Sources: libibmad
(0x21, 0x05), opa-ff's baseboard agent (0x05), NVIDIA's ib_types.h of 2025 (0x0A, 0x0C). The class version 1 of 0x0C is
a guess: libibmad uses it for all vendor classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.classes.key_info import (
    BKeyInfo,
    CongestionInfo,
    CongestionKeyInfo,
    KeyInfo,
    N2NKeyInfo,
    NeighborsInfo,
    VSKeyInfo,
)
from ibkeys.mad.const import MAD_SIZE, MgmtClass
from ibkeys.mad.fields import Layout, field
from ibkeys.mad.notice import Notice
from ibkeys.mad.smp import MadHeader

CLASS_PORT_INFO: Final = 0x0001
NOTICE: Final = 0x0002
VS_KEY_SUPPORTED: Final = 0x0100
"""The bit of ClassPortInfo.CapabilityMask in class 0x0A that means that the port has a VS_Key."""

ClassName = Literal["cc", "vs", "n2n", "b"]


class ClassKeyHeader(MadHeader):
    """The first 32 bytes of a MAD of a class with a key of its own."""

    size = 32
    class_key = field("ClassKey", 24, 64, secret=True)


@dataclass(frozen=True, slots=True)
class KeyClass:
    """A management class with a key of its own.

    ``name``: its name in options. ``key_name``: the name of its key in messages. ``words``: the prefix of a method in
    messages. ``data_offset``: the byte at which the attribute begins. ``key_info``: the attribute with the key.
    ``others``: other attributes whose table is known. ``capability``: the bit of ClassPortInfo.CapabilityMask without
    which a port has no such key, 0 if the class has no such bit. ``not_counted``: the value of the violation counter of
    a port that does not count violations (or has counted so many); None if the class has no such value.
    """

    name: ClassName
    key_name: str
    words: str
    mgmt_class: MgmtClass
    class_version: int
    data_offset: int
    key_info: type[KeyInfo]
    others: tuple[type[Layout], ...] = ()
    capability: int = 0
    not_counted: int | None = None

    @property
    def attributes(self) -> Mapping[int, type[Layout]]:
        """The attributes of this class whose table is known, by AttributeID."""
        own = {each.attribute_id: each for each in (self.key_info, *self.others)}
        return {CLASS_PORT_INFO: ClassPortInfo, NOTICE: Notice, **own}


KEY_CLASSES: Final[Mapping[ClassName, KeyClass]] = {
    each.name: each
    for each in (
        KeyClass("cc", "CC_Key", "Congestion", MgmtClass.CONGESTION, 2, 64, CongestionKeyInfo, (CongestionInfo,)),
        KeyClass("vs", "VS_Key", "Vendor", MgmtClass.VENDOR_VS, 1, 32, VSKeyInfo, capability=VS_KEY_SUPPORTED),
        KeyClass("n2n", "N2N manager key", "Vendor", MgmtClass.VENDOR_N2N, 1, 32, N2NKeyInfo, (NeighborsInfo,)),
        KeyClass("b", "B_Key", "Baseboard", MgmtClass.BASEBOARD, 1, 64, BKeyInfo, not_counted=0xFFFF),
    )
}
"""The management classes with keys of their own, by their names in options."""
KEY_CLASS_OF: Final[Mapping[int, KeyClass]] = {int(each.mgmt_class): each for each in KEY_CLASSES.values()}
"""The management classes with keys of their own, by MgmtClass."""


def build_class_mad(of: KeyClass, method: int, attribute_id: int, *, key: int = 0, data: bytes = b"") -> bytes:
    """Return the 256 bytes of a MAD of the class *of*, in which TransactionID and AttributeModifier are 0.

    *key*: the key of the class in the header. *data*: the bytes of the attribute, at most 256 - ``of.data_offset``;
    their number is not checked. Raises EncodeError for another value that does not fit.
    """
    head = ClassKeyHeader.new(
        base_version=1,
        mgmt_class=of.mgmt_class,
        class_version=of.class_version,
        method=method,
        attribute_id=attribute_id,
        class_key=key,
    )
    return (head.raw.ljust(of.data_offset, b"\0") + data).ljust(MAD_SIZE, b"\0")
