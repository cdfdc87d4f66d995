"""The clock of what waits for another program, so that tests need not wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that only goes forward, and what lets its time pass; both in seconds."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


REAL_TIME: Final = Clock(time.monotonic, time.sleep)
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds between two looks, which grow from the first to the second while nothing comes nearer."""


class ProgressTimeout:
    """Waiting for something that comes nearer step by step, and giving it up after *seconds* without a step."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._nearest: int | None = None
        self._last, self._pause = clock.now(), FIRST_PAUSE

    def lasts(self, far: int) -> bool:
        """Pause before the next look; return False, without a pause, when it is to be given up. *far*: how much is
        still to come."""
        if self._nearest is None or far < self._nearest:
            self._nearest, self._last, self._pause = far, self._clock.now(), FIRST_PAUSE
        elif self._clock.now() - self._last >= self._seconds:
            return False
        self._clock.sleep(min(self._pause, max(0.0, self._last + self._seconds - self._clock.now())))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True
