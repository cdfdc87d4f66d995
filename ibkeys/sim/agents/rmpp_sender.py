"""The sending half of RMPP (IBA 13.6), as the Linux kernel's sender does it: for the simulated SA."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.const import MAD_SIZE
from ibkeys.mad.sa import ACTIVE, SA_HEADER_SIZE, RmppStatus, RmppType, SaHeader, split_segments, with_rmpp

RESEND_AFTER: Final = 2.0
"""Seconds without an acknowledgement after which the first unacknowledged segment goes out again (mad_rmpp.c)."""
RETRIES: Final = 7


class AnswerTransfer:
    """One answer on its way to one requester. Every method returns the MADs to send; ``due`` is None at the end."""

    def __init__(self, mad: bytes, data: bytes, now: float) -> None:
        """*mad*: the answer's header; *data*: all of its records."""
        self._segments = split_segments(mad, data)
        self._acknowledged = 0
        self._sent = 0
        self._window_last = 1
        self._retries_left = RETRIES
        self.due: float | None = now

    @property
    def is_over(self) -> bool:
        """Whether everything was acknowledged, or either end gave up."""
        return self.due is None

    def send(self, now: float) -> list[bytes]:
        """Return the segments that the window allows."""
        batch = self._segments[self._sent : self._window_last]
        self._sent += len(batch)
        self.due = now + RESEND_AFTER
        return batch

    def resend(self, now: float) -> list[bytes]:
        """Return the segments from the first unacknowledged one, or give up, after no acknowledgement came until
        `due`."""
        if not self._retries_left:
            self.due = None
            return [self._end(RmppType.ABORT, RmppStatus.TOO_MANY_RETRIES)]
        self._retries_left -= 1
        self._sent = self._acknowledged
        return self.send(now)

    def take(self, mad: bytes, now: float) -> list[bytes]:
        """Process an ACK, STOP or ABORT of the receiver."""
        header = SaHeader(mad[:SA_HEADER_SIZE])
        # The second number of an ACK is NewWindowLast, where DATA has its PayloadLength.
        kind, number, window_last = header.rmpp_type, header.segment_number, header.payload_length
        if kind != RmppType.ACK:
            self.due = None
            return []
        if number > len(self._segments) or window_last < number:
            self.due = None
            status = RmppStatus.BAD_SEGMENT_NUMBER if number > len(self._segments) else RmppStatus.WINDOW_TOO_SMALL
            return [self._end(RmppType.ABORT, status)]
        if number < self._acknowledged or window_last < self._window_last:
            return []  # an outdated ACK
        if number > self._acknowledged:
            self._retries_left = RETRIES
        self._acknowledged, self._window_last = number, window_last
        self._sent = max(self._sent, number)
        if number == len(self._segments):
            self.due = None
            return []
        return self.send(now)

    def _end(self, kind: RmppType, status: RmppStatus) -> bytes:
        return with_rmpp(self._segments[0][:SA_HEADER_SIZE].ljust(MAD_SIZE, b"\0"), kind, ACTIVE, status)
