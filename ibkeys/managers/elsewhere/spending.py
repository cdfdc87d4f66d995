"""Limits on the time and size of one host's answers.

Inspecting a host is a series of questions and ends at these limits whatever the host does. A change through its OpenSM
may ask now and then for hours, so the budget refills while nothing is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ibkeys import files

HOST_SECONDS: Final = 300.0
HOST_BYTES: Final = 256 * files.MIB
"""The most bytes of the answers of one host together. `HOST_SECONDS` is the most time for them."""
_BYTES_BACK: Final = HOST_BYTES / HOST_SECONDS
"""Bytes that the budget regains in each second without a question."""


class Spending:
    """The time and bytes spent on one host. *now*: seconds of a clock that only goes forward."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seconds = self._bytes = 0.0
        self._since = now()

    def seconds_left(self) -> float:
        """Return how many seconds the next answer may take; 0 or less: none are left. Call this right before the
        question."""
        now = self._now()
        pause, self._since = now - self._since, now
        self._seconds = max(0.0, self._seconds - pause)
        self._bytes = max(0.0, self._bytes - pause * _BYTES_BACK)
        return HOST_SECONDS - self._seconds

    def is_over_size(self) -> bool:
        """Return whether the host sent more bytes than it may."""
        return self._bytes > HOST_BYTES

    def count_answer(self, size: int) -> None:
        """Add an answer of *size* bytes, and the time since the last call of `seconds_left`, to the budget used."""
        now = self._now()
        self._seconds += now - self._since
        self._bytes += size
        self._since = now
