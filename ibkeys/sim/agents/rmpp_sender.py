"""Sending an answer of the simulated SA in segments, and again if they are not acknowledged (IBA 13.6; Linux
mad_rmpp.c)."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.const import MAD_SIZE
from ibkeys.mad.sa import ACTIVE, SA_HEADER_SIZE, RmppStatus, RmppType, with_rmpp
from ibkeys.sim.rmpp import RESEND_AFTER, OutgoingTransfer, abort, refusal, rmpp_header

RETRIES: Final = 7


class AnswerTransfer:
    """One answer that is sent to one requester. `send`, `resend` and `take` return the MADs to send now.

    ``due``: the time at which to call `resend` next; None when the transfer is over.
    """

    def __init__(self, mad: bytes, data: bytes, now: float) -> None:
        """*mad*: a MAD with the header of the answer; *data*: all of its records."""
        self._head = mad[:SA_HEADER_SIZE]
        self._sending = OutgoingTransfer(self._head + data)
        self._retries_left = RETRIES
        self.due: float | None = now

    @property
    def is_over(self) -> bool:
        """Whether the whole answer was acknowledged, or either side gave up."""
        return self.due is None

    def send(self, now: float) -> list[bytes]:
        """Return the segments not sent yet that the window allows, and set ``due``."""
        self.due = now + RESEND_AFTER
        return self._sending.send()

    def resend(self, now: float) -> list[bytes]:
        """Return the segments from the first unacknowledged one on; if no retries are left, an ABORT. Call it when
        ``due`` has come without an acknowledgement."""
        if not self._retries_left:
            self.due = None
            end = self._head.ljust(MAD_SIZE, b"\0")
            return [with_rmpp(end, RmppType.ABORT, ACTIVE, RmppStatus.TOO_MANY_RETRIES)]
        self._retries_left -= 1
        self.due = now + RESEND_AFTER
        return self._sending.resend()

    def take(self, mad: bytes, now: float) -> list[bytes]:
        """Process the ACK, STOP or ABORT *mad* of the receiver, and return the MADs to send now."""
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
