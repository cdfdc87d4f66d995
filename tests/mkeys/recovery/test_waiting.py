"""When a locked port is asked again, and where known links lead."""

from __future__ import annotations

import pytest

from ibkeys.mkeys.recovery.routes import find_routes, hidden_behind
from ibkeys.mkeys.recovery.timing import (
    LATE,
    LEAST_PATIENCE,
    MOST_GETS,
    UNKNOWN_PATIENCE,
    most_gets,
    next_get_time,
    seconds_to_wait,
)


def test_a_port_is_asked_when_each_known_lease_would_be_over_and_then_at_growing_distances() -> None:
    asked, last = [], 100.0
    for _ in range(7):
        due = next_get_time(100.0, last, {60, 15})
        assert due is not None
        assert due > last
        asked.append(due - 100 - LATE)
        last = due
    assert asked == pytest.approx([15, 60, 60.5, 61, 62, 64, 68])


def test_while_no_lease_is_known_no_port_is_due() -> None:
    assert next_get_time(0.0, 0.0, ()) is None


def test_a_question_a_little_before_its_time_is_not_repeated_for_a_rounding_error() -> None:
    due = next_get_time(0.0, 15 + LATE - 1e-12, {15})
    assert due == pytest.approx(15 + LATE + 0.5)


def test_patience() -> None:
    assert seconds_to_wait((), None) == UNKNOWN_PATIENCE
    assert seconds_to_wait((15, 20), None) == LEAST_PATIENCE
    assert seconds_to_wait((15, 600), None) == 1200
    assert seconds_to_wait((15, 600), 30) == 30


@pytest.mark.parametrize(("leases", "closed"), [((), 1), ((15,), 1), ((15,), 10_000), (range(1, 500), 5)])
def test_questions_to_one_port_are_bounded(leases: tuple[int, ...], closed: int) -> None:
    assert 0 < most_gets(leases, seconds_to_wait(leases, None), closed) <= MOST_GETS


def both(*links: tuple[int, int, int, int]) -> dict[tuple[int, int], tuple[int, int]]:
    ends = [((a, b), (c, d)) for a, b, c, d in links]
    return {near: far for one, other in ends for near, far in ((one, other), (other, one))}


# host 1 - switch 10 - switch 20 - hosts 2 and 3; switch 10 - switch 30 - host 4; switch 30 - switch 20
LINKS = both((1, 1, 10, 1), (10, 2, 20, 1), (20, 2, 2, 1), (20, 3, 3, 1), (10, 3, 30, 1), (30, 2, 4, 1), (30, 3, 20, 4))


def test_routes_are_the_shortest_to_everybody() -> None:
    assert find_routes(LINKS, (1, 1)) == {
        1: (),
        10: (1,),
        20: (1, 2),
        30: (1, 3),
        2: (1, 2, 2),
        3: (1, 2, 3),
        4: (1, 3, 2),
    }


def test_routes_from_a_switch_begin_at_any_of_its_ports() -> None:
    assert find_routes(LINKS, (20, 0))[1] == (1, 1)


def test_routes_from_the_second_port_of_a_node_do_not_begin_at_the_first() -> None:
    assert find_routes(LINKS | both((1, 2, 50, 1)), (1, 2)) == {1: (), 50: (2,)}


def test_nothing_is_more_than_63_hops_away() -> None:
    chain = both(*((number, 2, number + 1, 1) for number in range(1, 100)))
    assert max(map(len, find_routes(chain, (1, 2)).values())) == 63


def test_what_is_behind_a_node_is_what_only_it_leads_to() -> None:
    assert hidden_behind(LINKS, (1, 1), [20]) == {2, 3}
    assert hidden_behind(LINKS, (1, 1), [30]) == {4}
    assert hidden_behind(LINKS, (1, 1), [10]) == {20, 30, 2, 3, 4}
    assert hidden_behind(LINKS, (1, 1), [2]) == set()
