"""The SMPs in flight: their limit, and the attempts that were sent and have no outcome yet."""

from __future__ import annotations

from itertools import chain, islice
from typing import Final

from ibkeys.client.request import Request

MAX_WINDOW: Final = 64
"""Most SMPs in flight unless the user gives another limit."""
FIRST_WINDOW: Final = 16
LEAST_WINDOW: Final = 4
LEAST_PATIENCE: Final = 0.02
"""Seconds; an SMA answers faster than this unless it is busy, so an older SMP is waiting, not travelling."""
GRACE: Final = 0.5
"""Seconds beyond an attempt's timeout that the kernel gets to report it, before the attempt is given up without it."""

Attempt = tuple[Request, int, int, float, float]
"""A part of a request that was sent: request, part, attempts with this one, times of the first one and of this one."""


class Window:
    """A bound that grows by one with each reply, and halves where a request was lost or the device had no room for it.

    ``most``: the most it grows to. ``size``: how many SMPs may be in flight now. ``smoothed_rtt``: seconds, the average
    of the last round trips; 0 before the first one.

    ``set_patience``: a patience in seconds in place of the one computed from round trips, where most of the queried
    nodes will be silent: at most size / patience SMPs are then sent in one second. None: none is set. With a user's own
    bound it has no effect.
    """

    __slots__ = ("_is_users", "_least", "_narrowed_at", "most", "set_patience", "size", "smoothed_rtt")

    def __init__(self, users: int | None = None) -> None:
        """*users* is the user's own bound on requests in flight, kept exactly: silent ones count until their timeout.
        None: `MAX_WINDOW`."""
        self._is_users = users is not None
        self.most = users or MAX_WINDOW
        self._least = min(LEAST_WINDOW, self.most)
        self.size = min(FIRST_WINDOW, self.most)
        self.smoothed_rtt = 0.0
        self.set_patience: float | None = None
        self._narrowed_at = -1.0

    @property
    def patience(self) -> float:
        """Seconds after which a request in flight no longer fills the window."""
        if self._is_users:
            return float("inf")
        return self.set_patience or max(LEAST_PATIENCE, 8 * self.smoothed_rtt)

    def grow(self, replies: int) -> None:
        """Widen the window by the number of *replies* that came in."""
        self.size = min(self.most, self.size + replies)

    def narrow(self) -> None:
        """Halve the window: the device had no room for a request."""
        self.size = max(self._least, self.size // 2)

    def narrow_for_loss(self, sent: float, now: float) -> None:
        """Halve the window for a request that was sent at *sent* and lost.

        Not if it was sent before the last time the window was halved, because it met the same congestion.
        """
        if sent > self._narrowed_at:
            self.narrow()
            self._narrowed_at = now


class Outstanding:
    """Attempts by TransactionID (the lower half), in the order of sending, in two dictionaries.

    Those in ``flying`` fill the window, those in ``overdue`` have waited longer than its patience.
    """

    __slots__ = ("flying", "overdue")

    def __init__(self) -> None:
        self.flying: dict[int, Attempt] = {}
        self.overdue: dict[int, Attempt] = {}

    def __len__(self) -> int:
        return len(self.flying) + len(self.overdue)

    def get(self, tid: int) -> Attempt | None:
        """Return the attempt with this TransactionID (the lower half); None if it has ended or never existed."""
        return self.flying.get(tid) or self.overdue.get(tid)

    def take(self, tid: int) -> Attempt | None:
        """Remove and return the attempt of `get`: it has ended."""
        return self.flying.pop(tid, None) or self.overdue.pop(tid, None)

    def let_go_of_old_ones(self, now: float, patience: float) -> None:
        """Move the attempts of ``flying`` that were sent *patience* seconds ago or earlier to ``overdue``."""
        old = []
        for tid, attempt in self.flying.items():
            if attempt[-1] + patience > now:  # rounded as in `next_move`, otherwise a virtual clock would not advance
                break
            old.append(tid)
        for tid in old:
            self.overdue[tid] = self.flying.pop(tid)

    def take_expired(self, now: float) -> list[Attempt]:
        """Remove and return the attempts whose timeout and grace are over at *now*."""
        over = []
        for attempts in (self.overdue, self.flying):
            for tid, (request, _, _, _, sent) in attempts.items():
                if sent + request.envelope.timeout + GRACE <= now:
                    over.append((attempts, tid))
                elif sent + GRACE > now:
                    break  # none of the following, which were sent later, can be over
        return [attempts.pop(tid) for attempts, tid in over]

    def expiries(self) -> list[float]:
        """Return the times at which the timeouts and graces of the oldest eight end, in no order.

        Nearly all have the same timeout, so none of the others ends much earlier; very many may be outstanding.
        """
        oldest = islice(chain(self.overdue.values(), self.flying.values()), 8)
        return [sent + request.envelope.timeout + GRACE for request, _, _, _, sent in oldest]

    def next_move(self, patience: float) -> float:
        """Return the time at which the oldest attempt of ``flying``, which is not empty, becomes overdue."""
        return next(iter(self.flying.values()))[-1] + patience
