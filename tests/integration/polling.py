"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.integration.ibsim import START_TIMEOUT


def wait_until(happened: Callable[[], object], timeout: float = START_TIMEOUT) -> None:
    deadline = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)
