"""MADs of subnet administration (IBA 15.2.1), and the RMPP header in them (IBA 13.6.2).

An SA MAD has a header of 56 bytes and 200 bytes of attribute data. RMPP counts its payload from byte 36, so the 20
bytes from SM_Key to ComponentMask belong to the 220 bytes of payload of each segment.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from ibkeys.errors import EncodeError
from ibkeys.mad.const import MAD_SIZE, MgmtClass, in_words
from ibkeys.mad.fields import field
from ibkeys.mad.smp import CommonHeader

SA_CLASS_VERSION: Final = 2
SA_HEADER_SIZE: Final = 56
SA_DATA_SIZE: Final = MAD_SIZE - SA_HEADER_SIZE
RMPP_PAYLOAD: Final = 220
"""The number of payload bytes of one RMPP segment."""
RMPP_OVERHEAD: Final = RMPP_PAYLOAD - SA_DATA_SIZE
"""The number of payload bytes that repeat SM_Key to ComponentMask in each segment."""
RMPP_VERSION: Final = 1

ACTIVE: Final = 1
FIRST: Final = 2
LAST: Final = 4
"""Bits of RMPPFlags."""


class RmppType(IntEnum):
    """RMPPType (IBA 13.6.2.1)."""

    NONE = 0
    DATA = 1
    ACK = 2
    STOP = 3
    ABORT = 4


class RmppStatus(IntEnum):
    """RMPPStatus (IBA 13.6.2.1): why a transfer was stopped (only 1) or aborted (all others but 0)."""

    NORMAL = 0
    RESOURCES_EXHAUSTED = 1
    TOTAL_TIME_TOO_LONG = 118
    INCONSISTENT_LENGTH = 119
    BAD_SEGMENT_NUMBER = 120
    BAD_TYPE = 121
    WINDOW_TOO_SMALL = 122
    SEGMENT_TOO_BIG = 123
    BAD_STATUS = 124
    UNSUPPORTED_VERSION = 125
    TOO_MANY_RETRIES = 126
    UNSPECIFIED = 127


def describe_rmpp_status(status: int) -> str:
    """Return *status* in words, with its number, as ``120 (bad segment number)``."""
    return f"{status} ({_RMPP_WORDS.get(status, 'reserved code')})"


_RMPP_WORDS: Final[Mapping[int, str]] = {status: in_words(status) for status in RmppStatus}


class SaHeader(CommonHeader):
    """The first 56 bytes of an SA MAD (IBA 15.2.1.1).

    SegmentNumber and PayloadLength have these names in a DATA packet. In an ACK, the second one is NewWindowLast.
    """

    size = SA_HEADER_SIZE
    # fmt: off
    #                        name             byte width
    status           = field("Status",           4, 16)
    rmpp_version     = field("RMPPVersion",     24,  8)
    rmpp_type        = field("RMPPType",        25,  8)
    r_resp_time      = field("RRespTime",       26,  5)
    rmpp_flags       = field("RMPPFlags",       26,  3, bit=5)
    rmpp_status      = field("RMPPStatus",      27,  8)
    segment_number   = field("SegmentNumber",   28, 32)
    payload_length   = field("PayloadLength",   32, 32)
    sm_key           = field("SM_Key",          36, 64, secret=True)
    attribute_offset = field("AttributeOffset", 44, 16, unit="8 bytes")
    component_mask   = field("ComponentMask",   48, 64, hex=True)
    # fmt: on


# BaseVersion, MgmtClass, ClassVersion, Method, Status, TransactionID, AttributeID, AttributeModifier, the empty RMPP
# header, SM_Key, AttributeOffset, ComponentMask.
_HEAD: Final = struct.Struct(">BBBBH2xQH2xI12xQH2xQ")
_SEGMENT: Final = struct.Struct(">BBBBII").pack


def build_sa(
    method: int,
    attribute_id: int,
    *,
    modifier: int = 0,
    data: bytes = b"",
    sm_key: int = 0,
    component_mask: int = 0,
    attribute_offset: int = 0,
    status: int = 0,
    transaction_id: int = 0,
) -> bytes:
    """Return the 256 bytes of an SA MAD without RMPP. *data*: the record, at most 200 bytes. *attribute_offset*: the
    size of a record in an answer, in units of 8 bytes. Raises EncodeError for more data, and for a value that does not
    fit.
    """
    if len(data) > SA_DATA_SIZE:
        raise EncodeError(f"one SA MAD carries {SA_DATA_SIZE} bytes of data, {len(data)} given")
    fields = method, status, transaction_id, attribute_id, modifier, sm_key, attribute_offset, component_mask
    try:
        head = _HEAD.pack(1, MgmtClass.SUBN_ADM, SA_CLASS_VERSION, *fields)
    except struct.error:
        # The message of struct.error has the value, which may be the SM_Key.
        raise EncodeError("a field of the SA header does not fit (values not shown)") from None
    return head + data.ljust(SA_DATA_SIZE, b"\0")


def with_rmpp(mad: bytes, kind: int, flags: int, status: int = 0, data1: int = 0, data2: int = 0) -> bytes:
    """Return *mad* with a new RMPP header, in which RRespTime stays. *kind*: an `RmppType`. *data1*: SegmentNumber.
    *data2*: PayloadLength, or NewWindowLast in an ACK.
    """
    time_and_flags = mad[26] & 0xF8 | flags
    return mad[:24] + _SEGMENT(RMPP_VERSION, kind, time_and_flags, status, data1, data2) + mad[36:]
