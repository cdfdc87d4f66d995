"""What the tests of the scheduler share: requests, the wire, and what became of a request."""

from __future__ import annotations

from ibkeys.client.request import Destination, Envelope, Failure, Request
from ibkeys.client.scheduler import Scheduler
from ibkeys.mad.smp import build_smp


def ask(node: object = "n", modifier: int = 0, retries: int = 2, timeout: float = 1.0) -> Request:
    return Request.of_mad(node, build_smp(1, 0x15, modifier, path=(1,)), 0xFFFF, timeout, retries)  # type: ignore[arg-type]


def ask_each(node: object, parts: int, retries: int = 2) -> Request:
    """Return a request for the same attribute at the modifiers 0, 1, ..."""
    return Request(Envelope(node, build_smp(1, 0x15, path=(1,)), Destination(0xFFFF, 1.0, retries)), 0x15, range(parts))  # type: ignore[arg-type]


def answer(mad: bytes) -> bytes:
    return bytes((mad[0], mad[1], mad[2], 0x81, 0x80)) + mad[5:]


def send(scheduler: Scheduler, now: float = 0.0) -> list[tuple[int, bytes]]:
    return [(int.from_bytes(mad[12:16]), mad) for mad in (outgoing.mad for outgoing in scheduler.to_send(now))]


def received(scheduler: Scheduler, tid: int, mad: bytes, now: float) -> Request | None:
    """Let a reply come in. Return the request of which it was taken for an answer, None for a stray."""
    asked = scheduler.match_request(tid, mad)
    if asked is None:
        return None
    scheduler.answered([(tid, mad)], now)
    return asked[0]


def failure_of(request: Request) -> Failure | None:
    [outcome] = request.outcomes
    return outcome if isinstance(outcome, Failure) else None
