"""RMPP as the Linux kernel does it for its agents (mad_rmpp.c): sender and receiver, without I/O and clock.

A MAD of any length is sent in segments, as many at a time as the receiver's window allows. Unacknowledged segments are
sent again after a time. The names in brackets are the functions of mad_rmpp.c that each rule comes from.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE, SUBN_ADM
from ibkeys.mad.sa import ACTIVE, FIRST, LAST, RMPP_PAYLOAD, RMPP_VERSION, RmppStatus, RmppType, with_rmpp

VENDOR_CLASSES: Final = range(0x30, 0x50)
"""The vendor classes whose MADs have an OUI, in bytes 37 to 39."""
_DATA_OFFSETS: Final = {SUBN_ADM: 56, 0x06: 64, 0x10: 64, 0x12: 64, **dict.fromkeys(VENDOR_CLASSES, 40)}
"""The classes with RMPP → the number of bytes before the data of their MADs."""
WINDOW: Final = 64
"""The number of segments after which a receiver acknowledges (window_size: an eighth of the receive queue of 512)."""
RESEND_AFTER: Final = 2.0
"""Seconds without an acknowledgement after which segments are sent again (send_next_seg)."""
RECEIVER_TIMEOUT: Final = 40.0
"""Seconds in which a transfer must be complete (start_rmpp)."""
KEPT_FOR: Final = 10.0
"""Seconds for which a complete transfer is stored, so that repeated segments are acknowledged (complete_rmpp)."""
_HEADER: Final = struct.Struct(">BBBBII")
_HEADER_AT: Final = 24
_ABORT_STATUSES: Final = range(RmppStatus.TOTAL_TIME_TOO_LONG, RmppStatus.UNSPECIFIED + 1)


class RmppHeader(NamedTuple):
    """The RMPP header of a MAD. ``number``: SegmentNumber; ``second``: PayloadLength of a segment, NewWindowLast of an
    ACK."""

    version: int
    kind: int
    flags: int
    status: int
    number: int
    second: int


def has_rmpp(mgmt_class: int) -> bool:
    """Return whether MADs of a class have an RMPP header (mad.c: ib_is_mad_class_rmpp)."""
    return mgmt_class in _DATA_OFFSETS


def data_offset(mgmt_class: int) -> int:
    """Return the number of bytes before the data in MADs of a class: 24 in a class without RMPP (mad.c:
    ib_get_mad_data_offset)."""
    return _DATA_OFFSETS.get(mgmt_class, 24)


def rmpp_header(mad: bytes) -> RmppHeader:
    """Return the RMPP header of *mad*."""
    version, kind, flags, status, number, second = _HEADER.unpack_from(mad, _HEADER_AT)
    return RmppHeader(version, kind, flags & 7, status, number, second)


def is_active(mad: bytes) -> bool:
    """Return whether *mad*, of a class with RMPP, is part of a transfer."""
    return bool(mad[at.RMPP_FLAGS] & ACTIVE)


def with_own_header(mad: bytes) -> bytes:
    """Return a program's MAD with the RMPP header that the kernel writes (ib_umad_write, alloc_send_rmpp_list).

    Only the flag Active is taken from the program's own header.
    """
    if is_active(mad):
        return with_rmpp(mad[: at.RMPP_FLAGS] + bytes(1) + mad[at.RMPP_FLAGS + 1 :], RmppType.DATA, ACTIVE)
    return mad[:_HEADER_AT] + bytes(_HEADER.size) + mad[_HEADER_AT + _HEADER.size :]


def answer_to(mad: bytes, kind: int, status: int = 0, number: int = 0, second: int = 0) -> bytes:
    """Return an RMPP MAD for the sender of *mad*: the header of *mad* with the R bit inverted, and no data.

    *number*: SegmentNumber; *second*: as in `RmppHeader`.
    """
    head = bytearray(mad[: data_offset(mad[at.MGMT_CLASS])])
    head[at.METHOD] ^= at.RESPONSE
    return with_rmpp(bytes(head).ljust(MAD_SIZE, b"\0"), kind, ACTIVE, status, number, second)


def abort(mad: bytes, status: RmppStatus) -> bytes:
    """Return the ABORT for the sender of *mad* (nack_recv)."""
    return answer_to(mad, RmppType.ABORT, status)


class OutgoingTransfer:
    """The sender: a MAD that is being sent in ``count`` segments. ``acknowledged``: how many were acknowledged."""

    def __init__(self, mad: bytes) -> None:
        offset = data_offset(mad[at.MGMT_CLASS])
        self._head, self._data = mad[:offset], memoryview(mad)[offset:]
        self._room = MAD_SIZE - offset
        self.count = max(1, -(-len(self._data) // self._room))
        self._pad = self.count * self._room - len(self._data)
        self.acknowledged = 0
        self._sent = 0
        self._window_last = 1

    def is_acknowledged(self) -> bool:
        """Return whether the receiver has acknowledged all segments."""
        return self.acknowledged == self.count

    def send(self) -> list[bytes]:
        """Return the segments to send now: those not sent yet that the window allows (send_next_seg)."""
        numbers = range(self._sent + 1, min(self._window_last, self.count) + 1)
        self._sent = max(self._sent, numbers.stop - 1)
        return [self._segment(number) for number in numbers]

    def resend(self) -> list[bytes]:
        """Return the segments to send again: from the first unacknowledged one on, as the window allows
        (ib_retry_rmpp)."""
        self._sent = self.acknowledged
        return self.send()

    def _segment(self, number: int) -> bytes:
        flags, length = ACTIVE, 0
        if number == 1:
            flags |= FIRST
            length = self.count * RMPP_PAYLOAD - self._pad
        if number == self.count:
            flags |= LAST
            length = RMPP_PAYLOAD - self._pad
        part = self._data[(number - 1) * self._room : number * self._room]
        head = with_rmpp(self._head, RmppType.DATA, flags, 0, number, length)
        return (head + part).ljust(MAD_SIZE, b"\0")

    def take_ack(self, header: RmppHeader) -> RmppStatus | None:
        """Process an ACK with status 0 (process_rmpp_ack). Return the reason to abort the transfer, None if the ACK is
        valid, or outdated and so ignored."""
        number, window_last = header.number, header.second
        if number > self.count or number > self._window_last:
            return RmppStatus.SEGMENT_TOO_BIG
        if window_last < self._window_last or number < self.acknowledged:
            return None  # This ACK is outdated.
        self.acknowledged, self._window_last = number, window_last
        self._sent = max(self._sent, number)
        return None


ReceiverKey = tuple[bytes, int, int, int, int, int]
"""TransactionID, QP and LID of the sender, class, class version and method (find_rmpp_recv)."""


@dataclass(slots=True, eq=False)
class Receiver:
    """The receiver of one transfer. ``first``: its first segment. ``is_complete``: all segments were received."""

    first: bytes
    is_complete: bool = False
    _parts: list[bytes] = field(default_factory=list)
    _out_of_order: dict[int, bytes] = field(default_factory=dict)
    _window_last: int = 1
    _acknowledged: int = 0
    _last: bytes = b""

    @property
    def count(self) -> int:
        """The number of segments that were received in order."""
        return len(self._parts)

    def take(self, mad: bytes) -> bytes | None:
        """Add a segment that `refusal_of_data` accepted; return the ACK to send, None for none (continue_rmpp)."""
        number = rmpp_header(mad).number
        if number > self._window_last:
            return None
        if number <= self._acknowledged or self.is_complete:
            return self._ack(mad)
        if number <= len(self._parts) or number in self._out_of_order:
            return None
        self._out_of_order[number] = mad
        arrived = len(self._parts)
        while (segment := self._out_of_order.pop(len(self._parts) + 1, None)) is not None:
            self._parts.append(segment[data_offset(segment[at.MGMT_CLASS]) :])
            self._last = segment
        if len(self._parts) == arrived:
            return None
        if rmpp_header(self._last).flags & LAST:
            self.is_complete = True
            return self._ack(self.first)
        if len(self._parts) == self._window_last:
            self._window_last += WINDOW
            return self._ack(mad)
        return None

    def _ack(self, mad: bytes) -> bytes:
        self._acknowledged = len(self._parts)
        return answer_to(mad, RmppType.ACK, 0, self._acknowledged, self._window_last)

    def whole(self) -> bytes:
        """Return the complete MAD for the program: header and all data (get_mad_len). Call it once, when
        ``is_complete``."""
        offset = data_offset(self.first[at.MGMT_CLASS])
        pad = RMPP_PAYLOAD - rmpp_header(self._last).second
        if not 0 <= pad <= RMPP_PAYLOAD:
            pad = 0
        length = offset + len(self._parts) * (MAD_SIZE - offset) - pad
        whole = b"".join((self.first[:offset], *self._parts))[:length]
        self._parts = [b""] * len(self._parts)  # Only their number is needed from now on.
        return whole


def refusal_of_data(header: RmppHeader) -> RmppStatus | None:
    """Return why a segment is refused; None if it is accepted (process_rmpp_data)."""
    if header.status:
        return RmppStatus.BAD_STATUS
    if (header.number == 1) != bool(header.flags & FIRST):
        return RmppStatus.BAD_SEGMENT_NUMBER
    return None


def refusal(header: RmppHeader) -> RmppStatus | None:
    """Return why an RMPP MAD ends the transfer with an ABORT; None if it is valid. A segment is checked by
    `refusal_of_data` too."""
    if header.version != RMPP_VERSION:
        return RmppStatus.UNSUPPORTED_VERSION
    status = header.status
    if header.kind == RmppType.ACK:
        if status:
            return RmppStatus.BAD_STATUS
        return RmppStatus.WINDOW_TOO_SMALL if header.second < header.number else None
    if header.kind == RmppType.STOP:
        return None if status == RmppStatus.RESOURCES_EXHAUSTED else RmppStatus.BAD_STATUS
    if header.kind == RmppType.ABORT:
        return None if status in _ABORT_STATUSES else RmppStatus.BAD_STATUS
    return None if header.kind == RmppType.DATA else RmppStatus.BAD_TYPE
