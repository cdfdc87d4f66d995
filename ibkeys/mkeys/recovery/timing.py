"""The times at which a locked port is read again, from the knowledge about its lease. No I/O and no clock (IBA
14.2.4.2).

A port that refuses an SMP starts its lease timer unless it runs already, and further refusals do not start it again: so
an early read costs a violation but no time. A silent port does not show its lease. It is read when each lease that is
known in this fabric would be over, and then at growing intervals. A few ports, in turn, are read in between, because
their timers may have run before, and to learn a lease from the first that opens.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

LATE: Final = 0.1
"""Seconds after the end of a lease at which a port is read, because its clock differs from ours."""
LEAST_PAUSE: Final = 0.5
"""Seconds between two Gets to a port whose lease should be over."""
ASKED_EARLY: Final = 16
"""Number of silent ports that are read, in turn, at one time before their leases should be over."""
LEAST_EARLY_PAUSE: Final = 1.0
EARLY_SHARE: Final = 0.1
"""Some ports are read early each time the waiting time has grown by this share, but at most every `LEAST_EARLY_PAUSE`
s."""
MOST_QUESTIONS: Final = 64
"""Most SMPs without its key to one silent port: each counts a violation."""
LEAST_PATIENCE: Final = 120.0
"""Least seconds for which a silent port is waited for, however short the known leases are: its own may be longer."""
UNKNOWN_PATIENCE: Final = 3600.0
"""The same if no lease of the fabric is known."""

CLOCK_ROUNDING: Final = 1e-6
"""Seconds by which a clock may be rounded."""
SOON: Final = 2.0
"""Seconds after the end of its lease within which a port should have been found open."""


def next_question(started: float, last: float, leases: Collection[int]) -> float | None:
    """Return the time at which a port is to be read again that was read at *last* and whose lease began at *started* at
    the latest. *leases*: the possible lengths in seconds. None while none is known.
    """
    for lease in sorted(leases):
        if started + lease + LATE > last + CLOCK_ROUNDING:
            return started + lease + LATE
    if not leases:
        return None
    overdue = last - (started + max(leases) + LATE)
    return last + max(LEAST_PAUSE, overdue)


def patience(leases: Collection[int], wait: float | None) -> float:
    """Return the seconds after which a silent port is given up: *wait*, if the user gave it."""
    if wait is not None:
        return wait
    return max(LEAST_PATIENCE, 2.0 * max(leases)) if leases else UNKNOWN_PATIENCE


def most_questions(leases: Collection[int], seconds: float, closed: int) -> int:
    """Return the most SMPs that one of *closed* silent ports gets within *seconds* of waiting."""
    asked, last = 0, 0.0
    while (due := next_question(0.0, last, leases)) is not None and due < seconds:
        asked, last = asked + 1, due
    rounds, now = 0, 0.0
    while (now := next_early_round(0.0, now)) < seconds and rounds < MOST_QUESTIONS:
        rounds += 1
    turns = -(-rounds * ASKED_EARLY // closed) if closed > ASKED_EARLY else rounds
    return min(MOST_QUESTIONS, asked + turns)


def next_early_round(since: float, now: float, leases: Collection[int] = ()) -> float:
    """Return the time of the next round of early reads, after a round at *now* and waiting since *since*. If leases are
    known, ports have times of their own, and only a timer that ran before ends earlier.
    """
    return now + max(LEAST_EARLY_PAUSE, EARLY_SHARE * (now - since), min(leases, default=0) / 3)
