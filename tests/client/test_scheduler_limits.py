"""Limits of the scheduler: time and SMPs of one node, and of the whole run."""

from __future__ import annotations

import pytest

from ibkeys.client.scheduler import PER_NODE, Scheduler
from tests.client.scheduling import answer, ask, failure_of, received, send


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
