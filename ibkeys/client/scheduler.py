"""The request scheduler decides when each MAD is sent, and what follows from a reply, a timeout or silence.

It has no I/O and no clock: time is an argument, so every behaviour is tested with plain calls. The owner of a UmadPort
(`ibkeys.client.smp`) moves MADs between the two. A request has one MAD for each of its parts (`Request`); an attempt, a
retry or a failure is of one part.

The rules, each with its reason:

* An attempt has its own TransactionID. The kernel refuses a second request with an ID that is still outstanding, and
  may never report a lost one, so an ID is used again only after all others.
* Retries belong here and nowhere else: the kernel makes one attempt.
* Every attempt ends: by its reply, by the kernel's timeout, or ``GRACE`` after the kernel should have reported.
* SMPs in flight are bounded in total (an adaptive window) and for each node (an SMA is slow, VL15 has no flow control).
* A request that waits longer than ``Window.patience`` no longer fills the window, because it is probably lost. So any
  number of silent nodes wait side by side, and together cost about the time of one.
* A node gets one request at a time until its first answer, so that a silent one costs few SMPs.
* The window grows with every reply. It halves on a timeout of a node that has answered before: that may be
  congestion. The timeout of a node that never answered is no sign of it.
* If a request to a node used up its attempts, and the node answered nothing since the first of them, the node is
  silent: its queued requests fail at once, without being sent. The loss of a Set is no sign of silence: a Set has one
  attempt, and the Get after it shows whether the node answers.
* Late, duplicate and foreign replies are counted, never fatal.
"""

from __future__ import annotations

import errno as errno_codes
import random
from collections import deque
from collections.abc import Hashable, Iterable
from itertools import repeat
from typing import Final

from ibkeys.client.in_flight import Attempt, Outstanding, Window
from ibkeys.client.request import Failure, NodeState, PartOutcome, Request
from ibkeys.client.statistics import Statistics
from ibkeys.mad import offsets as at
from ibkeys.mad.const import GET_RESP, SET
from ibkeys.mad.smp import TID_MASK
from ibkeys.umad.port import Requests

PER_NODE: Final = 4
"""The most SMPs in flight to one node."""
NO_ROOM: Final = frozenset({errno_codes.EAGAIN, errno_codes.ENOMEM, errno_codes.ENOBUFS})
"""The errnos of a send for which the device had no room: it may be repeated."""
NO_ROOM_PAUSE: Final = 0.01
"""Seconds of waiting before a MAD is sent again for which the device had no room."""

_NEVER: Final = -1.0

Turn = tuple[Request, int, int, float]
"""A part of a request that is ready to be sent: the request, the number of the part, the number of attempts so far, and
the time of the first attempt or ``_NEVER``."""


class Scheduler:
    """Sends requests and matches their replies, without I/O. Not thread-safe.

    Submit requests at any time and send the MADs that `to_send` returns. Report the results by `answered`, `timed_out`
    and `not_sent`, and call `expire` regularly. A request is finished when all its parts have an outcome. `answered`
    returns the requests that it finishes; all other finished requests are put in ``finished``.

    ``deadline`` and ``most_sent``: from that time, or that number of sent MADs in ``statistics``, nothing more is sent;
    then ``ended`` is the name of the limit that was reached. `to_send` checks both, so its last batch may exceed the
    number.

    ``window``: how many SMPs may be in flight to all nodes together. ``outstanding``: the attempts that were sent and
    have no outcome yet.
    """

    def __init__(
        self,
        max_window: int | None = None,
        first_tid: int | None = None,
        *,
        node_time: float = float("inf"),
        node_smps: float = float("inf"),
    ) -> None:
        """*max_window*: the user's own limit on requests in flight, None for the default (`Window`). *first_tid*: the
        number before the lower half of the first TransactionID; None: a random number.

        *node_time*: the most seconds during which SMPs to one node are in flight; *node_smps*: the most SMPs to one
        node. Both are counted until `forget_nodes`.
        """
        self.window = Window(max_window)
        self._per_node = min(PER_NODE, self.window.most)
        self._tid = random.getrandbits(31) if first_tid is None else first_tid
        self._nodes: dict[Hashable, NodeState] = {}
        # Each part of a submitted request is in the queue of its node, in _ready, or outstanding. _open counts them.
        self._ready: deque[Turn] = deque()
        self.outstanding = Outstanding()
        self._open = 0
        self._not_before = float("-inf")
        self._node_time = node_time
        self._node_smps = node_smps
        self.deadline = self.most_sent = float("inf")
        self.ended = ""
        self.finished: deque[Request] = deque()
        self.statistics = Statistics()

    @property
    def idle(self) -> bool:
        """Whether no request is open, and ``finished`` is empty."""
        return not self._open and not self.finished

    @property
    def moving(self) -> int:
        """The number of MADs without an outcome, except those in flight for longer than ``Window.patience``."""
        return self._open - len(self.outstanding.overdue)

    @property
    def backlog(self) -> int:
        """The number of MADs that could be sent now if the window were wider."""
        return len(self._ready)

    def submit(self, request: Request) -> None:
        """Add a request. A request to a node that is silent, or has reached a limit, fails at once."""
        nodes, name = self._nodes, request.envelope.node
        node = nodes.get(name)
        if node is None:
            node = nodes[name] = NodeState()
        self._open += request.missing
        request.state = node
        if node.silent or node.reached_limit or self.ended:
            self._fail_rest(request)
        elif request.missing == 1 and node.active < node.limit:  # The same as _serve, without a queue.
            node.active += 1
            request.begun = 1
            self._ready.append((request, 0, 0, _NEVER))
        else:
            if node.queue is None:
                node.queue = deque((request,))
            else:
                node.queue.append(request)
            self._serve(node)

    def forget_nodes(self) -> None:
        """Forget which nodes were silent or reached a limit, so that the next run queries them again. Does nothing
        while requests are open."""
        if not self._open:
            self._nodes.clear()

    def to_send(self, now: float) -> Requests:
        """Return the MADs to send at *now*. The caller must send all of them, and report by `not_sent` those that were
        refused."""
        statistics = self.statistics
        batch = Requests()
        if (now >= self.deadline or statistics.sent >= self.most_sent) and not self.ended:
            self._end("time" if now >= self.deadline else "smps")
        if now < self._not_before:
            return batch
        flying, ready, tid = self.outstanding.flying, self._ready, self._tid
        if flying:
            self.outstanding.move_overdue(now, self.window.patience)
        records, tids = batch.records, batch.tids
        attributes, modifiers = batch.attributes, batch.modifiers
        by_attribute = statistics.by_attribute
        room = self.window.size - len(flying)
        while room > 0 and ready:
            request, part, attempts, first_sent = ready.popleft()
            node = request.state
            if node.silent or node.reached_limit:  # since the part was made ready
                node.active -= 1
                self._fail(request, part, self._failure_unsent(node, attempts))
                continue
            room -= 1
            tid = tid + 1 if tid < TID_MASK else 1
            flying[tid] = (request, part, attempts + 1, now if first_sent == _NEVER else first_sent, now)
            envelope = request.envelope
            records.append(envelope.record)
            tids.append(tid)
            attribute = request.attribute_id
            attributes.append(attribute)
            modifiers.append(request.modifiers[part])
            by_attribute[envelope.attribute_base + attribute] += 1
            if envelope.is_keyed:
                statistics.keyed += 1
        self._tid = tid
        statistics.sent += len(tids)
        if len(flying) > statistics.widest:
            statistics.widest = len(flying)
        return batch

    def match_request(self, tid: int, mad: bytes) -> tuple[Request, int] | None:
        """Return the request that *mad* answers, and the number of the part; None for a stray, which is counted.

        *tid*: the lower half of the MAD's TransactionID. The MAD answers the attempt with that TransactionID if the
        attempt has no outcome yet and the MAD is a GetResp of the same class, attribute and modifier. A Get and a Set
        have no other answer, although the kernel delivers a MAD with any response method (mad.c: ib_find_send_mad).
        """
        attempt = self.outstanding.flying.get(tid) or self.outstanding.overdue.get(tid)
        if (
            attempt is not None
            and mad[at.METHOD] == GET_RESP
            and mad[at.MGMT_CLASS] == attempt[0].envelope.mgmt_class
            and int.from_bytes(mad[at.ATTRIBUTE_ID]) == attempt[0].attribute_id
            and int.from_bytes(mad[at.ATTRIBUTE_MODIFIER]) == attempt[0].modifiers[attempt[1]]
        ):
            return attempt[:2]
        self.statistics.strays += 1
        return None

    def answered(self, answers: Iterable[tuple[int, PartOutcome]], now: float) -> list[Request]:
        """Process replies that were received at *now*; return the requests that they finish.

        *answers*: the lower half of the TransactionID, and the outcome, of each reply. A reply to no attempt is counted
        as a stray.
        """
        flying, overdue = self.outstanding.flying, self.outstanding.overdue
        smoothed, per_node = self.window.smoothed_rtt, self._per_node
        node_time, node_smps = self._node_time, self._node_smps
        replies = 0
        finished: list[Request] = []
        for tid, outcome in answers:
            attempt = flying.pop(tid, None) or overdue.pop(tid, None)
            if attempt is None:
                self.statistics.strays += 1
                continue
            request, part, _, _, sent = attempt
            request.outcomes[part] = outcome
            request.missing -= 1
            if not request.missing:
                finished.append(request)
            replies += 1
            smoothed += 0.1 * (now - sent - smoothed) if smoothed else now - sent
            node = request.state
            node.alive_at = now
            node.limit = per_node
            node.silent = False
            node.active -= 1
            # The same as `_account`, without a call: this is done for every reply.
            last_end = node.last_end
            node.last_end = now
            node.ended += 1
            node.busy += now - (last_end if last_end > sent else sent)
            if node.busy > node_time or node.ended >= node_smps:
                self._end_at_limit(node)
            if node.queue:
                self._serve(node)
        self.window.smoothed_rtt = smoothed
        self.window.grow(replies)
        self._open -= replies
        self.statistics.replies += replies
        return finished

    def timed_out(self, tid: int, now: float) -> None:
        """Process the kernel's report that an attempt had no reply."""
        attempt = self.outstanding.take(tid)
        if attempt is None:
            self.statistics.strays += 1
            return
        self._handle_loss(attempt, now)

    def not_sent(self, tid: int, errno: int, now: float = 0.0) -> None:
        """Process the kernel's refusal to send an attempt.

        After a refusal for lack of room (`NO_ROOM`) the attempt is repeated a little later, until the timeout of one
        attempt has passed. After any other refusal the part fails: the kernel would refuse it again. Raises KeyError if
        there is no such attempt.
        """
        attempt = self.outstanding.take(tid)
        if attempt is None:
            raise KeyError(tid)
        request, part, attempts, first_sent, _ = attempt
        self.statistics.refused += 1
        if errno in NO_ROOM and now - first_sent <= request.envelope.timeout:
            self._not_before = now + NO_ROOM_PAUSE
            self.window.narrow()
            self._ready.append((request, part, attempts - 1, first_sent))  # It still counts as active at the node.
            return
        request.state.active -= 1
        self._serve(request.state)
        self._fail(request, part, Failure(attempts, errno=errno))

    def expire(self, now: float) -> None:
        """End every attempt whose timeout and grace are over at *now*, for which the kernel reported nothing."""
        for lost in self.outstanding.take_expired(now):
            self.statistics.lost_by_kernel += 1
            self._handle_loss(lost, now)

    def longest_wait(self, now: float) -> float:
        """Return how many seconds after *now* the caller may wait for replies before `expire` or `to_send` is due."""
        if self.finished:
            return 0.0
        outstanding = self.outstanding
        waits = outstanding.expiries()
        if self._ready and outstanding.flying:
            waits.append(outstanding.next_overdue(self.window.patience))
        if self._ready and now < self._not_before:
            waits = [*waits, self._not_before] if outstanding else [self._not_before]
        return max(0.0, min(waits, default=now) - now)

    def _serve(self, node: NodeState) -> None:
        """Make the next parts of the node's requests ready to be sent, as many as it may have in flight."""
        queue = node.queue
        while queue and node.active < node.limit:
            request = queue[0]
            part = request.begun
            request.begun = part + 1
            if request.begun == len(request.modifiers):
                queue.popleft()
            node.active += 1
            self._ready.append((request, part, 0, _NEVER))

    def _handle_loss(self, attempt: Attempt, now: float) -> None:
        """Process an attempt without a reply: repeat it if its request has retries left (a Set never has), else fail
        the part."""
        self.statistics.timeouts += 1
        request, part, attempts, first_sent, sent = attempt
        node = request.state
        if node.alive_at >= 0:  # The node has answered before.
            self.window.narrow_for_loss(sent, now)
        self._account(node, sent, now)
        if attempts <= request.retries and not (node.silent or node.reached_limit or self.ended):
            self._ready.append((request, part, attempts, first_sent))  # It still counts as active at the node.
            return
        node.active -= 1
        self._fail(request, part, Failure(attempts))
        if node.alive_at < first_sent and not node.silent and request.envelope.method != SET:
            node.silent = True
            self._empty_queue(node)
        self._serve(node)

    def _account(self, node: NodeState, sent: float, now: float) -> None:
        """Count an attempt that was sent to *node* at *sent* and ended at *now* towards the limits of one node."""
        node.ended += 1
        node.busy += now - max(sent, node.last_end)
        node.last_end = now
        if node.busy > self._node_time or node.ended >= self._node_smps:
            self._end_at_limit(node)

    def _end_at_limit(self, node: NodeState) -> None:
        """Record the limit that *node* has reached, and fail its queued requests."""
        node.reached_limit = node.reached_limit or ("node_time" if node.busy > self._node_time else "node_smps")
        self._empty_queue(node)

    def _empty_queue(self, node: NodeState) -> None:
        """Fail the queued requests of *node*. Parts that are ready already fail when they would be sent."""
        queued, node.queue = node.queue or (), None
        for request in queued:
            self._fail_rest(request)

    def _fail_rest(self, request: Request) -> None:
        """Fail the parts for which no attempt was made."""
        count = len(request.modifiers) - request.begun
        failure = self._failure_unsent(request.state, 0)
        request.outcomes[request.begun :] = repeat(failure, count)
        request.begun += count
        self._count_failed(request, count)

    def _failure_unsent(self, node: NodeState, attempts: int) -> Failure:
        limit = self.ended or node.reached_limit
        return Failure(attempts, silent=not limit, limit=limit)

    def _end(self, limit: str) -> None:
        """Fail all parts that are not in flight, because *limit* was reached."""
        self.ended = limit
        for request, part, attempts, _ in self._ready:
            request.state.active -= 1
            self._fail(request, part, self._failure_unsent(request.state, attempts))
        self._ready.clear()
        for node in self._nodes.values():
            self._empty_queue(node)

    def _fail(self, request: Request, part: int, failure: Failure) -> None:
        request.outcomes[part] = failure
        self._count_failed(request, 1)

    def _count_failed(self, request: Request, count: int) -> None:
        """Record that *count* parts of *request* have failed."""
        request.failed = True
        request.missing -= count
        self._open -= count
        if not request.missing:
            self.finished.append(request)
