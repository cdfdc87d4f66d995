"""The SMP client: tasks in, SMPs out, attributes back.

A task is a generator that yields requests and gets their outcomes. For one `Request` it gets the 64 bytes of data in
the reply, or the error is raised in the task. For a request with a list of modifiers (`Envelope.ask_each`) it gets a
list, whose items are bytes or exceptions. For a list of requests it gets the list of their outcomes. For a GMP the data
is the whole MAD. Any number of tasks share the scheduler's window, so a single Get and the sweep of a whole fabric use
the same code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ibkeys.arguments import ArgumentRule, Checked
from ibkeys.client.address import DirectedAddress, LidAddress
from ibkeys.client.in_flight import MAX_WINDOW
from ibkeys.client.limits import NORMAL_LIMITS, Limits
from ibkeys.client.request import Destination, Envelope, Failure, Request
from ibkeys.client.scheduler import Scheduler
from ibkeys.client.statistics import Statistics
from ibkeys.errors import IbkeysError, LimitReached
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import Attribute
from ibkeys.mad.const import GET, MAD_SIZE, PERMISSIVE_LID, SMP_CLASSES, SUBN_ADM
from ibkeys.mad.smp import HEADER_SIZE, build_smp, get_template
from ibkeys.umad.port import ETIMEDOUT, Incoming, Outgoing, UmadPort, receiver

Route = DirectedAddress | LidAddress
SmpOutcome = bytes | IbkeysError
Task = Generator[Request | list[Request], Any, Any]
_NO_DATA: Final = bytes(64)
_NO_KEY: Final = bytes(8)
_OK: Final = bytes(2)
_OK_OF_SMP: Final = frozenset({_OK, b"\x80\0"})
"""The bytes of Status 0 without and with the D bit of a directed route."""
UNAWAITED_AT_ONCE: Final = 64
"""The most SMPs that `SmpClient.send_unawaited` passes to the port in one batch."""
UNAWAITED_PER_SECOND: Final = 8000
_LONGEST: Final = 0xFFFFFFFF // 1000
"""The longest timeout in seconds: a MAD has it in milliseconds, in 32 bits."""


@dataclass(frozen=True, slots=True)
class Timing(Checked):
    """The timeout, retries and window of queries.

    ``timeout``: seconds for each attempt. ``retries``: attempts of a Get after the first; a Set has one attempt
    (`ibkeys.change.engine` decides when it may be sent again). ``outstanding``: the most SMPs in flight; None: the
    default, which adapts itself. Raises UsageError for a value with which nothing would be sent.
    """

    timeout: float = 1.0
    retries: int = 2
    outstanding: int | None = None
    _rules: ClassVar = {
        "timeout": ArgumentRule(
            lambda value: type(value) in (int, float) and 0 < value <= _LONGEST, f"seconds above 0, at most {_LONGEST}"
        ),
        "retries": ArgumentRule(lambda value: type(value) is int and value >= 0, "a whole number from 0"),
        "outstanding": ArgumentRule(
            lambda value: value is None or (type(value) is int and value >= 1), "a whole number from 1"
        ),
    }


class SmpClient:
    """Sends SMPs over one `UmadPort` and matches the replies; also GMPs whose answer is one MAD. Not thread-safe.

    ``limits``: limits on SMPs and time, for one node in one run, and for all runs together inside `bounded`.
    """

    def __init__(self, port: UmadPort, timing: Timing | None = None, limits: Limits | None = None) -> None:
        self.port = port
        self.timing = timing or Timing()
        self._directed = Destination(PERMISSIVE_LID, self.timing.timeout, self.timing.retries)
        self.limits = limits or NORMAL_LIMITS
        self._scheduler = self._new_scheduler()
        self._tasks: set[Task] = set()
        self._limit_messages: dict[str, str] = {}

    def _new_scheduler(self) -> Scheduler:
        limits = self.limits
        return Scheduler(self.timing.outstanding, node_time=limits.node_time, node_smps=limits.node_smps)

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Limit all runs inside the context together to the time and SMPs of one sweep.

        Requests beyond these limits fail with LimitReached.
        """
        scheduler, limits = self._scheduler, self.limits
        scheduler.deadline = self.port.now() + limits.time
        scheduler.most_sent = scheduler.statistics.sent + limits.smps
        try:
            yield
        finally:
            scheduler = self._scheduler
            scheduler.deadline = scheduler.most_sent = float("inf")
            scheduler.ended = ""

    @property
    def ended(self) -> str:
        """The limit of the sweep that was reached, after which nothing is sent any more; "" for none."""
        return self._scheduler.ended

    @property
    def statistics(self) -> Statistics:
        """Counts of everything sent and received so far."""
        return self._scheduler.statistics

    def request(
        self,
        method: int,
        attribute: type[Attribute],
        modifier: int,
        route: Route,
        *,
        node: Hashable = None,
        m_key: MKey = NO_MKEY,
        data: bytes = _NO_DATA,
        retries: int | None = None,
    ) -> Request:
        """Return a request for one attribute, to be yielded by a task.

        *node*: identifies the node for the scheduler; by default the route does, a directed one by its path. *retries*:
        by default those of ``timing``. A Set needs 0, because it must not be repeated before a Get has shown whether it
        arrived. Raises EncodeError.
        """
        if data is _NO_DATA and method == GET:
            get = self.gets_to(route, node, m_key).ask(attribute, modifier)
            if retries is not None:
                get.retries = retries
            return get
        path = route.path if isinstance(route, DirectedAddress) else None
        return Request.of_mad(
            (route if path is None else path) if node is None else node,
            build_smp(method, attribute.attribute_id, modifier, path=path, data=data, m_key=m_key.reveal()),
            PERMISSIVE_LID if isinstance(route, DirectedAddress) else route.lid,
            self.timing.timeout,
            self.timing.retries if retries is None else retries,
        )

    def gets_to(self, route: Route | tuple[int, ...], node: Hashable, m_key: MKey) -> Envelope:
        """Return the envelope of SubnGets to one agent; its `ask` returns each request.

        *route*: the address of the agent, or the path of a directed route. *node* and *m_key*: as for `request`. Raises
        EncodeError.
        """
        if isinstance(route, LidAddress):
            mad = build_smp(GET, 0, m_key=m_key.reveal())
            to_lid = Destination(route.lid, self.timing.timeout, self.timing.retries)
            return Envelope(route if node is None else node, mad, to_lid)
        path = route if isinstance(route, tuple) else route.path
        return Envelope(path if node is None else node, get_template(path, m_key.reveal()), self._directed)

    def run(self, tasks: Iterable[Task], between: Callable[[], None] = lambda: None, *, probing: bool = False) -> None:
        """Run tasks to their end. A task may start others with `start`. Raises the exceptions that tasks do not catch,
        and those of the port.

        *between*: called each time when the tasks have got all received replies, before anything is sent and before the
        run ends. It does work for many tasks at once, such as one sync of a file, and may start tasks. *probing*: most
        of the queried nodes will be silent, so a request leaves an adaptive window after 8 ms, and at most
        `UNAWAITED_PER_SECOND` requests are sent in a second.
        """
        self._scheduler.window.fixed_patience = MAX_WINDOW / UNAWAITED_PER_SECOND if probing else None
        try:
            for task in tasks:
                self._tasks.add(task)
                self._step(task, None)
            self._drive(between)
        except BaseException:
            # After an error or Ctrl-C the next run must not continue this one.
            statistics, self._scheduler = self.statistics, self._new_scheduler()
            self._scheduler.statistics = statistics
            # This closes the outer generator of a task before the inner ones. The garbage collector may close an inner
            # one first, and Python then reports an error of the outer one.
            waiting, self._tasks = self._tasks, set()
            for task in waiting:
                task.close()
            raise
        self._scheduler.forget_nodes()

    @property
    def moving(self) -> int:
        """The number of MADs of this run without an outcome, except those that have waited long and are probably
        lost."""
        return self._scheduler.moving

    @property
    def backlog(self) -> int:
        """The number of MADs of this run that could be sent now if the window were wider."""
        return self._scheduler.backlog

    def ask(self, query: Request | list[Request]) -> Any:
        """Send one request and return its answer, or raise its error.

        For a request with a list of modifiers (`Envelope.ask_each`), return the list of their outcomes, errors
        included; likewise for a list of requests, which are sent at once. Raises the errors of the port.
        """
        result: list[Any] = []

        def task() -> Task:
            result.append((yield query))

        self.run([task()])
        return result[0]

    def wait(self, seconds: float) -> None:
        """Let *seconds* of the port's clock pass without sending. Replies in this time are counted as strays."""
        end = self.port.now() + seconds
        while (remaining := end - self.port.now()) > 0:
            self.statistics.strays += sum(mad.status == 0 for mad in self.port.recv(remaining))

    def send_unawaited(self, requests: Sequence[Request]) -> list[Request]:
        """Send SMPs that have no answer (TrapRepress), at most `UNAWAITED_PER_SECOND` in a second.

        Returns those that the kernel refused. Each is sent once, and whether it arrives is not known. Call it between
        two runs. Raises the errors of the port.
        """
        refused: list[Request] = []
        statistics = self.statistics
        for first in range(0, len(requests), UNAWAITED_AT_ONCE):
            batch = requests[first : first + UNAWAITED_AT_ONCE]
            mads = [_with_random_tid(request.mad) for request in batch]
            failures = self.port.send(
                [Outgoing(mad, request.envelope.lid, 0) for mad, request in zip(mads, batch, strict=True)]
            )
            refused += [batch[failure.index] for failure in failures]
            statistics.sent += len(batch)
            statistics.keyed += sum(map(_is_keyed, mads))
            for mad in mads:
                statistics.by_attribute[int.from_bytes(mad[at.ATTRIBUTE_ID])] += 1
            self.wait(len(batch) / UNAWAITED_PER_SECOND)
        statistics.refused += len(refused)
        return refused

    def start(self, task: Task) -> None:
        """Begin a task; it continues as its replies arrive."""
        self._tasks.add(task)
        self._step(task, None)

    def _step(self, task: Any, value: Any) -> None:
        """Continue a task with *value*, and submit the requests that it yields next."""
        try:
            query = task.throw(value) if isinstance(value, IbkeysError) else task.send(value)
        except StopIteration:
            self._tasks.discard(task)
            return
        if type(query) is Request:
            query.owner = task
            self._scheduler.submit(query)
        else:
            self._submit_all(task, query)

    def _submit_all(self, task: Any, query: Sequence[Request]) -> None:
        if not query:
            self._step(task, [])
            return
        waiting = _WaitingTask(task, query)
        for place, request in enumerate(query):
            request.owner, request.place = waiting, place
            self._scheduler.submit(request)

    def _drive(self, between: Callable[[], None]) -> None:
        """Move MADs between scheduler and port, and outcomes to their tasks, until no request is open."""
        scheduler, port = self._scheduler, self.port
        receive, answered, hand_over = receiver(port), scheduler.answered, self._hand_over
        while True:
            while scheduler.finished:  # The last part of each failed, so no reply ended it.
                hand_over(scheduler.finished.popleft())
            between()
            if scheduler.idle:
                return
            now = port.now()
            batch = scheduler.to_send(now)
            if batch.tids:
                for failure in port.send(batch):
                    scheduler.not_sent(batch.tids[failure.index], failure.errno, now)
            answers, others = receive(scheduler.longest_wait(now))
            now = port.now()
            for request in answered(answers, now):
                hand_over(request)
            if others:
                self._process_mads(others, now)
            scheduler.expire(now)

    def _process_mads(self, outcome_or_list: Iterable[Incoming], now: float) -> None:
        """Process MADs that the port did not match itself: GMPs, answers with a Status other than 0, timeouts and
        strays. A port that matches nothing returns all MADs here."""
        scheduler = self._scheduler
        to_int = int.from_bytes
        own_id, status_at, data_at = at.LOWER_TID, at.STATUS, at.DATA
        for mad, status, _, _ in outcome_or_list:
            if status == 0 and (len(mad) == MAD_SIZE or _is_short_answer(mad)):
                tid = to_int(mad[own_id])
                matched = scheduler.match_request(tid, mad)
                if matched is None:
                    continue
                request, part = matched
                outcome: bytes | IbkeysError
                if request.envelope.is_smp:
                    outcome = mad[data_at] if mad[status_at] in _OK_OF_SMP else _refusal(request, part, mad)
                else:
                    outcome = mad if mad[status_at] == _OK else _refusal(request, part, mad)
                for finished in scheduler.answered(((tid, outcome),), now):
                    self._hand_over(finished)
            elif status == ETIMEDOUT:
                scheduler.timed_out(to_int(mad[own_id]), now)
            else:
                scheduler.statistics.strays += 1

    def _hand_over(self, request: Request) -> None:
        """Pass the outcomes of a request to its task. A task that waits for several requests continues after the last
        of them."""
        outcomes: list[Any] = request.outcomes
        if request.failed:
            outcomes = [
                self._error(request, part, outcome) if type(outcome) is Failure else outcome
                for part, outcome in enumerate(outcomes)
            ]
        outcome_or_list = outcomes if request.is_list else outcomes[0]
        owner = request.owner
        if type(owner) is _WaitingTask:
            owner.outcomes[request.place] = outcome_or_list
            owner.missing -= 1
            if not owner.missing:
                self._step(owner.task, owner.outcomes)
        else:
            self._step(owner, outcome_or_list)

    def _error(self, request: Request, part: int, failure: Failure) -> IbkeysError:
        """Return the error that a task gets for a part that has no reply."""
        limit = failure.limit
        if not limit:
            from ibkeys.client.request_errors import failure_error  # imported late as in _refusal

            return failure_error(request, part, failure)
        if limit not in self._limit_messages:  # One string for each limit, because very many errors may hold it.
            self._limit_messages[limit] = f"not sent: {self.limits.describe_reached(limit)}"
        return LimitReached(self._limit_messages[limit], limit)


def _refusal(request: Request, part: int, mad: bytes) -> IbkeysError:
    from ibkeys.client.request_errors import status_error  # Only the first error loads the code for messages.

    return status_error(request, part, mad)


def _is_short_answer(mad: bytes) -> bool:
    """Return whether *mad* is an SA MAD of less than 256 bytes: OpenSM's answers through libumad2sim end with their
    data."""
    return HEADER_SIZE <= len(mad) < MAD_SIZE and mad[at.MGMT_CLASS] == SUBN_ADM


class _WaitingTask:
    """A task that waits for a list of requests. ``missing``: how many of them have no outcome yet."""

    __slots__ = ("missing", "outcomes", "task")

    def __init__(self, task: Task, requests: Sequence[Request]) -> None:
        self.task = task
        self.missing = len(requests)
        self.outcomes: list[SmpOutcome | list[SmpOutcome] | None] = [None] * self.missing


def _is_keyed(mad: bytes) -> bool:
    return mad[at.M_KEY] != _NO_KEY and mad[at.MGMT_CLASS] in SMP_CLASSES


def _with_random_tid(mad: bytes) -> bytes:
    return mad[: at.LOWER_TID.start] + random.randbytes(4) + mad[at.LOWER_TID.stop :]
