"""The SMPs in flight: the window that limits their number, and the attempts that have no outcome yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from ibkeys.client.request import Request

MAX_WINDOW: Final = 64
"""The most SMPs in flight, unless the user sets another limit."""
FIRST_WINDOW: Final = 16
LEAST_WINDOW: Final = 4
LEAST_PATIENCE: Final = 0.02
"""The least patience of a `Window` in seconds. An SMA answers faster unless it is busy."""
GRACE: Final = 0.5
"""Seconds that the kernel has, after the timeout of an attempt, to report the timeout. Then the attempt ends without a
report."""

Attempt = tuple[Request, int, int, float, float]
"""A part of a request that was sent: the request, the number of the part, the number of attempts including this one,
the time of the first attempt, and the time of this attempt."""


class Window:
    """A limit on the SMPs in flight. It grows by one with each reply, up to ``most``. It halves when the device has no
    room for a request, or a request to a node that had answered before is lost.

    ``size``: how many SMPs may be in flight now; ``most``: the highest size. ``smoothed_rtt``: the average of the last
    round trips in seconds; 0 before the first one.

    ``fixed_patience``: the `patience` in seconds, for runs in which most of the queried nodes will be silent; then at
    most size / patience SMPs are sent in one second. None: the patience is computed from round trips. It has no effect
    on a window of fixed size.
    """

    __slots__ = ("_is_fixed", "_least", "_narrowed_at", "fixed_patience", "most", "size", "smoothed_rtt")

    def __init__(self, fixed_size: int | None = None) -> None:
        """*fixed_size*: the highest size that the user set. It holds for silent requests too, which then count until
        their timeout. None: the window grows to `MAX_WINDOW`."""
        self._is_fixed = fixed_size is not None
        self.most = fixed_size or MAX_WINDOW
        self._least = min(LEAST_WINDOW, self.most)
        self.size = min(FIRST_WINDOW, self.most)
        self.smoothed_rtt = 0.0
        self.fixed_patience: float | None = None
        self._narrowed_at = -1.0

    @property
    def patience(self) -> float:
        """Seconds after which a request in flight no longer fills the window; infinite for a window of fixed size."""
        if self._is_fixed:
            return float("inf")
        return self.fixed_patience or max(LEAST_PATIENCE, 8 * self.smoothed_rtt)

    def grow(self, replies: int) -> None:
        """Widen the window by the number of *replies* that were received."""
        self.size = min(self.most, self.size + replies)

    def narrow(self) -> None:
        """Halve the window, but not to less than `LEAST_WINDOW` SMPs (or its highest size, if that is smaller)."""
        self.size = max(self._least, self.size // 2)

    def narrow_for_loss(self, sent: float, now: float) -> None:
        """Halve the window for a request that was sent at *sent* and is known as lost at *now*.

        A request that was sent before the window was halved the last time met the same congestion, and changes nothing.
        """
        if sent > self._narrowed_at:
            self.narrow()
            self._narrowed_at = now


@dataclass(slots=True, eq=False)
class Outstanding:
    """The attempts without an outcome, by the lower half of their TransactionIDs and in the order of sending.

    ``flying``: attempts that fill the window. ``overdue``: attempts that have waited longer than its patience.
    """

    flying: dict[int, Attempt] = field(default_factory=dict)
    overdue: dict[int, Attempt] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.flying) + len(self.overdue)

    def take(self, tid: int) -> Attempt | None:
        """Remove the attempt with this TransactionID, which has ended, and return it; None if there is none."""
        return self.flying.pop(tid, None) or self.overdue.pop(tid, None)

    def move_overdue(self, now: float, patience: float) -> None:
        """Move the attempts that were sent *patience* seconds before *now*, or earlier, from ``flying`` to
        ``overdue``."""
        old = []
        for tid, attempt in self.flying.items():
            if attempt[-1] + patience > now:  # The same sum as in `next_overdue`, or a virtual clock would not advance.
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
                    break  # The following attempts were sent later, so none of them can be over.
        return [attempts.pop(tid) for attempts, tid in over]

    def expiries(self) -> list[float]:
        """Return the times at which up to eight of the oldest attempts end without a reply (timeout and grace), in no
        order.

        Eight are enough: nearly all attempts have the same timeout, so no younger attempt ends much earlier.
        """
        oldest = islice(chain(self.overdue.values(), self.flying.values()), 8)
        return [sent + request.envelope.timeout + GRACE for request, _, _, _, sent in oldest]

    def next_overdue(self, patience: float) -> float:
        """Return the time at which the oldest attempt in ``flying`` becomes overdue. ``flying`` must not be empty."""
        return next(iter(self.flying.values()))[-1] + patience
