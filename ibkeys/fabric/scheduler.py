"""The request scheduler: which MAD goes out when, and what a reply, a timeout or silence means for it.

It has no I/O and no clock: time is an argument, so every behaviour is tested with plain calls. The owner of a UmadPort
(`ibkeys.fabric.client`) moves MADs between the two.

The rules, each with its reason:

* An attempt has its own TransactionID. The kernel refuses a second request with an ID that is still outstanding, and
  may never report a lost one (facts of ib_umad), so an ID is never used twice.
* Retries belong here and nowhere else: the kernel is told to try once.
* Every attempt ends: by its reply, by the kernel's timeout, or ``GRACE`` after the kernel should have spoken.
* SMPs in flight are bounded over all (an adaptive window) and for each node (an SMA is slow, VL15 has no flow control).
* A request that waits longer than ``patience`` no longer counts as in flight in the window: on the wire it is gone.
  So any number of silent nodes wait side by side and together cost about one timeout budget.
* A node gets one request at a time until its first answer, so that a silent one costs few SMPs.
* The window grows with every reply. It halves on a timeout of a node that has answered before: that may be
  congestion. The timeout of a node that never answered says nothing about the way there.
* When a request to a node used up its attempts, and the node said nothing meanwhile, the node is silent: what is
  queued for it fails at once, without being sent.
* Late, duplicate and foreign replies are counted, never fatal.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from ibkeys.umad.port import Outgoing

MAX_WINDOW: Final = 64
"""Most SMPs in flight unless the user says otherwise."""
PER_NODE: Final = 4
"""Most SMPs in flight to one node."""
FIRST_WINDOW: Final = 16
LEAST_WINDOW: Final = 4
GRACE: Final = 0.5
"""Seconds beyond an attempt's timeout that the kernel gets to report it, before the attempt is given up without it."""
LEAST_PATIENCE: Final = 0.02
"""Seconds; an SMA answers faster than this unless it is busy, so an older SMP is waiting, not travelling."""


class Request:
    """One MAD to be answered.

    ``node``: who is asked, as far as the sender knows; the bound for each node goes by it. ``mad``: the 256 bytes with
    TransactionID 0. ``timeout`` in seconds for each attempt; ``retries``: attempts after the first. ``owner`` belongs
    to the submitter. After the end ``reply`` holds the answer's bytes, or ``failure`` why there is none.
    """

    __slots__ = ("attempts", "failure", "lid", "mad", "node", "owner", "qpn", "reply", "retries", "slot", "started", "timeout")

    def __init__(
        self, node: Hashable, mad: bytes, lid: int, timeout: float = 1.0, retries: int = 2, qpn: int = 0, owner: object = None
    ) -> None:
        self.node = node
        self.mad = mad
        self.lid = lid
        self.timeout = timeout
        self.retries = retries
        self.qpn = qpn
        self.owner = owner
        self.slot = 0
        self.attempts = 0
        self.started = -1.0
        self.reply: bytes | None = None
        self.failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no reply. ``errno`` is set when the kernel refused to send it; ``silent``: the node had
    already been given up, and the request was not sent (again)."""

    attempts: int
    errno: int = 0
    silent: bool = False


@dataclass(slots=True)
class Statistics:
    """What went over the wire. ``strays``: late, duplicate and foreign replies."""

    sent: int = 0
    replies: int = 0
    timeouts: int = 0
    lost_by_kernel: int = 0
    strays: int = 0
    refused: int = 0
    widest: int = 0


class _Node:
    """What the scheduler knows of one node."""

    __slots__ = ("alive_at", "in_flight", "limit", "queue", "ready", "silent")

    def __init__(self) -> None:
        self.queue: deque[Request] = deque()
        self.in_flight = 0
        self.limit = 1
        self.ready = False
        self.alive_at = -1.0
        self.silent = False


class _Attempt:
    __slots__ = ("fresh", "node", "request", "sent")

    def __init__(self, request: Request, node: _Node, sent: float) -> None:
        self.request = request
        self.node = node
        self.sent = sent
        self.fresh = True


class Scheduler:
    """Keeps requests moving. Not thread-safe.

    Submit requests at any time; call `to_send` for what may go out now, feed `received`, `timed_out`, `not_sent` and
    `expire`, and take finished requests from `finished`.
    """

    def __init__(self, max_window: int | None = None, per_node: int = PER_NODE, first_tid: int | None = None) -> None:
        """*max_window* is the user's own bound on requests in flight, kept to the letter: silent ones count until their
        timeout. None is the adaptive default."""
        self._strict = max_window is not None
        self._limit = max_window or MAX_WINDOW
        self._window = float(min(FIRST_WINDOW, self._limit))
        self._per_node = min(per_node, self._limit)
        self._tid = random.getrandbits(31) if first_tid is None else first_tid
        self._nodes: dict[Hashable, _Node] = {}
        self._ready: deque[_Node] = deque()
        self._flying: dict[int, _Attempt] = {}
        self._fresh: deque[_Attempt] = deque()
        self._fresh_count = 0
        self._open = 0
        self._smoothed_rtt = 0.0
        self._narrowed_at = -1.0
        self.finished: deque[Request] = deque()
        self.statistics = Statistics()

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, in flight, or finished and not yet taken."""
        return not self._open and not self.finished

    @property
    def window(self) -> int:
        """How many requests may be in flight now."""
        return int(self._window)

    @property
    def patience(self) -> float:
        """Seconds after which a request in flight no longer fills the window."""
        return float("inf") if self._strict else max(LEAST_PATIENCE, 8 * self._smoothed_rtt)

    def submit(self, request: Request) -> None:
        """Take a request. One to a node that has been given up fails at once."""
        node = self._nodes.get(request.node)
        if node is None:
            node = self._nodes[request.node] = _Node()
        self._open += 1
        if node.silent:
            self._finish(request, Failure(request.attempts, silent=True))
            return
        node.queue.append(request)
        if not node.ready and node.in_flight < node.limit:
            node.ready = True
            self._ready.append(node)

    def forget_nodes(self) -> None:
        """Forget which nodes were silent: the next run asks them anew. Does nothing while requests are open."""
        if not self._open:
            self._nodes.clear()
            self._ready.clear()

    def to_send(self, now: float) -> list[tuple[int, Outgoing]]:
        """Return what may go out at *now*, as (TransactionID, MAD). The caller sends all of it."""
        self._let_go_of_old_ones(now)
        batch: list[tuple[int, Outgoing]] = []
        room = int(self._window) - self._fresh_count
        while room > 0 and self._ready:
            node = self._ready.popleft()
            if not node.queue:
                node.ready = False
                continue
            request = node.queue.popleft()
            node.in_flight += 1
            if node.queue and node.in_flight < node.limit:
                self._ready.append(node)
            else:
                node.ready = False
            batch.append(self._launch(request, node, now))
            room -= 1
        return batch

    def received(self, tid: int, mad: bytes, now: float) -> Request | None:
        """Take a reply. Returns its request, which is finished, or None for a stray."""
        tid &= 0xFFFF_FFFF
        attempt = self._flying.get(tid)
        if attempt is None or not _answers(attempt.request.mad, mad):
            self.statistics.strays += 1
            return None
        del self._flying[tid]
        self.statistics.replies += 1
        rtt = now - attempt.sent
        self._smoothed_rtt = rtt if not self._smoothed_rtt else 0.9 * self._smoothed_rtt + 0.1 * rtt
        if self._window < self._limit:
            self._window += 1
        attempt.node.alive_at = now
        attempt.node.limit = self._per_node
        attempt.node.silent = False
        self._land(attempt)
        request = attempt.request
        request.reply = mad
        self._open -= 1
        return request

    def timed_out(self, tid: int, now: float) -> None:
        """Take the kernel's word that an attempt had no reply."""
        attempt = self._flying.pop(tid & 0xFFFF_FFFF, None)
        if attempt is None:
            self.statistics.strays += 1
            return
        self._lost(attempt, now)

    def not_sent(self, tid: int, errno: int) -> None:
        """Take the kernel's refusal to send an attempt. It is not tried again: the answer would be the same."""
        attempt = self._flying.pop(tid & 0xFFFF_FFFF)
        self.statistics.refused += 1
        self._land(attempt)
        self._finish(attempt.request, Failure(attempt.request.attempts, errno=errno))

    def expire(self, now: float) -> None:
        """End every attempt whose timeout and grace are over although the kernel never spoke."""
        over = []
        for tid, attempt in self._flying.items():
            if attempt.sent + attempt.request.timeout + GRACE <= now:
                over.append(tid)
            elif attempt.sent + GRACE > now:
                break  # attempts are in the order of sending: none behind this one can be over
        for tid in over:
            self.statistics.lost_by_kernel += 1
            self._lost(self._flying.pop(tid), now)

    def next_deadline(self, now: float) -> float:
        """Return the seconds that may be waited before `expire` or `to_send` has something to do; 0 or more."""
        waits = [attempt.sent + attempt.request.timeout + GRACE for attempt in self._oldest(8)]
        if self._ready and self._fresh:
            waits.append(self._fresh[0].sent + self.patience)
        return max(0.0, min(waits, default=now) - now)

    def _oldest(self, count: int) -> list[_Attempt]:
        attempts = iter(self._flying.values())
        return [attempt for _, attempt in zip(range(count), attempts, strict=False)]

    def _launch(self, request: Request, node: _Node, now: float) -> tuple[int, Outgoing]:
        self._tid = tid = (self._tid + 1) & 0xFFFF_FFFF or 1
        attempt = _Attempt(request, node, now)
        self._flying[tid] = attempt
        self._fresh.append(attempt)
        self._fresh_count += 1
        if not request.attempts:
            request.started = now
        request.attempts += 1
        statistics = self.statistics
        statistics.sent += 1
        if self._fresh_count > statistics.widest:
            statistics.widest = self._fresh_count
        mad = request.mad
        mad = b"".join((mad[:12], tid.to_bytes(4), mad[16:]))
        return tid, Outgoing(mad, request.lid, int(request.timeout * 1000), request.qpn)

    def _let_go_of_old_ones(self, now: float) -> None:
        fresh, limit = self._fresh, now - self.patience
        while fresh and (not fresh[0].fresh or fresh[0].sent <= limit):
            attempt = fresh.popleft()
            if attempt.fresh:
                attempt.fresh = False
                self._fresh_count -= 1

    def _land(self, attempt: _Attempt) -> None:
        """An attempt is over: give back its place in the window and at its node."""
        if attempt.fresh:
            attempt.fresh = False
            self._fresh_count -= 1
        node = attempt.node
        node.in_flight -= 1
        if node.queue and not node.ready and node.in_flight < node.limit:
            node.ready = True
            self._ready.append(node)

    def _lost(self, attempt: _Attempt, now: float) -> None:
        self.statistics.timeouts += 1
        node, request = attempt.node, attempt.request
        answered_before = node.alive_at >= 0
        if answered_before and attempt.sent > self._narrowed_at:
            self._window = max(float(min(LEAST_WINDOW, self._limit)), self._window / 2)
            self._narrowed_at = now
        self._land(attempt)
        if request.attempts <= request.retries and not node.silent:
            node.queue.appendleft(request)
            if not node.ready and node.in_flight < node.limit:
                node.ready = True
                self._ready.append(node)
            return
        self._finish(request, Failure(request.attempts))
        if node.alive_at < request.started and not node.silent:
            self._give_up(node)

    def _give_up(self, node: _Node) -> None:
        node.silent = True
        while node.queue:
            queued = node.queue.popleft()
            self._finish(queued, Failure(queued.attempts, silent=True))

    def _finish(self, request: Request, failure: Failure) -> None:
        request.failure = failure
        self._open -= 1
        self.finished.append(request)


def _answers(request: bytes, reply: bytes) -> bool:
    """Whether *reply* can be the answer to *request*: same class, R bit, same attribute and modifier."""
    return reply[1] == request[1] and reply[3] & 0x80 != 0 and reply[16:24] == request[16:24]
