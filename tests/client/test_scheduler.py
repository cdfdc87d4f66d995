"""The scheduler, by plain calls: time is an argument, and each test is the wire."""

from __future__ import annotations

import collections
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.client.in_flight import GRACE, LEAST_WINDOW, MAX_WINDOW
from ibkeys.client.request import Failure, Request
from ibkeys.client.scheduler import PER_NODE, Scheduler
from ibkeys.mad.smp import build_smp
from tests.client.scheduling import answer, ask, ask_each, failure_of, received, send


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
    assert scheduler.longest_wait(1.0) == pytest.approx(GRACE)
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
    for method in (0x80, 0x85, 0x92):  # a response, but to no Get and no Set
        assert received(scheduler, tid, mad[:3] + bytes((method,)) + mad[4:], 0.1) is None
    assert received(scheduler, tid ^ 1, answer(mad), 0.1) is None  # never asked
    assert received(scheduler, tid, answer(mad), 0.1) is not None
    assert received(scheduler, tid, answer(mad), 0.2) is None  # duplicate
    scheduler.timed_out(tid, 1.0)  # the kernel's timeout crossed the reply
    assert scheduler.statistics.strays == 8


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
            nodes_of[tid] = scheduler.outstanding.flying[tid][0].envelope.node  # type: ignore[assignment]
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
    before = scheduler.window.size
    scheduler.submit(ask("alive", 1))
    [(tid, _)] = send(scheduler, 0.002)
    scheduler.timed_out(tid, 1.0)
    assert scheduler.window.size == before // 2
    assert scheduler.window.size >= LEAST_WINDOW


def test_timeouts_of_nodes_that_never_answered_leave_the_window() -> None:
    scheduler = Scheduler()
    before = scheduler.window.size
    for node in range(before):
        scheduler.submit(ask(node, retries=0))
    for tid, _ in send(scheduler):
        scheduler.timed_out(tid, 1.0)
    assert scheduler.window.size == before


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
        wait = scheduler.longest_wait(now)
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
    assert scheduler.match_request(one, answer(of_other)) is None
    assert scheduler.match_request(other, answer(of_one)) is None
    assert scheduler.match_request(tid, answer(mad)) is None  # it was answered before
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
                if scheduler.match_request(tid, answer(flying[tid])):
                    ended += scheduler.answered([(tid, flying[tid])], now)
            elif fate == 2:
                scheduler.timed_out(tid, now)
            elif fate == 3 and tid in scheduler.outstanding.flying:
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
    assert not scheduler.outstanding
