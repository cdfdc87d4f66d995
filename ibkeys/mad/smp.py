"""MAD headers, and the two kinds of SMP, which are whole datagrams of 256 bytes (IBA 13.4.3, 14.2.1).

`build_smp` makes a request; `parse` returns a view of a received MAD. Neither interprets the attribute.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ibkeys.errors import EncodeError, MalformedMad
from ibkeys.mad.const import MAD_SIZE, MAX_HOPS, PERMISSIVE_LID, SMP_DATA_SIZE, Method, MgmtClass
from ibkeys.mad.fields import Layout, field, octets

HEADER_SIZE: Final = 24
DATA_OFFSET: Final = 64
TID_MASK: Final = 0xFFFF_FFFF
"""The bits of a TransactionID that the program sets; the kernel sets the upper half."""


class CommonHeader(Layout):
    """The header fields that all MADs have in common (IBA 13.4.3). Bytes 4 to 7 depend on the class of the MAD."""

    size = HEADER_SIZE
    # fmt: off
    #                          name               byte width
    base_version       = field("BaseVersion",        0,  8)
    mgmt_class         = field("MgmtClass",          1,  8)
    class_version      = field("ClassVersion",       2,  8)
    method             = field("Method",             3,  8)
    transaction_id     = field("TransactionID",      8, 64, hex=True)
    attribute_id       = field("AttributeID",       16, 16)
    attribute_modifier = field("AttributeModifier", 20, 32)
    # fmt: on

    @property
    def is_response(self) -> bool:
        """Whether the bit R of Method is set: the MAD is a response."""
        return bool(self.raw[3] & 0x80)


class MadHeader(CommonHeader):
    """The 24 bytes of a MAD header alone, as the kernel returns them after a timeout."""

    # fmt: off
    status         = field("Status",        4, 16)
    class_specific = field("ClassSpecific", 6, 16)
    # fmt: on


class Mad(CommonHeader):
    """A whole MAD of any class: the common header, and 232 bytes that depend on the class."""

    size = MAD_SIZE

    @property
    def status(self) -> int:
        """Status, without the bit D of a directed-route SMP."""
        word = int.from_bytes(self.raw[4:6])
        return word & 0x7FFF if self.raw[1] == MgmtClass.SUBN_DIRECTED_ROUTE else word


class LidRoutedSmp(Mad):
    """An SMP of class 0x01 (IBA 14.2.1.1)."""

    # fmt: off
    class_specific = field("ClassSpecific",  6, 16)
    m_key          = field("M_Key",         24, 64, secret=True)
    # fmt: on
    data = octets("Data", DATA_OFFSET, SMP_DATA_SIZE)


class DirectedRouteSmp(Mad):
    """An SMP of class 0x81 (IBA 14.2.1.2).

    The entries of the paths are egress port numbers. Entry 0 of both paths is unused, so a route of n hops has n + 1
    entries.
    """

    # fmt: off
    #                   name        byte width
    d           = field("D",           4,  1)
    hop_pointer = field("HopPointer",  6,  8)
    hop_count   = field("HopCount",    7,  8)
    m_key       = field("M_Key",      24, 64, secret=True)
    dr_slid     = field("DrSLID",     32, 16)
    dr_dlid     = field("DrDLID",     34, 16)
    # fmt: on
    data = octets("Data", DATA_OFFSET, SMP_DATA_SIZE)
    initial_path_bytes = octets("InitialPath", 128, 64)
    return_path_bytes = octets("ReturnPath", 192, 64)

    @property
    def initial_path(self) -> tuple[int, ...]:
        """The entries of InitialPath from 0 to HopCount."""
        return tuple(self.raw[128 : 129 + self.hop_count])

    @property
    def return_path(self) -> tuple[int, ...]:
        """The entries of ReturnPath from 0 to HopCount."""
        return tuple(self.raw[192 : 193 + self.hop_count])


def parse(raw: bytes) -> Mad:
    """Return *raw* as a `LidRoutedSmp`, a `DirectedRouteSmp`, or a plain `Mad` of another class.

    Raises MalformedMad, and no other error, if *raw* does not have 256 bytes, has a base version other than 1, or is a
    directed route of more than 63 hops. Source: IBA 13.4.3, 14.2.1.
    """
    if len(raw) != MAD_SIZE:
        raise MalformedMad(f"a MAD has {MAD_SIZE} bytes, {len(raw)} given")
    if raw[0] != 1:
        raise MalformedMad(f"base version {raw[0]}; only version 1 is defined")
    if raw[1] == MgmtClass.SUBN_LID_ROUTED:
        return LidRoutedSmp(raw)
    if raw[1] != MgmtClass.SUBN_DIRECTED_ROUTE:
        return Mad(raw)
    if raw[7] > MAX_HOPS:
        raise MalformedMad(f"a directed route of {raw[7]} hops; {MAX_HOPS} is the maximum")
    return DirectedRouteSmp(raw)


# BaseVersion, MgmtClass, ClassVersion, Method, Status, HopPointer, HopCount, TransactionID, AttributeID, reserved,
# AttributeModifier, M_Key, DrSLID, DrDLID, reserved.
_SMP_HEAD: Final = struct.Struct(">BBBBHBBQHHIQHH28x")
_NO_DATA: Final = bytes(SMP_DATA_SIZE)
_PATH_SIZE: Final = 64
_RETURN_PATH: Final = bytes(_PATH_SIZE)


def build_smp(
    method: int,
    attribute_id: int,
    attribute_modifier: int = 0,
    *,
    path: Sequence[int] | None = None,
    data: bytes = _NO_DATA,
    m_key: int = 0,
    transaction_id: int = 0,
) -> bytes:
    """Return the 256 bytes of an SMP.

    *path*: None for a LID-routed SMP (class 0x01), else the egress ports of the directed route, one for each hop,
    without the unused entry 0: ``()`` is the local port, ``(1, 4)`` the route that the tools write as ``0,1,4``. The
    whole route is a directed one: DrSLID and DrDLID are permissive, and HopPointer is 0. *data*: the 64 bytes of the
    attribute.

    Raises EncodeError for more than 63 hops, a port above 255, *data* of another length, or a header field that does
    not fit.
    """
    if len(data) != SMP_DATA_SIZE:
        raise EncodeError(f"an attribute has {SMP_DATA_SIZE} bytes, {len(data)} given")
    if path is None:
        mgmt_class, hops, lid = MgmtClass.SUBN_LID_ROUTED, 0, 0
    else:
        mgmt_class, hops, lid = MgmtClass.SUBN_DIRECTED_ROUTE, len(path), PERMISSIVE_LID
        if hops > MAX_HOPS:
            raise EncodeError(f"a directed route of {hops} hops; {MAX_HOPS} is the maximum")
    fields = method, 0, 0, hops, transaction_id, attribute_id, 0, attribute_modifier, m_key, lid, lid
    try:
        head = _SMP_HEAD.pack(1, mgmt_class, 1, *fields)
        initial_path = bytes((0, *(path or ()))).ljust(_PATH_SIZE, b"\0")
    except (struct.error, ValueError) as error:
        raise EncodeError(f"a header field or path entry does not fit: {error}") from error
    return b"".join((head, data, initial_path, _RETURN_PATH))


# A Get along a directed route: BaseVersion to HopPointer, HopCount, zeros for TransactionID to AttributeModifier,
# M_Key, DrSLID with DrDLID, zeros for reserved bytes and data, entry 0 of InitialPath, its other entries, ReturnPath.
_GET_HEAD: Final = bytes((1, MgmtClass.SUBN_DIRECTED_ROUTE, 1, Method.GET, 0, 0, 0))
_PERMISSIVE_LIDS: Final = PERMISSIVE_LID << 16 | PERMISSIVE_LID
_GET: Final = struct.Struct(">7sB16xQI28x64xx63s64x").pack


def get_template(path: Sequence[int], m_key: int) -> bytes:
    """Return the SubnGet along the directed route *path* with the key *m_key*, with zeros in bytes 8 to 23, so that the
    caller can fill in TransactionID, AttributeID and AttributeModifier. *path*: as in `build_smp`.

    Raises EncodeError for more than 63 hops, a port above 255, or a key of more than 64 bits.
    """
    hops = len(path)
    if hops > MAX_HOPS:
        raise EncodeError(f"a directed route of {hops} hops; {MAX_HOPS} is the maximum")
    try:
        return _GET(_GET_HEAD, hops, m_key, _PERMISSIVE_LIDS, bytes(path))
    except (struct.error, ValueError) as error:
        raise EncodeError(f"a header field or path entry does not fit: {error}") from error
