"""The request scheduler: which MAD goes out when, and what a reply, a timeout or silence means for it.

It has no I/O and no clock: time is an argument, so every behaviour is tested with plain calls. The owner of a UmadPort
(`ibkeys.client.smp`) moves MADs between the two. A request has one MAD for each of its parts (`Request`); what is said
here of an attempt, a retry or a failure is about one part.

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
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from typing import Final

from ibkeys.client.request import Failure, NodeState, PartOutcome, Request
from ibkeys.mad import offsets as at
from ibkeys.mad.const import Method
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
_NEVER: Final = -1.0

Turn = tuple[Request, int, int, float]
"""A part of a request that may go next: request, part, attempts so far, and the time of the first one or ``_NEVER``."""
Attempt = tuple[Request, int, int, float, float]
"""A part of a request that was sent: request, part, attempts with this one, times of the first one and of this one."""


@dataclass(slots=True)
class Statistics:
    """What went over the wire. ``keyed``: SMPs sent with an M_Key other than 0, attempt by attempt. ``strays``: late,
    duplicate and foreign replies. ``by_attribute``: SMPs sent, by their AttributeID; GMPs by ``MgmtClass << 16`` and
    theirs together."""

    sent: int = 0
    keyed: int = 0
    replies: int = 0
    timeouts: int = 0
    lost_by_kernel: int = 0
    strays: int = 0
    refused: int = 0
    widest: int = 0
    by_attribute: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))


class Scheduler:
    """Keeps requests moving. Not thread-safe.

    Submit requests at any time; call `to_send` for what may go out now, feed `answered`, `timed_out`, `not_sent` and
    `expire`. A request is finished when all its parts have an outcome: `answered` returns those that it finishes, the
    others are in `finished`.

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
        # Each part of a submitted request is in one of four places: in the queue of its node, in _ready, or by
        # TransactionID and in the order of sending in flying (it fills the window) or overdue (it waited longer than
        # patience). _open counts them.
        self._ready: deque[Turn] = deque()
        self.flying: dict[int, Attempt] = {}
        self.overdue: dict[int, Attempt] = {}
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
        """MADs without an outcome that have not waited longer than ``patience``: what is to be heard of soon."""
        return self._open - len(self.overdue)

    @property
    def backlog(self) -> int:
        """MADs that could be sent if the window were wider."""
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
        self._open += request.missing
        request.state = node
        if node.silent or node.spent or self.ended:
            self._fail_rest(request)
        elif request.missing == 1 and node.taken < node.limit:  # as _serve would, without a queue
            node.taken += 1
            request.begun = 1
            self._ready.append((request, 0, 0, _NEVER))
        else:
            if node.queue is None:
                node.queue = deque((request,))
            else:
                node.queue.append(request)
            self._serve(node)

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
        records, tids = batch.records, batch.tids
        attributes, modifiers = batch.attributes, batch.modifiers
        by_attribute = statistics.by_attribute
        room = int(self._window) - len(flying)
        while room > 0 and ready:
            request, part, attempts, first_sent = ready.popleft()
            node = request.state
            if node.silent or node.spent:  # since it was put here
                node.taken -= 1
                self._fail(request, part, self._why_not(node, attempts))
                continue
            room -= 1
            tid = tid + 1 if tid < _TID_MASK else 1
            flying[tid] = (request, part, attempts + 1, now if first_sent == _NEVER else first_sent, now)
            envelope = request.envelope
            records.append(envelope.record)
            tids.append(tid)
            attribute = request.attribute_id
            attributes.append(attribute)
            modifiers.append(request.modifiers[part])
            by_attribute[envelope.counted + attribute] += 1
            if envelope.is_keyed:
                statistics.keyed += 1
        self._tid = tid
        statistics.sent += len(tids)
        if len(flying) > statistics.widest:
            statistics.widest = len(flying)
        return batch

    def asked(self, tid: int, mad: bytes) -> tuple[Request, int] | None:
        """Return the request that *mad* answers, and which part of it; None for a stray.

        One is an answer to what was sent with its TransactionID (*tid*: the lower half) and has no outcome yet, if it
        is a response of the same class to the same attribute and modifier.
        """
        attempt = self.flying.get(tid) or self.overdue.get(tid)
        if (
            attempt is not None
            and mad[at.METHOD] & at.RESPONSE
            and mad[at.MGMT_CLASS] == attempt[0].envelope.mgmt_class
            and int.from_bytes(mad[at.ATTRIBUTE_ID]) == attempt[0].attribute_id
            and int.from_bytes(mad[at.ATTRIBUTE_MODIFIER]) == attempt[0].modifiers[attempt[1]]
        ):
            return attempt[:2]
        self.statistics.strays += 1
        return None

    def answered(self, answers: Iterable[tuple[int, PartOutcome]], now: float) -> list[Request]:
        """Take replies that are known to be the answers to what was sent with their TransactionIDs, each with its
        outcome.

        Returns the requests that these finish; replies to nothing are strays.
        """
        flying, overdue = self.flying, self.overdue
        smoothed, per_node = self._smoothed_rtt, self._per_node
        node_time, node_smps = self._node_time, self._node_smps
        replies = 0
        done: list[Request] = []
        for tid, outcome in answers:
            attempt = flying.pop(tid, None) or overdue.pop(tid, None)
            if attempt is None:
                self.statistics.strays += 1
                continue
            request, part, _, _, sent = attempt
            request.outcomes[part] = outcome
            request.missing -= 1
            if not request.missing:
                done.append(request)
            replies += 1
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
        self._window = max(self._window, min(float(self._limit), self._window + replies))
        self._open -= replies
        self.statistics.replies += replies
        return done

    def timed_out(self, tid: int, now: float) -> None:
        """Take the kernel's word that an attempt had no reply."""
        attempt = self._land(tid)
        if attempt is None:
            self.statistics.strays += 1
            return
        self._lost(attempt, now)

    def not_sent(self, tid: int, errno: int, now: float = 0.0) -> None:
        """Take the kernel's refusal to send an attempt.

        One for lack of room (`NO_ROOM`) left nothing on the wire: it goes again a little later, for as long as an
        attempt may take. Any other is not tried again: the answer would be the same.
        """
        attempt = self._land(tid)
        if attempt is None:
            raise KeyError(tid)
        request, part, attempts, first_sent, _ = attempt
        self.statistics.refused += 1
        if errno in NO_ROOM and now - first_sent <= request.envelope.timeout:
            self._not_before = now + BREATH
            self._window = max(float(min(LEAST_WINDOW, self._limit)), self._window / 2)
            self._ready.append((request, part, attempts - 1, first_sent))  # it keeps its place at the node
            return
        request.state.taken -= 1
        self._serve(request.state)
        self._fail(request, part, Failure(attempts, errno=errno))

    def expire(self, now: float) -> None:
        """End every attempt whose timeout and grace are over although the kernel never spoke."""
        over = []
        for attempts in (self.overdue, self.flying):
            for tid, (request, _, _, _, sent) in attempts.items():
                if sent + request.envelope.timeout + GRACE <= now:
                    over.append(tid)
                elif sent + GRACE > now:
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
        waits = [sent + request.envelope.timeout + GRACE for request, _, _, _, sent in oldest]
        if self._ready and self.flying:
            waits.append(next(iter(self.flying.values()))[-1] + self.patience)
        if self._ready and now < self._not_before:
            waits = [*waits, self._not_before] if self.flying or self.overdue else [self._not_before]
        return max(0.0, min(waits, default=now) - now)

    def _let_go_of_old_ones(self, now: float) -> None:
        patience = self.patience
        old = []
        for tid, attempt in self.flying.items():
            if attempt[-1] + patience > now:  # rounded as in next_deadline, or a virtual clock would stand still
                break
            old.append(tid)
        for tid in old:
            self.overdue[tid] = self.flying.pop(tid)

    def _land(self, tid: int) -> Attempt | None:
        """An attempt is over: take it out of the window and return it."""
        return self.flying.pop(tid, None) or self.overdue.pop(tid, None)

    def _serve(self, node: NodeState) -> None:
        """Let the next parts of a node's requests go, as many as it may have in flight."""
        queue = node.queue
        while queue and node.taken < node.limit:
            request = queue[0]
            part = request.begun
            request.begun = part + 1
            if request.begun == len(request.modifiers):
                queue.popleft()
            node.taken += 1
            self._ready.append((request, part, 0, _NEVER))

    def _lost(self, attempt: Attempt, now: float) -> None:
        self.statistics.timeouts += 1
        request, part, attempts, first_sent, sent = attempt
        node = request.state
        answered_before = node.alive_at >= 0
        if answered_before and sent > self._narrowed_at:
            self._window = max(float(min(LEAST_WINDOW, self._limit)), self._window / 2)
            self._narrowed_at = now
        self._account(node, sent, now)
        if attempts <= request.retries and not (node.silent or node.spent or self.ended):
            self._ready.append((request, part, attempts, first_sent))  # it keeps its place at the node
            return
        node.taken -= 1
        self._fail(request, part, Failure(attempts))
        if node.alive_at < first_sent and not node.silent and request.envelope.method != _SUBN_SET:
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
        """Fail what waits for its turn at *node*. What is next to go fails when it would be sent."""
        queued, node.queue = node.queue or (), None
        for request in queued:
            self._fail_rest(request)

    def _fail_rest(self, request: Request) -> None:
        """Fail the parts that no attempt was made for."""
        count = len(request.modifiers) - request.begun
        why_not = self._why_not(request.state, 0)
        request.outcomes[request.begun :] = repeat(why_not, count)
        request.begun += count
        self._ended_in_vain(request, count)

    def _why_not(self, node: NodeState, attempts: int) -> Failure:
        limit = self.ended or node.spent
        return Failure(attempts, silent=not limit, limit=limit)

    def _end(self, limit: str) -> None:
        """Fail all that was not sent yet."""
        self.ended = limit
        for request, part, attempts, _ in self._ready:
            request.state.taken -= 1
            self._fail(request, part, self._why_not(request.state, attempts))
        self._ready.clear()
        for node in self._nodes.values():
            self._empty_queue(node)

    def _fail(self, request: Request, part: int, failure: Failure) -> None:
        request.outcomes[part] = failure
        self._ended_in_vain(request, 1)

    def _ended_in_vain(self, request: Request, count: int) -> None:
        request.failed = True
        request.missing -= count
        self._open -= count
        if not request.missing:
            self.finished.append(request)
