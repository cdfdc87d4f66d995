"""The scheduler, by plain calls: time is an argument, the wire is this file."""

from __future__ import annotations

import collections
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.client.request import Envelope, Failure, Request, Way
from ibkeys.client.scheduler import GRACE, LEAST_WINDOW, MAX_WINDOW, PER_NODE, Scheduler
from ibkeys.mad.smp import build_smp


def ask(node: object = "n", modifier: int = 0, retries: int = 2, timeout: float = 1.0) -> Request:
    return Request.of_mad(node, build_smp(1, 0x15, modifier, path=(1,)), 0xFFFF, timeout, retries)  # type: ignore[arg-type]


def ask_each(node: object, parts: int, retries: int = 2) -> Request:
    """Return a request for the same attribute at the modifiers 0, 1, ..."""
    return Request(Envelope(node, build_smp(1, 0x15, path=(1,)), Way(0xFFFF, 1.0, retries)), 0x15, range(parts))  # type: ignore[arg-type]


def answer(mad: bytes) -> bytes:
    return bytes((mad[0], mad[1], mad[2], 0x81, 0x80)) + mad[5:]


def send(scheduler: Scheduler, now: float = 0.0) -> list[tuple[int, bytes]]:
    return [(int.from_bytes(mad[12:16]), mad) for mad in (outgoing.mad for outgoing in scheduler.to_send(now))]


def received(scheduler: Scheduler, tid: int, mad: bytes, now: float) -> Request | None:
    """Let a reply come in. Return the request of which it was taken for an answer, None for a stray."""
    asked = scheduler.asked(tid, mad)
    if asked is None:
        return None
    scheduler.answered([(tid, mad)], now)
    return asked[0]


def failure_of(request: Request) -> Failure | None:
    [outcome] = request.outcomes
    return outcome if isinstance(outcome, Failure) else None


def test_a_reply_finishes_its_request() -> None:
    scheduler = Scheduler()
    request = ask()
    scheduler.submit(request)
    [(tid, mad)] = send(scheduler)
    assert int.from_bytes(mad[12:16]) == tid
    assert received(scheduler, tid, answer(mad), 0.1) is request
    assert request.outcomes == [answer(mad)]
    assert scheduler.idle


def test_lost_reply_is_retried_with_a_new_id_then_reported() -> None:
    scheduler = Scheduler()
    request = ask(retries=1)
    scheduler.submit(request)
    [(first, _)] = send(scheduler, 0.0)
    scheduler.timed_out(first, 1.0)
    [(second, _)] = send(scheduler, 1.0)
    assert second != first
    scheduler.timed_out(second, 2.0)
    assert scheduler.finished.popleft() is request
    assert request.outcomes == [Failure(attempts=2)]
    assert scheduler.idle


def test_an_attempt_that_the_kernel_forgets_ends_by_our_own_deadline() -> None:
    scheduler = Scheduler()
    request = ask(retries=0)
    scheduler.submit(request)
    send(scheduler, 0.0)
    scheduler.expire(1.0 + GRACE - 0.01)
    assert not scheduler.finished
    assert scheduler.next_deadline(1.0) == pytest.approx(GRACE)
    scheduler.expire(1.0 + GRACE)
    assert scheduler.finished.popleft() is request
    assert scheduler.statistics.lost_by_kernel == 1


def test_a_refused_send_is_not_retried() -> None:
    scheduler = Scheduler()
    request = ask()
    scheduler.submit(request)
    [(tid, _)] = send(scheduler)
    scheduler.not_sent(tid, 22)
    assert request.outcomes == [Failure(attempts=1, errno=22)]
    assert send(scheduler, 1.0) == []


def test_late_duplicate_and_foreign_replies_are_counted_not_fatal() -> None:
    scheduler = Scheduler()
    scheduler.submit(ask(retries=0))
    [(tid, mad)] = send(scheduler)
    other = build_smp(1, 0x11, path=(1,))
    assert received(scheduler, tid, answer(other), 0.1) is None  # same ID, another attribute
    assert received(scheduler, tid, mad, 0.1) is None  # a request, no response
    assert received(scheduler, tid ^ 1, answer(mad), 0.1) is None  # never asked
    assert received(scheduler, tid, answer(mad), 0.1) is not None
    assert received(scheduler, tid, answer(mad), 0.2) is None  # duplicate
    scheduler.timed_out(tid, 1.0)  # the kernel's timeout crossed the reply
    assert scheduler.statistics.strays == 5


def test_a_node_gets_one_request_at_a_time_until_it_answers() -> None:
    scheduler = Scheduler()
    for modifier in range(10):
        scheduler.submit(ask(modifier=modifier))
    [(tid, mad)] = send(scheduler)
    assert send(scheduler) == []
    received(scheduler, tid, answer(mad), 0.001)
    assert len(send(scheduler)) == PER_NODE


def test_in_flight_is_bounded_for_each_node_and_over_all() -> None:
    scheduler = Scheduler()
    for node in range(100):
        for modifier in range(10):
            scheduler.submit(ask(node, modifier))
    flying: dict[int, bytes] = {}
    rng = random.Random(1)
    nodes_of: dict[int, int] = {}
    widest = 0
    now = 0.0
    while not scheduler.idle:
        for tid, mad in send(scheduler, now):
            flying[tid] = mad
            nodes_of[tid] = scheduler.flying[tid][0].envelope.node  # type: ignore[assignment]
        per_node = collections.Counter(nodes_of[tid] for tid in flying).values()
        assert max(per_node, default=0) <= PER_NODE
        widest = max(widest, len(flying))
        assert len(flying) <= MAX_WINDOW
        tid = rng.choice(list(flying))
        now += 0.00001
        assert received(scheduler, tid, answer(flying.pop(tid)), now) is not None
    assert widest == MAX_WINDOW


def test_a_fixed_window_of_one_is_kept() -> None:
    scheduler = Scheduler(max_window=1)
    for node in range(3):
        scheduler.submit(ask(node))
    assert len(send(scheduler)) == 1
    assert send(scheduler) == []


def test_a_fixed_window_counts_silent_requests_until_their_timeout() -> None:
    scheduler = Scheduler(max_window=2)
    for node in range(4):
        scheduler.submit(ask(node))
    assert len(send(scheduler, 0.0)) == 2
    assert send(scheduler, 0.9) == []


def test_the_window_halves_on_a_timeout_of_a_node_that_answered_before() -> None:
    scheduler = Scheduler()
    scheduler.submit(ask("alive"))
    [(tid, mad)] = send(scheduler, 0.0)
    received(scheduler, tid, answer(mad), 0.001)
    before = scheduler.window
    scheduler.submit(ask("alive", 1))
    [(tid, _)] = send(scheduler, 0.002)
    scheduler.timed_out(tid, 1.0)
    assert scheduler.window == before // 2
    assert scheduler.window >= LEAST_WINDOW


def test_timeouts_of_nodes_that_never_answered_leave_the_window() -> None:
    scheduler = Scheduler()
    before = scheduler.window
    for node in range(before):
        scheduler.submit(ask(node, retries=0))
    for tid, _ in send(scheduler):
        scheduler.timed_out(tid, 1.0)
    assert scheduler.window == before


def test_many_silent_nodes_together_cost_one_timeout_budget() -> None:
    """500 silent nodes with 20 requests each: virtual time until all are given up, against 3 attempts of 1 s."""
    scheduler = Scheduler()
    requests = [ask(node, modifier) for node in range(500) for modifier in range(20)]
    for request in requests:
        scheduler.submit(request)
    now, pending = 0.0, []
    while not scheduler.idle:
        pending += [(now + 1.0, tid) for tid, _ in send(scheduler, now)]
        scheduler.finished.clear()
        wait = scheduler.next_deadline(now)
        due = min((at for at, _ in pending), default=now + wait)
        now = min(due, now + wait) if wait else due
        for at, tid in [entry for entry in pending if entry[0] <= now]:
            pending.remove((at, tid))
            scheduler.timed_out(tid, now)
    assert all(failure_of(request) for request in requests)
    assert now < 2 * 3 * 1.0
    assert scheduler.statistics.sent <= 500 * 3


def test_a_silent_node_fails_what_is_queued_for_it_without_sending() -> None:
    scheduler = Scheduler(max_window=1)
    first, second = ask(retries=0), ask(modifier=1, retries=0)
    scheduler.submit(first)
    scheduler.submit(second)
    [(tid, _)] = send(scheduler)
    scheduler.timed_out(tid, 1.0)
    assert second.outcomes == [Failure(attempts=0, silent=True)]
    third = ask(modifier=2)
    scheduler.submit(third)
    assert failure_of(third)
    scheduler.finished.clear()
    scheduler.forget_nodes()
    scheduler.submit(ask(modifier=3))
    assert len(send(scheduler, 2.0)) == 1


def test_the_loss_of_a_set_does_not_make_its_node_silent() -> None:
    scheduler = Scheduler()
    lost = Request.of_mad("n", build_smp(2, 0x16, 0, path=(1,)), 0xFFFF, 1.0, 0)
    read = ask()
    scheduler.submit(lost)
    scheduler.submit(read)
    [(tid, _)] = send(scheduler, 0.0)
    scheduler.timed_out(tid, 1.0)
    assert scheduler.finished.popleft() is lost
    [(tid, mad)] = send(scheduler, 1.0)
    assert received(scheduler, tid, answer(mad), 1.1) is read


def test_one_unanswered_attribute_does_not_silence_a_node_that_answers_others() -> None:
    scheduler = Scheduler()
    scheduler.submit(ask())
    [(tid, mad)] = send(scheduler, 0.0)
    received(scheduler, tid, answer(mad), 0.001)
    scheduler.submit(ask(modifier=1, retries=0))
    scheduler.submit(ask(modifier=2))
    (lost, _), (tid, mad) = send(scheduler, 0.002)
    received(scheduler, tid, answer(mad), 0.01)
    scheduler.timed_out(lost, 1.0)
    later = ask(modifier=3)
    scheduler.submit(later)
    assert later.outcomes == [None]


def test_parts_of_a_request_are_as_many_in_flight_as_a_node_may_have() -> None:
    """Each is a MAD of its own, with its own modifier; what came stands in the order of the modifiers."""
    scheduler = Scheduler()
    request = ask_each("n", 10)
    scheduler.submit(request)
    widths, now = [], 0.0
    while not scheduler.idle:
        sent = send(scheduler, now)
        widths.append(len(sent))
        ended = [received(scheduler, tid, answer(mad), now := now + 0.001) for tid, mad in reversed(sent)]
        assert ended == [request] * len(sent)
    assert widths == [1, PER_NODE, PER_NODE, 1]
    assert [int.from_bytes(mad[20:24]) for mad in request.outcomes if isinstance(mad, bytes)] == list(range(10))
    assert not request.failed
    assert not scheduler.finished


def test_a_request_is_finished_by_its_last_part_whatever_becomes_of_it() -> None:
    scheduler = Scheduler()
    request = ask_each("n", 3, retries=0)
    scheduler.submit(request)
    [(tid, _)] = send(scheduler)
    assert scheduler.answered([(tid, b"data")], 0.1) == []
    (lost, _), (refused, _) = send(scheduler, 0.1)
    scheduler.not_sent(refused, 22, 0.1)
    assert not scheduler.finished
    scheduler.timed_out(lost, 1.1)
    assert list(scheduler.finished) == [request]
    assert request.outcomes == [b"data", Failure(attempts=1), Failure(attempts=1, errno=22)]
    assert request.failed


def test_the_parts_of_a_request_to_a_silent_node_cost_one_of_them() -> None:
    scheduler = Scheduler()
    request = ask_each("n", 5, retries=1)
    scheduler.submit(request)
    for now in (0.0, 1.0):
        [(tid, _)] = send(scheduler, now)
        scheduler.timed_out(tid, now + 1.0)
    assert list(scheduler.finished) == [request]
    assert request.outcomes == [Failure(attempts=2)] + 4 * [Failure(attempts=0, silent=True)]
    assert scheduler.statistics.sent == 2


def test_an_answer_to_one_part_is_none_to_another() -> None:
    scheduler = Scheduler()
    scheduler.submit(ask_each("n", 3))
    [(tid, mad)] = send(scheduler)
    received(scheduler, tid, answer(mad), 0.1)
    (one, of_one), (other, of_other) = send(scheduler, 0.1)
    assert scheduler.asked(one, answer(of_other)) is None
    assert scheduler.asked(other, answer(of_one)) is None
    assert scheduler.asked(tid, answer(mad)) is None  # it was answered before
    assert scheduler.statistics.strays == 3


def test_what_the_device_had_no_room_for_does_not_use_up_an_attempt() -> None:
    scheduler = Scheduler()
    request = ask(retries=0)
    scheduler.submit(request)
    for now in (0.0, 0.1, 0.2):
        [(tid, _)] = send(scheduler, now)
        scheduler.not_sent(tid, 11, now)
    [(tid, _)] = send(scheduler, 0.3)
    scheduler.timed_out(tid, 1.3)
    assert request.outcomes == [Failure(attempts=1)]


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=40),
)
def test_every_request_ends_exactly_once_whatever_the_wire_does(seed: int, wanted: list[tuple[int, int, int]]) -> None:
    """Replies, duplicates, timeouts, refusals and silence in any order: nothing is lost, nothing ends twice."""
    rng = random.Random(seed)
    scheduler = Scheduler(max_window=rng.choice([None, 1, 3, 64]), first_tid=0xFFFF_FFF0)
    requests = [ask_each(node, parts, retries) for node, retries, parts in wanted]
    for request in requests:
        scheduler.submit(request)
    ended: list[Request] = []
    flying: dict[int, bytes] = {}
    now = 0.0
    while not scheduler.idle:
        flying.update(send(scheduler, now))
        now += rng.random()
        for tid in rng.sample(sorted(flying), rng.randint(0, len(flying))):
            fate = rng.randrange(5)
            if fate <= 1:
                if scheduler.asked(tid, answer(flying[tid])):
                    ended += scheduler.answered([(tid, flying[tid])], now)
            elif fate == 2:
                scheduler.timed_out(tid, now)
            elif fate == 3 and tid in scheduler.flying:
                scheduler.not_sent(tid, 22)
            if fate != 4 and rng.random() < 0.7:
                flying.pop(tid, None)
        scheduler.expire(now)
        while scheduler.finished:
            ended.append(scheduler.finished.popleft())
    assert sorted(map(id, ended)) == sorted(map(id, requests))
    for request in requests:
        failures = [outcome for outcome in request.outcomes if isinstance(outcome, Failure)]
        assert all(failure.attempts <= request.retries + 1 for failure in failures)
        assert request.failed == bool(failures)
        replies = [(part, outcome) for part, outcome in enumerate(request.outcomes) if isinstance(outcome, bytes)]
        assert len(failures) + len(replies) == len(request.modifiers)
        assert all(int.from_bytes(mad[20:24]) == part for part, mad in replies)
    assert not scheduler.flying
    assert not scheduler.overdue


# --- limits ----------------------------------------------------------------------------------------------------------


def failures(scheduler: Scheduler) -> list[tuple[int, str, bool]]:
    """Return (attempts, limit, silent) of what has failed since the last call."""
    found = []
    while scheduler.finished:
        failure = failure_of(scheduler.finished.popleft())
        assert failure is not None
        found.append((failure.attempts, failure.limit, failure.silent))
    return found


def test_a_node_that_has_taken_its_time_is_asked_no_more() -> None:
    scheduler = Scheduler(node_time=5.0)
    for modifier in range(40):
        scheduler.submit(ask(modifier=modifier))
    now, sent = 0.0, 0
    while not scheduler.idle:
        flying = send(scheduler, now)
        sent += len(flying)
        now += 0.9
        for tid, mad in flying:
            received(scheduler, tid, answer(mad), now)
        if scheduler.finished:
            break
    # One alone, then four at a time: the sixth round passes 5 s.
    assert (sent, now) == (1 + 5 * PER_NODE, pytest.approx(6 * 0.9))
    assert failures(scheduler) == [(0, "node_time", False)] * (40 - sent)
    scheduler.submit(ask("another"))
    scheduler.submit(ask(modifier=99))
    assert failures(scheduler) == [(0, "node_time", False)]
    [(tid, mad)] = send(scheduler, now)
    received(scheduler, tid, answer(mad), now)
    scheduler.forget_nodes()
    scheduler.submit(ask(modifier=99))
    assert len(send(scheduler, now)) == 1


def test_time_in_which_nothing_is_on_its_way_to_a_node_is_not_its_own() -> None:
    scheduler = Scheduler(node_time=5.0)
    for now in range(0, 1000, 10):
        scheduler.submit(ask())
        [(tid, mad)] = send(scheduler, now)
        received(scheduler, tid, answer(mad), now + 0.01)
    assert not failures(scheduler)


def test_waiting_in_vain_is_time_too() -> None:
    scheduler = Scheduler(node_time=2.5)
    scheduler.submit(ask(retries=9))
    now = 0.0
    while not scheduler.idle:
        for tid, _ in send(scheduler, now):
            scheduler.timed_out(tid, now := now + 1.0)
        if scheduler.finished:
            assert failures(scheduler) == [(3, "", False)]  # it was sent and had no reply


def test_a_node_is_sent_so_many_attempts() -> None:
    scheduler = Scheduler(node_smps=10)
    for modifier in range(40):
        scheduler.submit(ask(modifier=modifier))
    failed = []
    sent = 0
    while not scheduler.idle:
        for tid, mad in send(scheduler):
            sent += 1
            received(scheduler, tid, answer(mad), 0.001)
        failed += failures(scheduler)
    assert 10 <= sent < 10 + PER_NODE
    assert set(failed) == {(0, "node_smps", False)}
    assert len(failed) == 40 - sent


@pytest.mark.parametrize("limit", ["time", "smps"])
def test_a_run_that_is_over_fails_what_waits_and_what_is_submitted(limit: str) -> None:
    scheduler = Scheduler()
    for node in range(100):
        scheduler.submit(ask(node))
        scheduler.submit(ask(node, 1))
    flying = send(scheduler)
    if limit == "time":
        scheduler.deadline = 1.0
    else:
        scheduler.most_sent = len(flying)
    assert send(scheduler, 1.0) == []
    assert scheduler.ended == limit
    assert failures(scheduler) == [(0, limit, False)] * (200 - len(flying))
    scheduler.submit(ask("new"))
    assert failures(scheduler) == [(0, limit, False)]
    for tid, mad in flying:
        assert received(scheduler, tid, answer(mad), 1.1) is not None  # what is on its way may still arrive
    assert scheduler.idle


def test_giving_up_many_nodes_does_not_look_through_all_that_waits() -> None:
    """What is next to go to a node that was given up fails in its turn, and those behind it are sent in its place."""
    scheduler = Scheduler(max_window=4)
    scheduler.submit(ask("n"))
    [(tid, mad)] = send(scheduler)
    received(scheduler, tid, answer(mad), 0.1)
    for modifier in range(6):
        scheduler.submit(ask("n", modifier, retries=0))
    scheduler.submit(ask("other"))
    first = send(scheduler, 0.2)
    assert len(first) == 4
    for tid, _ in first:
        scheduler.timed_out(tid, 1.2)
    [(_, mad)] = send(scheduler, 1.2)
    assert [failure[2] for failure in failures(scheduler)].count(True) == 2
