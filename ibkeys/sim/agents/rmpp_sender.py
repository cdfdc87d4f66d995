"""An answer of the simulated SA in segments, sent again at its time (IBA 13.6; Linux mad_rmpp.c)."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.const import MAD_SIZE
from ibkeys.mad.sa import ACTIVE, SA_HEADER_SIZE, RmppStatus, RmppType, with_rmpp
from ibkeys.sim.rmpp import RESEND_AFTER, OutgoingTransfer, abort, refusal, rmpp_header

RETRIES: Final = 7


class AnswerTransfer:
    """One answer on its way to one requester. Every method returns the MADs to send; ``due`` is None at the end."""

    def __init__(self, mad: bytes, data: bytes, now: float) -> None:
        """*mad*: the answer's header; *data*: all of its records."""
        self._head = mad[:SA_HEADER_SIZE]
        self._sending = OutgoingTransfer(self._head + data)
        self._retries_left = RETRIES
        self.due: float | None = now

    @property
    def is_over(self) -> bool:
        """Whether everything was acknowledged, or either end gave up."""
        return self.due is None

    def send(self, now: float) -> list[bytes]:
        """Return the segments that the window allows."""
        self.due = now + RESEND_AFTER
        return self._sending.send()

    def resend(self, now: float) -> list[bytes]:
        """Return the segments from the first unacknowledged one, or give up, after no acknowledgement came until
        `due`."""
        if not self._retries_left:
            self.due = None
            end = self._head.ljust(MAD_SIZE, b"\0")
            return [with_rmpp(end, RmppType.ABORT, ACTIVE, RmppStatus.TOO_MANY_RETRIES)]
        self._retries_left -= 1
        self.due = now + RESEND_AFTER
        return self._sending.resend()

    def take(self, mad: bytes, now: float) -> list[bytes]:
        """Process an ACK, STOP or ABORT of the receiver."""
        header, before = rmpp_header(mad), self._sending.acknowledged
        if header.kind != RmppType.ACK:
            self.due = None
            return []
        refused = refusal(header) or self._sending.take_ack(header)
        if refused is not None:
            self.due = None
            return [abort(mad, refused)]
        if self._sending.is_acknowledged():
            self.due = None
            return []
        if self._sending.acknowledged > before:
            self._retries_left = RETRIES
        segments = self._sending.send()
        if segments:
            self.due = now + RESEND_AFTER
        return segments
