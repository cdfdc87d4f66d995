"""Servers that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.sim.server.programs import RunningOpensm


@pytest.fixture
def run() -> Iterator[Callable[..., RunningOpensm]]:
    with ExitStack() as stack:
        yield lambda **options: RunningOpensm(stack, **options)


@pytest.fixture
def running(run: Callable[..., RunningOpensm]) -> Iterator[RunningOpensm]:
    running = run()
    yield running
    assert "internal errors" not in running.server.counts(), running.said
