"""The request scheduler: which MAD goes out when, and what a reply, a timeout or silence means for it.

It has no I/O and no clock: time is an argument, so every behaviour is tested with plain calls. The owner of a UmadPort
(`ibkeys.client.smp`) moves MADs between the two.

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
* When a request to a node used up its attempts, and the node said nothing in the meantime, the node is silent: what is
  queued for it fails at once, without being sent. The loss of a Set says nothing of the kind: it is tried once, and
  what is read back after it tells.
* Late, duplicate and foreign replies are counted, never fatal.
"""

from __future__ import annotations

import errno as errno_codes
import random
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from ibkeys.client.request import Failure, NodeState, Request
from ibkeys.mad import offsets as at
from ibkeys.mad.const import Method
from ibkeys.umad.port import Answer
from ibkeys.umad.requests import Requests

MAX_WINDOW: Final = 64
"""Most SMPs in flight unless the user says otherwise."""
PER_NODE: Final = 4
"""Most SMPs in flight to one node."""
FIRST_WINDOW: Final = 16
LEAST_WINDOW: Final = 4
GRACE: Final = 0.5
"""Seconds beyond an attempt's timeout that the kernel gets to report it, before the attempt is given up without it."""
NO_ROOM: Final = frozenset({errno_codes.EAGAIN, errno_codes.ENOMEM, errno_codes.ENOBUFS})
BREATH: Final = 0.01
"""Seconds before a request is sent again that the device had no room for."""
LEAST_PATIENCE: Final = 0.02
"""Seconds; an SMA answers faster than this unless it is busy, so an older SMP is waiting, not travelling."""

_TID_MASK: Final = 0xFFFF_FFFF
_SUBN_SET: Final = int(Method.SET)
_ATTRIBUTE: Final = slice(0, at.ATTRIBUTE_ID.stop - at.ASKED.start)


@dataclass(slots=True)
class Statistics:
    """What went over the wire. ``keyed``: SMPs sent with an M_Key other than 0, attempt by attempt. ``strays``: late,
    duplicate and foreign replies. ``by_attribute``: SMPs sent, by the two bytes of their AttributeID; GMPs by the
    MgmtClass and these."""

    sent: int = 0
    keyed: int = 0
    replies: int = 0
    timeouts: int = 0
    lost_by_kernel: int = 0
    strays: int = 0
    refused: int = 0
    widest: int = 0
    by_attribute: dict[bytes, int] = field(default_factory=dict)


class Scheduler:
    """Keeps requests moving. Not thread-safe.

    Submit requests at any time; call `to_send` for what may go out now, feed `received`, `timed_out`, `not_sent` and
    `expire`, and take finished requests from `finished`.

    ``set_patience``: seconds, where most of what is asked will be silent, instead of a patience that goes by round
    trips: window / patience is then the most that is sent in one second. A window of the user's is kept all the same.

    ``deadline`` and ``most_sent``: from that time, or that count of SMPs in ``statistics``, nothing is sent any more,
    and ``ended`` is the name of the limit that this is.

    ``flying`` and ``overdue``: what was sent and not answered yet, by TransactionID.
    """

    def __init__(
        self,
        max_window: int | None = None,
        per_node: int = PER_NODE,
        first_tid: int | None = None,
        *,
        node_time: float = float("inf"),
        node_smps: float = float("inf"),
    ) -> None:
        """*max_window* is the user's own bound on requests in flight, kept to the letter: silent ones count until their
        timeout. None is the adaptive default. *node_time*: seconds during which SMPs to one node may be on their way,
        and *node_smps* how many, until `forget_nodes`."""
        self._strict = max_window is not None
        self._limit = max_window or MAX_WINDOW
        self._window = float(min(FIRST_WINDOW, self._limit))
        self._per_node = min(per_node, self._limit)
        self._tid = random.getrandbits(31) if first_tid is None else first_tid
        self._nodes: dict[Hashable, NodeState] = {}
        # A submitted request is in one of four places: in the queue of its node, in _ready, or by TransactionID and in
        # the order of sending in flying (it fills the window) or overdue (it waited longer than patience).
        self._ready: deque[Request] = deque()
        self.flying: dict[int, Request] = {}
        self.overdue: dict[int, Request] = {}
        self._open = 0
        self._smoothed_rtt = 0.0
        self._narrowed_at = -1.0
        self._not_before = float("-inf")
        self._node_time = node_time
        self._node_smps = node_smps
        self.deadline = self.most_sent = float("inf")
        self.ended = ""
        self.set_patience: float | None = None
        self.finished: deque[Request] = deque()
        self.statistics = Statistics()

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, in flight, or finished and not yet taken."""
        return not self._open and not self.finished

    @property
    def moving(self) -> int:
        """Requests that are not finished and have not waited longer than ``patience``: what is to be heard of soon."""
        return self._open - len(self.overdue)

    @property
    def backlog(self) -> int:
        """Requests that could be sent if the window were wider."""
        return len(self._ready)

    @property
    def window(self) -> int:
        """How many requests may be in flight now."""
        return int(self._window)

    @property
    def patience(self) -> float:
        """Seconds after which a request in flight no longer fills the window."""
        if self._strict:
            return float("inf")
        return self.set_patience or max(LEAST_PATIENCE, 8 * self._smoothed_rtt)

    def submit(self, request: Request) -> None:
        """Take a request. One to a node that has been given up, or has reached a limit, fails at once."""
        nodes, name = self._nodes, request.envelope.node
        node = nodes.get(name)
        if node is None:
            node = nodes[name] = NodeState()
        self._open += 1
        request.state = node
        if node.silent or node.spent or self.ended:
            self._finish(request, self._why_not(request))
        elif node.taken < node.limit:
            node.taken += 1
            self._ready.append(request)
        elif node.queue is None:
            node.queue = deque((request,))
        else:
            node.queue.append(request)

    def forget_nodes(self) -> None:
        """Forget which nodes were silent: the next run asks them again. Does nothing while requests are open."""
        if not self._open:
            self._nodes.clear()

    def to_send(self, now: float) -> Requests:
        """Return what may go out at *now*. The caller sends all of it."""
        statistics = self.statistics
        batch = Requests()
        if (now >= self.deadline or statistics.sent >= self.most_sent) and not self.ended:
            self._end("time" if now >= self.deadline else "smps")
        if now < self._not_before:
            return batch
        self._let_go_of_old_ones(now)
        flying, ready, tid = self.flying, self._ready, self._tid
        records, tids, asked = batch.records, batch.tids, batch.asks
        by_attribute = statistics.by_attribute
        room = int(self._window) - len(flying)
        while room > 0 and ready:
            request = ready.popleft()
            node = request.state
            if node.silent or node.spent:  # since it was put here
                node.taken -= 1
                self._finish(request, self._why_not(request))
                continue
            room -= 1
            tid = tid + 1 if tid < _TID_MASK else 1
            flying[tid] = request
            request.sent = now
            if not request.attempts:
                request.first_sent = now
            request.attempts += 1
            envelope, asks = request.envelope, request.asks
            records.append(envelope.record)
            tids.append(tid)
            asked.append(asks)
            attribute = asks[_ATTRIBUTE] if envelope.is_smp else bytes((envelope.mgmt_class,)) + asks[_ATTRIBUTE]
            try:
                by_attribute[attribute] += 1
            except KeyError:
                by_attribute[attribute] = 1
            if envelope.is_keyed:
                statistics.keyed += 1
        self._tid = tid
        statistics.sent += len(tids)
        if len(flying) > statistics.widest:
            statistics.widest = len(flying)
        return batch

    def received(self, tid: int, mad: bytes, now: float) -> Request | None:
        """Take a reply. Returns its request, which is finished, or None for a stray."""
        tid &= _TID_MASK
        request = self.flying.get(tid) or self.overdue.get(tid)
        if (
            request is None
            or mad[at.ASKED] != request.asks
            or not mad[at.METHOD] & at.RESPONSE
            or mad[at.MGMT_CLASS] != request.envelope.mgmt_class
        ):
            # nothing asked with that ID, or not its answer: another attribute or modifier, a request, another class
            self.statistics.strays += 1
            return None
        request.reply = mad
        self.answered(((tid, mad),), now)
        return request

    def answered(self, answers: Iterable[Answer], now: float) -> list[tuple[Request, bytes]]:
        """Take replies that are known to be the answers to what was sent with their TransactionIDs.

        Returns their requests, which are finished, each with what came for it; those of no request are strays.
        """
        flying, overdue = self.flying, self.overdue
        smoothed, per_node = self._smoothed_rtt, self._per_node
        node_time, node_smps = self._node_time, self._node_smps
        done: list[tuple[Request, bytes]] = []
        for tid, data in answers:
            request = flying.pop(tid, None) or overdue.pop(tid, None)
            if request is None:
                self.statistics.strays += 1
                continue
            done.append((request, data))
            sent = request.sent
            smoothed += 0.1 * (now - sent - smoothed) if smoothed else now - sent
            node = request.state
            node.alive_at = now
            node.limit = per_node
            node.silent = False
            node.taken -= 1
            # `_account`, in place: this is done for every reply
            until = node.until
            node.until = now
            node.asked += 1
            node.busy += now - (until if until > sent else sent)
            if node.busy > node_time or node.asked >= node_smps:
                self._spend(node)
            if node.queue:
                self._serve(node)
        self._smoothed_rtt = smoothed
        self._window = max(self._window, min(float(self._limit), self._window + len(done)))
        self._open -= len(done)
        self.statistics.replies += len(done)
        return done

    def timed_out(self, tid: int, now: float) -> None:
        """Take the kernel's word that an attempt had no reply."""
        request = self._land(tid & _TID_MASK)
        if request is None:
            self.statistics.strays += 1
            return
        self._lost(request, now)

    def not_sent(self, tid: int, errno: int, now: float = 0.0) -> None:
        """Take the kernel's refusal to send an attempt.

        One for lack of room (`NO_ROOM`) left nothing on the wire: it goes again a little later, for as long as an
        attempt may take. Any other is not tried again: the answer would be the same.
        """
        request = self._land(tid & _TID_MASK)
        if request is None:
            raise KeyError(tid)
        self.statistics.refused += 1
        if errno in NO_ROOM and now - request.first_sent <= request.envelope.timeout:
            self._not_before = now + BREATH
            self._window = max(float(min(LEAST_WINDOW, self._limit)), self._window / 2)
            request.attempts = max(1, request.attempts - 1)
            self._ready.append(request)  # it keeps its place at the node
            return
        request.state.taken -= 1
        self._serve(request.state)
        self._finish(request, Failure(request.attempts, errno=errno))

    def expire(self, now: float) -> None:
        """End every attempt whose timeout and grace are over although the kernel never spoke."""
        over = []
        for attempts in (self.overdue, self.flying):
            for tid, request in attempts.items():
                if request.sent + request.envelope.timeout + GRACE <= now:
                    over.append(tid)
                elif request.sent + GRACE > now:
                    break  # attempts are in the order of sending: none behind this one can be over
        for tid in over:
            lost = self._land(tid)
            if lost is not None:
                self.statistics.lost_by_kernel += 1
                self._lost(lost, now)

    def next_deadline(self, now: float) -> float:
        """Return the seconds that may be waited before `expire` or `to_send` has something to do; 0 or more."""
        if self.finished:
            return 0.0
        oldest = islice(chain(self.overdue.values(), self.flying.values()), 8)
        waits = [request.sent + request.envelope.timeout + GRACE for request in oldest]
        if self._ready and self.flying:
            waits.append(next(iter(self.flying.values())).sent + self.patience)
        if self._ready and now < self._not_before:
            waits = [*waits, self._not_before] if self.flying or self.overdue else [self._not_before]
        return max(0.0, min(waits, default=now) - now)

    def _let_go_of_old_ones(self, now: float) -> None:
        patience = self.patience
        old = []
        for tid, request in self.flying.items():
            if request.sent + patience > now:  # rounded as in next_deadline, or a virtual clock would stand still
                break
            old.append(tid)
        for tid in old:
            self.overdue[tid] = self.flying.pop(tid)

    def _land(self, tid: int) -> Request | None:
        """An attempt is over: take it out of the window and return its request."""
        request = self.flying.pop(tid, None)
        return request if request is not None else self.overdue.pop(tid, None)

    def _serve(self, node: NodeState) -> None:
        """Let the next requests of a node go, as many as it may have in flight."""
        queue = node.queue
        while queue and node.taken < node.limit:
            node.taken += 1
            self._ready.append(queue.popleft())

    def _lost(self, request: Request, now: float) -> None:
        self.statistics.timeouts += 1
        node = request.state
        answered_before = node.alive_at >= 0
        if answered_before and request.sent > self._narrowed_at:
            self._window = max(float(min(LEAST_WINDOW, self._limit)), self._window / 2)
            self._narrowed_at = now
        self._account(node, request.sent, now)
        if request.attempts <= request.retries and not (node.silent or node.spent or self.ended):
            self._ready.append(request)  # it keeps its place at the node
            return
        node.taken -= 1
        self._finish(request, Failure(request.attempts))
        if node.alive_at < request.first_sent and not node.silent and request.envelope.method != _SUBN_SET:
            self._give_up(node)
        self._serve(node)

    def _account(self, node: NodeState, sent: float, now: float) -> None:
        """An attempt of *node* that was sent at *sent* has ended."""
        node.asked += 1
        node.busy += now - max(sent, node.until)
        node.until = now
        if node.busy > self._node_time or node.asked >= self._node_smps:
            self._spend(node)

    def _spend(self, node: NodeState) -> None:
        node.spent = node.spent or ("node_time" if node.busy > self._node_time else "node_smps")
        self._empty_queue(node)

    def _give_up(self, node: NodeState) -> None:
        node.silent = True
        self._empty_queue(node)

    def _empty_queue(self, node: NodeState) -> None:
        """Fail the requests that wait for their turn at *node*. The next one fails when it would be sent."""
        queued, node.queue = node.queue or (), None
        for request in queued:
            self._finish(request, self._why_not(request))

    def _why_not(self, request: Request) -> Failure:
        limit = self.ended or request.state.spent
        return Failure(request.attempts, silent=not limit, limit=limit)

    def _end(self, limit: str) -> None:
        """Fail all that was not sent yet."""
        self.ended = limit
        for request in self._ready:
            request.state.taken -= 1
            self._finish(request, self._why_not(request))
        self._ready.clear()
        for node in self._nodes.values():
            self._empty_queue(node)

    def _finish(self, request: Request, failure: Failure) -> None:
        request.failure = failure
        self._open -= 1
        self.finished.append(request)
