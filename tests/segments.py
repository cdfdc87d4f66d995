"""RMPP segments made by the words of the specification, beside those of the simulator."""

from __future__ import annotations

from ibkeys.mad.const import MAD_SIZE
from ibkeys.mad.sa import ACTIVE, FIRST, LAST, RMPP_OVERHEAD, SA_DATA_SIZE, SA_HEADER_SIZE, RmppType, with_rmpp


def split_segments(mad: bytes, data: bytes) -> list[bytes]:
    """Return the RMPP segments that carry *data* behind the header of *mad*, as the Linux kernel's sender makes them.

    PayloadLength is the total in the first one, that segment's own in the last one, else 0 (IBA 13.6.2.1).
    """
    count = max(1, -(-len(data) // SA_DATA_SIZE))
    segments = []
    for number in range(1, count + 1):
        part = data[(number - 1) * SA_DATA_SIZE : number * SA_DATA_SIZE]
        flags = ACTIVE | (FIRST if number == 1 else 0) | (LAST if number == count else 0)
        length = len(part) + RMPP_OVERHEAD if number == count else 0
        if number == 1:
            length = len(data) + count * RMPP_OVERHEAD
        head = with_rmpp(mad[:SA_HEADER_SIZE], RmppType.DATA, flags, 0, number, length)
        segments.append((head + part).ljust(MAD_SIZE, b"\0"))
    return segments
