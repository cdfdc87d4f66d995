"""The times at which a locked port is read again, by what is known about its lease (IBA 14.2.4.2). No I/O and no clock.

A port that refuses an SMP starts its lease timer unless the timer runs already, and further refusals do not start the
timer again. So an early read costs a violation but no time. A silent port does not show its lease. So it is read
whenever one of the leases that are known in this fabric would be over, and after the longest at growing intervals. In
between, a few ports are read early, in turn: their timers may have run before, and the first port that opens shows a
lease.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

LATE: Final = 0.1
"""A port is read so many seconds after the end of its lease, because its clock differs from the clock of this host."""
LEAST_PAUSE: Final = 0.5
"""Minimum time between two Gets to a port whose lease should be over, in seconds."""
ASKED_EARLY: Final = 16
"""Number of silent ports that are read in one round before their leases should be over."""
LEAST_EARLY_PAUSE: Final = 1.0
"""Minimum time between two rounds of early reads, in seconds."""
EARLY_SHARE: Final = 0.1
"""The time between two rounds of early reads, as a share of the time that the ports have been waited for."""
MOST_GETS: Final = 64
"""Most SMPs without its key that one silent port gets, because each counts a violation."""
LEAST_PATIENCE: Final = 120.0
"""Minimum time for which a silent port is waited for, in seconds, however short the known leases are: the lease of this
port may be longer."""
UNKNOWN_PATIENCE: Final = 3600.0
"""The time for which a silent port is waited for if no lease of the fabric is known, in seconds."""

CLOCK_ROUNDING: Final = 1e-6
"""The rounding error of a time, in seconds."""
SOON: Final = 2.0
"""A port should have been found open so many seconds after the end of its lease."""


def next_get_time(started: float, last: float, leases: Collection[int]) -> float | None:
    """Return the time at which a port is to be read again; None while no lease is known. *started*: the latest time at
    which its lease began; *last*: the time at which it was last read; *leases*: its possible leases, in seconds.
    """
    for lease in sorted(leases):
        if started + lease + LATE > last + CLOCK_ROUNDING:
            return started + lease + LATE
    if not leases:
        return None
    overdue = last - (started + max(leases) + LATE)
    return last + max(LEAST_PAUSE, overdue)


def seconds_to_wait(leases: Collection[int], wait: float | None) -> float:
    """Return the seconds for which a silent port is waited for. *leases*: its possible leases, in seconds; *wait*: the
    seconds that the user chose, which are returned then, or None."""
    if wait is not None:
        return wait
    return max(LEAST_PATIENCE, 2.0 * max(leases)) if leases else UNKNOWN_PATIENCE


def most_gets(leases: Collection[int], seconds: float, closed: int) -> int:
    """Return the most SMPs that a silent port gets within *seconds* of waiting. *leases*: the known leases, in seconds;
    *closed*: the number of silent ports. While no lease is known, any may become known, so it is `MOST_GETS`."""
    if not leases:
        return MOST_GETS
    asked, last = 0, 0.0
    while (due := next_get_time(0.0, last, leases)) is not None and due < seconds:
        asked, last = asked + 1, due
    rounds, now = 0, 0.0
    while (now := next_early_round(0.0, now)) < seconds and rounds < MOST_GETS:
        rounds += 1
    turns = -(-rounds * ASKED_EARLY // closed) if closed > ASKED_EARLY else rounds
    return min(MOST_GETS, asked + turns)


def next_early_round(since: float, now: float, leases: Collection[int] = ()) -> float:
    """Return the time of the next round of early reads, after a round at *now*. *since*: the time at which the waiting
    began. If *leases* (seconds) are known, ports are also read when these should be over, so the rounds are rarer: they
    only find a port whose timer ran before.
    """
    return now + max(LEAST_EARLY_PAUSE, EARLY_SHARE * (now - since), min(leases, default=0) / 3)
