"""When to ask a locked port again: the lease and what is known of it. No I/O and no clock (IBA 14.2.4.2).

A port that refuses an SMP starts its lease timer unless it runs already, and further refusals do not start it anew: so
asking early costs a violation and no time. A port that is silent does not tell its lease. It is asked when each lease
that this fabric is known to have would be over, and then at growing distances; and a few ports, in turn, are asked
now and then, because their timers may have run before, and to learn a lease from the first that opens.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

LATE: Final = 0.1
"""Seconds after the end of a lease that a port is asked: its clock is another one."""
LEAST_PAUSE: Final = 0.5
"""Seconds between two questions to a port whose lease should be over."""
SCOUTS: Final = 16
"""How many silent ports are asked, in turn, at one time before their leases should be over."""
LEAST_SCOUTING: Final = 1.0
SCOUTING: Final = 0.1
"""Scouts go out after each tenth of the time that has been waited, but not more often than each `LEAST_SCOUTING` s."""
MOST_QUESTIONS: Final = 64
"""SMPs without its key that one silent port gets at most: each counts a violation."""
LEAST_PATIENCE: Final = 120.0
"""Seconds that a silent port is waited for, however short the leases known are: its own may be another."""
UNKNOWN_PATIENCE: Final = 3600.0
"""The same where no lease of the fabric is known."""

DUE: Final = 1e-6
"""Seconds by which a clock may be rounded."""
SOON: Final = 2.0
"""Seconds after the end of its lease within which a port should have been seen open."""


def next_question(started: float, last: float, leases: Collection[int]) -> float | None:
    """Return when to ask a port again that was asked at *last* and whose lease began at *started* at the latest.

    *leases*: seconds that it may be. None while none is known.
    """
    for lease in sorted(leases):
        if started + lease + LATE > last + DUE:
            return started + lease + LATE
    if not leases:
        return None
    overdue = last - (started + max(leases) + LATE)
    return last + max(LEAST_PAUSE, overdue)


def patience(leases: Collection[int], wait: float | None) -> float:
    """Return the seconds after which a silent port is given up: *wait* where the user said so."""
    if wait is not None:
        return wait
    return max(LEAST_PATIENCE, 2.0 * max(leases)) if leases else UNKNOWN_PATIENCE


def most_questions(leases: Collection[int], seconds: float, closed: int) -> int:
    """Return how many SMPs one of *closed* silent ports gets at most within *seconds* of waiting."""
    asked, last = 0, 0.0
    while (due := next_question(0.0, last, leases)) is not None and due < seconds:
        asked, last = asked + 1, due
    waves, now = 0, 0.0
    while (now := next_scouting(0.0, now)) < seconds and waves < MOST_QUESTIONS:
        waves += 1
    turns = -(-waves * SCOUTS // closed) if closed > SCOUTS else waves
    return min(MOST_QUESTIONS, asked + turns)


def next_scouting(since: float, now: float, leases: Collection[int] = ()) -> float:
    """Return when scouts go out again that went out at *now*, after waiting from *since* on.

    Where leases are known the others have times of their own, and only a timer that ran before ends earlier.
    """
    return now + max(LEAST_SCOUTING, SCOUTING * (now - since), min(leases, default=0) / 3)
