"""What `SmpClient.run` calls between the arrival of replies and the next SMPs."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from ibkeys.client.address import DirectedAddress
from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import Method
from tests.fabricsim import subnet, tool


def test_tasks_started_between_are_run_too_and_see_all_that_came() -> None:
    with tool(subnet("two-switch")) as fabric:
        client = fabric.client
        waiting: list[int] = []
        groups: list[int] = []
        answered: list[bytes] = []

        def first(number: int) -> Any:
            yield client.request(Method.GET, NodeInfo, 0, DirectedAddress((1,)), node=number)
            waiting.append(number)

        def second() -> Any:
            answered.append((yield client.request(Method.GET, NodeInfo, 0, DirectedAddress(()), node=object())))

        def between() -> None:
            if waiting:
                groups.append(len(waiting))
                for _ in waiting:
                    client.start(second())
                waiting.clear()

        client.run([first(number) for number in range(10)], between)
    assert sum(groups) == len(answered) == 10
    assert len(groups) < 10  # many at once


def test_it_is_called_even_when_there_is_no_task() -> None:
    with tool(subnet("two-switch")) as fabric:
        calls: list[int] = []
        fabric.client.run((), lambda: calls.append(1))
    assert calls == [1]


def test_when_it_raises_the_waiting_tasks_are_closed_from_the_outside_in() -> None:
    """The garbage collector may close the inner generator first, and then reports an error of the outer one."""
    with tool(subnet("two-switch")) as fabric:
        client = fabric.client
        closed: list[str] = []

        def inner() -> Any:
            try:
                yield client.request(Method.GET, NodeInfo, 0, DirectedAddress((1,)), node=object())
            finally:
                closed.append(inspect.getgeneratorstate(task))

        def outer() -> Any:
            yield from inner()

        def between() -> None:
            raise KeyboardInterrupt

        task = outer()
        with pytest.raises(KeyboardInterrupt):
            client.run([task], between)
        assert (closed, inspect.getgeneratorstate(task)) == ([inspect.GEN_RUNNING], inspect.GEN_CLOSED)
