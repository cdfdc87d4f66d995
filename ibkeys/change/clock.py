"""A clock for code that waits for another program, and the loops that wait. Tests replace the clock, so they do not
wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Clock:
    """A monotonic clock and a sleep function, both in seconds."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


REAL_TIME: Final = Clock(time.monotonic, time.sleep)
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Shortest and longest seconds between two checks; the pause grows while there is no progress."""


class ProgressTimeout:
    """A timeout that restarts on progress: waiting ends after *seconds* without progress."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._least: int | None = None
        self._last, self._pause = clock.now(), FIRST_PAUSE

    def pause(self, left: int) -> bool:
        """Sleep before the next check and return True; return False at once when the time is over. *left*: the amount
        of work that is left. Progress is a smaller value than in all earlier calls."""
        if self._least is None or left < self._least:
            self._least, self._last, self._pause = left, self._clock.now(), FIRST_PAUSE
        elif self._clock.now() - self._last >= self._seconds:
            return False
        self._clock.sleep(min(self._pause, max(0.0, self._last + self._seconds - self._clock.now())))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True


def look_until(
    look: Callable[[], Result],
    count_left: Callable[[Result], int],
    clock: Clock,
    patience: float,
    check: Callable[[], object] = lambda: None,
) -> Result:
    """Call *look* until *count_left* of its result is 0 or has not fallen for *patience* seconds; return the last
    result. *check* is called before each look; an error of *look* or *check* ends the loop."""
    waiting = ProgressTimeout(clock, patience)
    while True:
        check()
        found = look()
        left = count_left(found)
        if not left or not waiting.pause(left):
            return found


def look_while(
    found: Result,
    look: Callable[[], Result],
    is_right: Callable[[Result], bool],
    clock: Clock,
    seconds: float,
    check: Callable[[], object] = lambda: None,
) -> Result:
    """Call *look* until its result is not right, or has been right for *seconds*; return the last result. *found*: the
    result of a look just now. *check* is called before each look; an error of *look* or *check* ends the loop."""
    end = clock.now() + seconds
    while is_right(found) and (left := end - clock.now()) > 0:
        clock.sleep(min(LONGEST_PAUSE, left))
        check()
        found = look()
    return found
