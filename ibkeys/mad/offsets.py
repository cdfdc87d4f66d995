"""Offsets of MAD fields, for code that handles every MAD, where a view object for each would be too slow.

Each constant but `RESPONSE` is the place of a field or of a part of it: a number for one byte, a slice for several
bytes. The values come from the field tables, so each offset is written only once. `reader` reads several fields at
once.
"""

from __future__ import annotations

import struct
from typing import Final

from ibkeys.mad.fields import FieldRow
from ibkeys.mad.sa import SaHeader
from ibkeys.mad.smp import CommonHeader, DirectedRouteSmp, MadHeader

# Fields of every MAD (IBA 13.4.3).
BASE_VERSION: Final = CommonHeader.base_version.byte
MGMT_CLASS: Final = CommonHeader.mgmt_class.byte
CLASS_VERSION: Final = CommonHeader.class_version.byte
METHOD: Final = CommonHeader.method.byte
STATUS: Final = MadHeader.status.span
AGENT: Final = slice(CommonHeader.transaction_id.byte, CommonHeader.transaction_id.byte + 4)
"""The half of the TransactionID that the kernel sets: the number of the requesting agent."""
LOWER_TID: Final = slice(AGENT.stop, CommonHeader.transaction_id.stop)
"""The lower half of the TransactionID, which the program sets."""
TRANSACTION_ID: Final = CommonHeader.transaction_id.span
ATTRIBUTE_ID: Final = CommonHeader.attribute_id.span
ATTRIBUTE_MODIFIER: Final = CommonHeader.attribute_modifier.span

# Fields of SMPs (IBA 14.2.1).
HOP_POINTER: Final = DirectedRouteSmp.hop_pointer.byte
HOP_COUNT: Final = DirectedRouteSmp.hop_count.byte
M_KEY: Final = DirectedRouteSmp.m_key.span
DATA: Final = DirectedRouteSmp.data.span
INITIAL_PATH: Final = DirectedRouteSmp.initial_path_bytes.span
RETURN_PATH: Final = DirectedRouteSmp.return_path_bytes.span

# Fields of SA MADs (IBA 15.2.1).
RMPP_FLAGS: Final = SaHeader.rmpp_flags.byte

# A bit of several fields.
RESPONSE: Final = 0x80
"""The bit R of Method, and the bit D of a directed-route SMP: the MAD is a response."""


def reader(*rows: FieldRow[int], before: str = "") -> struct.Struct:
    """Return a Struct that unpacks the fields *rows* of a MAD, each within 1, 2, 4 or 8 bytes, in the order of offsets.

    The result has one number for each field: that of all its bytes, so a field of a few bits has to be masked.
    Unpacking fields at once is several times faster than reading them one by one. *before*: the format of bytes before
    the MAD.
    """
    format, end = f">{before}", 0
    for row in rows:
        format += f"{row.byte - end}x{_NUMBERS[row.stop - row.byte]}"
        end = row.stop
    return struct.Struct(format)


_NUMBERS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""Number of bytes → format character of `struct`."""
