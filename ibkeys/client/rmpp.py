"""The receiving half of RMPP (IBA 13.6): it takes segments and returns acknowledgements and one answer. No I/O, no
clock.

The rules are those of the Linux kernel's receiver (mad_rmpp.c), which OpenSM's answers are made for:

* The first segment is acknowledged at once, because a sender begins with a window of one. After it, the segment with
  the number NewWindowLast is acknowledged, and the last segment.
* A segment that was acknowledged before is answered with a new acknowledgement of all segments received in order: the
  last one must have been lost.
* Segments out of order are stored up to the end of the window.
* A MAD that cannot be part of a valid transfer ends it, with an ABORT that has the reason.

Stricter than the kernel: PayloadLength of the first segment, where it is not 0, must agree with number and length of
the segments, because a truncated table must never look whole.
"""

from __future__ import annotations

from typing import Final

from ibkeys.errors import TransferFailed
from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE
from ibkeys.mad.sa import (
    ACTIVE,
    FIRST,
    LAST,
    RMPP_OVERHEAD,
    RMPP_PAYLOAD,
    RMPP_VERSION,
    SA_DATA_SIZE,
    SA_HEADER_SIZE,
    RmppStatus,
    RmppType,
    SaHeader,
    describe_rmpp_status,
    with_rmpp,
)

WINDOW: Final = 64
"""Segments that may be in flight after the first acknowledgement, as the kernel's receiver allows."""
MAX_SEGMENTS: Final = 1 << 20
"""The most segments of a transfer (200 MB), unless the caller gives a `RmppReceiver` another limit."""


class RmppReceiver:
    """One transfer. Pass each MAD of one TransactionID to `take`, and send the MADs that it returns to their sender.

    ``progress``: the number of segments that were new. `answer`: the data, when `is_complete`. ``failure``: why the
    transfer ended without an answer, None if it did not. *max_segments*: a longer answer is stopped as soon as its
    length is known, with the message *too_long*. *window*: the segments that the sender may have in flight.
    """

    def __init__(
        self, window: int = WINDOW, max_segments: int = MAX_SEGMENTS, too_long: str = "no table is that long"
    ) -> None:
        self.progress = 0
        self._max_segments = max_segments
        self._too_long = too_long
        self.failure: TransferFailed | None = None
        self._window = window
        self._in_order: list[bytes] = []
        self._out_of_order: dict[int, bytes] = {}
        self._window_last = 1
        self._acknowledged = 0
        self._expected_segments = 0  # the number of segments by PayloadLength of the first one; 0: not known
        self._promised_length = 0
        self._last = 0  # the number of the segment with the flag Last; 0: not received yet
        self._last_length = 0

    @property
    def is_complete(self) -> bool:
        """Whether all segments were received."""
        return self.failure is None and 0 < self._last == len(self._in_order)

    @property
    def answer(self) -> bytes:
        """The data of all segments, without headers and padding. Raises TransferFailed unless `is_complete`."""
        if self.failure is not None:
            raise self.failure
        if not self.is_complete:
            raise TransferFailed(f"{len(self._in_order)} segments were received in order, but not the last one")
        return b"".join(self._in_order)

    def take(self, mad: bytes) -> bytes | None:
        """Process one MAD of this transfer, which may be any bytes. Return the MAD to be sent back, None for none."""
        if self.failure is not None or len(mad) < SA_HEADER_SIZE:
            return None
        header = SaHeader(mad[:SA_HEADER_SIZE])
        kind, status = header.rmpp_type, header.rmpp_status
        if header.rmpp_version != RMPP_VERSION:
            return self._abort(mad, RmppStatus.UNSUPPORTED_VERSION)
        if kind in (RmppType.STOP, RmppType.ABORT):
            if self.is_complete:
                return None
            verb = "stopped" if kind == RmppType.STOP else "aborted"
            self._fail(f"the sender {verb} it: RMPPStatus {describe_rmpp_status(status)}", status)
            return None
        if kind == RmppType.ACK:
            return None  # An acknowledgement is for the sender of data, and this side receives them.
        if kind != RmppType.DATA:
            return self._abort(mad, RmppStatus.BAD_TYPE)
        if self.is_complete:
            return self._acknowledge(mad)
        if status:
            return self._abort(mad, RmppStatus.BAD_STATUS)
        return self._take_data(mad, header.segment_number, header.payload_length, header.rmpp_flags)

    def give_up(self, mad: bytes, why: str = "") -> bytes:
        """End the transfer and return the ABORT for the sender of *mad*, which is any of its segments.

        *why*: the reason in words; "" if it makes no progress.
        """
        if not why:
            return self._abort(mad, RmppStatus.TOTAL_TIME_TOO_LONG, by="this side")
        self._fail(f"this side gave the transfer up: {why}", RmppStatus.TOTAL_TIME_TOO_LONG)
        return _reply(mad, RmppType.ABORT, RmppStatus.TOTAL_TIME_TOO_LONG)

    # --- segments ------------------------------------------------------------------------------------------------

    def _take_data(self, mad: bytes, number: int, length: int, flags: int) -> bytes | None:
        # A sender without RMPP sends number 0, or a first segment without the flag First.
        if number == 0 or (number == 1) != bool(flags & FIRST):
            return self._abort(mad, RmppStatus.BAD_SEGMENT_NUMBER)
        if number > self._window_last:
            return None
        if number <= len(self._in_order) or number in self._out_of_order:
            return self._acknowledge(mad) if number <= self._acknowledged else None
        if number > self._max_segments:
            return self._stop(mad)
        if not self._check_segment(number, length, flags, len(mad)):
            return self._abort(mad, RmppStatus.INCONSISTENT_LENGTH)
        if self._expected_segments > self._max_segments:
            return self._stop(mad)
        end = SA_HEADER_SIZE + (self._last_length if flags & LAST else SA_DATA_SIZE)
        self._out_of_order[number] = mad[SA_HEADER_SIZE:end]
        self.progress += 1
        while len(self._in_order) + 1 in self._out_of_order:
            self._in_order.append(self._out_of_order.pop(len(self._in_order) + 1))
        if self.is_complete or len(self._in_order) == self._window_last:
            self._window_last = len(self._in_order) + self._window
            return self._acknowledge(mad)
        return None

    def _check_segment(self, number: int, length: int, flags: int, size: int) -> bool:
        """Return whether number and length of a new segment agree with the known length of the answer, and record what
        the segment shows about that length."""
        is_last = bool(flags & LAST)
        if number == 1 and length:
            if length < RMPP_OVERHEAD:
                return False
            self._expected_segments, self._promised_length = -(-length // RMPP_PAYLOAD), length
        if self._last and number > self._last:
            return False
        expected = self._expected_segments
        if expected and (number > expected or is_last != (number == expected)):
            return False
        if not is_last:
            return size >= MAD_SIZE
        if any(other > number for other in self._out_of_order):
            return False
        if not RMPP_OVERHEAD <= length <= RMPP_PAYLOAD or SA_HEADER_SIZE + length - RMPP_OVERHEAD > size:
            return False
        if self._promised_length and self._promised_length != (number - 1) * RMPP_PAYLOAD + length:
            return False
        self._last, self._last_length = number, length - RMPP_OVERHEAD
        return True

    # --- MADs to the sender -------------------------------------------------------------------------------------------

    def _acknowledge(self, mad: bytes) -> bytes:
        self._acknowledged = len(self._in_order)
        return _reply(mad, RmppType.ACK, 0, self._acknowledged, self._window_last)

    def _abort(self, mad: bytes, status: RmppStatus, by: str = "the transfer was not valid, so this side") -> bytes:
        self._fail(f"{by} aborted it: RMPPStatus {describe_rmpp_status(status)}", status)
        return _reply(mad, RmppType.ABORT, status)

    def _stop(self, mad: bytes) -> bytes:
        self._fail(f"this side stopped the transfer: {self._too_long}", RmppStatus.RESOURCES_EXHAUSTED)
        return _reply(mad, RmppType.STOP, RmppStatus.RESOURCES_EXHAUSTED)

    def _fail(self, why: str, status: int) -> None:
        self.failure = TransferFailed(f"after {len(self._in_order)} segments {why}", status)
        self._in_order, self._out_of_order = [], {}


def _reply(mad: bytes, kind: RmppType, status: int, data1: int = 0, data2: int = 0) -> bytes:
    """Return an RMPP MAD for the sender of *mad*: the header of *mad* with the method's R bit inverted, and no data
    (mad_rmpp.c)."""
    header = SaHeader(mad[:SA_HEADER_SIZE])
    inverted = header.replace(method=header.method ^ at.RESPONSE, status=0)
    return with_rmpp(inverted.raw.ljust(MAD_SIZE, b"\0"), kind, ACTIVE, status, data1, data2)
