"""Programs on a running server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.sim.server.programs import RunningOpensm
from tests.sim.server.umad.programs import Program


@pytest.fixture
def program(running: RunningOpensm) -> Iterator[Callable[..., Program]]:
    """Open a port on a host, H-1 by default."""
    with ExitStack() as stack:
        yield lambda host="H-1", **options: stack.enter_context(Program(running.name, host, **options))
