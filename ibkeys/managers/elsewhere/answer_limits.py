"""Limits on the time and size of all answers of one host together.

Examining a host takes many questions. With these limits it ends, whatever the host does. A change through the host's
OpenSM asks a question now and then for hours, so the host regains time and bytes while it is asked nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ibkeys import files

HOST_SECONDS: Final = 300.0
HOST_BYTES: Final = 256 * files.MIB
"""The most bytes of all answers of one host together; `HOST_SECONDS` is the most time for them."""
_BYTES_BACK: Final = HOST_BYTES / HOST_SECONDS
"""The number of bytes that a host regains in each second without a question."""


class AnswerUsage:
    """The time and bytes that one host has used. *now*: returns monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seconds = self._bytes = 0.0
        self._since = now()

    def seconds_left(self) -> float:
        """Return how many seconds the next answer may take; 0 or less if the host has used its time. Call this right
        before each question: it also counts what the host has regained since the last answer."""
        now = self._now()
        pause, self._since = now - self._since, now
        self._seconds = max(0.0, self._seconds - pause)
        self._bytes = max(0.0, self._bytes - pause * _BYTES_BACK)
        return HOST_SECONDS - self._seconds

    def is_over_size(self) -> bool:
        """Return whether the host has sent more bytes than `HOST_BYTES`."""
        return self._bytes > HOST_BYTES

    def count_answer(self, size: int) -> None:
        """Add an answer of *size* bytes, and the time since the last call of `seconds_left`, to the bytes and time that
        the host has used."""
        now = self._now()
        self._seconds += now - self._since
        self._bytes += size
        self._since = now
