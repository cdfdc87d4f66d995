"""RMPP as the Linux kernel does it for its agents (mad_rmpp.c): both halves, bytes in, bytes out, no clock.

A MAD of any length is sent in segments, as many at a time as the receiver's window allows; unacknowledged segments are
sent again after a time. Source of each rule: the function of mad_rmpp.c that is named.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE, SUBN_ADM
from ibkeys.mad.sa import ACTIVE, FIRST, LAST, RMPP_PAYLOAD, RMPP_VERSION, RmppStatus, RmppType, with_rmpp

VENDOR_CLASSES: Final = range(0x30, 0x50)
"""Vendor classes with an OUI, at bytes 37 to 39 of a MAD."""
_DATA_OFFSETS: Final = {SUBN_ADM: 56, 0x06: 64, 0x10: 64, 0x12: 64, **dict.fromkeys(VENDOR_CLASSES, 40)}
"""The classes with RMPP, with the bytes before their data."""
WINDOW: Final = 64
"""Segments that a receiver accepts before it acknowledges (window_size: an eighth of the receive queue of 512)."""
RESEND_AFTER: Final = 2.0
"""Seconds (send_next_seg)."""
RECEIVER_TIMEOUT: Final = 40.0
"""Seconds in which a transfer must be complete (start_rmpp)."""
KEPT_FOR: Final = 10.0
"""Seconds that a complete transfer is remembered, so that a repeated segment is acknowledged (complete_rmpp)."""
_HEADER: Final = struct.Struct(">BBBBII")
_HEADER_AT: Final = 24
_ABORTS: Final = range(RmppStatus.TOTAL_TIME_TOO_LONG, RmppStatus.UNSPECIFIED + 1)


class RmppHeader(NamedTuple):
    """The RMPP header of a MAD; ``second`` is PayloadLength of a segment, NewWindowLast of an ACK."""

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
    """Return the bytes of a MAD before the data of its class (mad.c: ib_get_mad_data_offset)."""
    return _DATA_OFFSETS.get(mgmt_class, 24)


def rmpp_header(mad: bytes) -> RmppHeader:
    """Read the RMPP header of *mad*."""
    version, kind, flags, status, number, second = _HEADER.unpack_from(mad, _HEADER_AT)
    return RmppHeader(version, kind, flags & 7, status, number, second)


def is_active(mad: bytes) -> bool:
    """Return whether *mad*, of a class with RMPP, is part of a transfer."""
    return bool(mad[at.RMPP_FLAGS] & ACTIVE)


def with_own_header(mad: bytes) -> bytes:
    """Return a program's MAD with the RMPP header that the kernel writes. It takes only the flag Active from the
    program's own header.

    Source: ib_umad_write, alloc_send_rmpp_list.
    """
    if is_active(mad):
        return with_rmpp(mad[: at.RMPP_FLAGS] + bytes(1) + mad[at.RMPP_FLAGS + 1 :], RmppType.DATA, ACTIVE)
    return mad[:_HEADER_AT] + bytes(_HEADER.size) + mad[_HEADER_AT + _HEADER.size :]


def answer_to(mad: bytes, kind: int, status: int = 0, number: int = 0, second: int = 0) -> bytes:
    """Return the MAD of one end of a transfer to the other about *mad*: its header with R inverted, and no data."""
    head = bytearray(mad[: data_offset(mad[at.MGMT_CLASS])])
    head[at.METHOD] ^= at.RESPONSE
    return with_rmpp(bytes(head).ljust(MAD_SIZE, b"\0"), kind, ACTIVE, status, number, second)


def abort(mad: bytes, status: RmppStatus) -> bytes:
    """Return the ABORT for the sender of *mad* (nack_recv)."""
    return answer_to(mad, RmppType.ABORT, status)


class OutgoingTransfer:
    """The sending half: a MAD that is being sent. Each method returns the MADs to send now."""

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
        """Return whether the receiver has all of it."""
        return self.acknowledged == self.count

    def send(self) -> list[bytes]:
        """Return the segments that the window allows (send_next_seg)."""
        numbers = range(self._sent + 1, min(self._window_last, self.count) + 1)
        self._sent = max(self._sent, numbers.stop - 1)
        return [self._segment(number) for number in numbers]

    def resend(self) -> list[bytes]:
        """Return the segments from the first unacknowledged one (ib_retry_rmpp)."""
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
        """Process an ACK whose status is 0; return the reason why the transfer is aborted (process_rmpp_ack)."""
        number, window_last = header.number, header.second
        if number > self.count or number > self._window_last:
            return RmppStatus.SEGMENT_TOO_BIG
        if window_last < self._window_last or number < self.acknowledged:
            return None  # an outdated ACK
        self.acknowledged, self._window_last = number, window_last
        self._sent = max(self._sent, number)
        return None


ReceiverKey = tuple[bytes, int, int, int, int, int]
"""TransactionID, QP and LID of the sender, class, class version and method (find_rmpp_recv)."""


@dataclass(slots=True, eq=False)
class Receiver:
    """The receiving half: one transfer. ``first``: its first segment; ``is_complete`` when all are there."""

    first: bytes
    is_complete: bool = False
    _parts: list[bytes] = field(default_factory=list)
    _early: dict[int, bytes] = field(default_factory=dict)
    _window_last: int = 1
    _acknowledged: int = 0
    _last: bytes = b""

    def take(self, mad: bytes) -> bytes | None:
        """Add a segment whose number and flag First agree; return the ACK for it, if any (continue_rmpp)."""
        number = rmpp_header(mad).number
        if number > self._window_last:
            return None
        if number <= self._acknowledged or self.is_complete:
            return self._ack(mad)
        if number <= len(self._parts) or number in self._early:
            return None
        self._early[number] = mad
        arrived = len(self._parts)
        while (segment := self._early.pop(len(self._parts) + 1, None)) is not None:
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
        """Return the MAD for the program, header and all data (get_mad_len)."""
        offset = data_offset(self.first[at.MGMT_CLASS])
        pad = RMPP_PAYLOAD - rmpp_header(self._last).second
        if not 0 <= pad <= RMPP_PAYLOAD:
            pad = 0
        length = offset + len(self._parts) * (MAD_SIZE - offset) - pad
        whole = b"".join((self.first[:offset], *self._parts))[:length]
        self._parts = [b""] * len(self._parts)  # only their number is needed from now on
        return whole


def refusal_of_data(header: RmppHeader) -> RmppStatus | None:
    """Return why a segment is refused; None if it is taken (process_rmpp_data)."""
    if header.status:
        return RmppStatus.BAD_STATUS
    if (header.number == 1) != bool(header.flags & FIRST):
        return RmppStatus.BAD_SEGMENT_NUMBER
    return None


def refusal(header: RmppHeader) -> RmppStatus | None:
    """Return why a MAD that is no segment ends the transfer with an ABORT; None if it is valid."""
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
        return None if status in _ABORTS else RmppStatus.BAD_STATUS
    return None if header.kind == RmppType.DATA else RmppStatus.BAD_TYPE
