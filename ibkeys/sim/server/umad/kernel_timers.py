"""The end of a timer of the kernel (Linux kernel/time/timer.c: calc_wheel_index, calc_index).

The kernel never ends a timer early. It rounds the end up, the more coarsely the longer the timer is. So a program that
waits for an answer as long as the kernel does gives up first. The programs that use libibmad do so.
"""

from __future__ import annotations

import math
from typing import Final

_TICKS: Final = 250
"""Ticks in a second (CONFIG_HZ of Debian 12)."""
_LONG: Final = 63
"""The ticks from which on ends are rounded up to a multiple of 8 ticks (LVL_START)."""
_STEP: Final = 8
"""The factor from one level of the timer wheel to the next, both of `_LONG` and of the granularity."""


def latest_end(seconds: float) -> float:
    """Return the latest time, in seconds from now, at which a timer of *seconds* ends."""
    ticks = math.ceil(seconds * _TICKS)
    granularity = 1
    while ticks >= _LONG * granularity:
        granularity *= _STEP
    return (ticks + granularity) / _TICKS
