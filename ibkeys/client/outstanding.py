"""What was sent and has no outcome yet, by TransactionID."""

from __future__ import annotations

from itertools import chain, islice
from typing import Final

from ibkeys.client.request import Request

GRACE: Final = 0.5
"""Seconds beyond an attempt's timeout that the kernel gets to report it, before the attempt is given up without it."""

Attempt = tuple[Request, int, int, float, float]
"""A part of a request that was sent: request, part, attempts with this one, times of the first one and of this one."""


class Outstanding:
    """Attempts by TransactionID (the lower half), in the order of sending, in two places: those in ``flying`` fill the
    window, those in ``overdue`` have waited longer than its patience."""

    __slots__ = ("flying", "overdue")

    def __init__(self) -> None:
        self.flying: dict[int, Attempt] = {}
        self.overdue: dict[int, Attempt] = {}

    def __len__(self) -> int:
        return len(self.flying) + len(self.overdue)

    def get(self, tid: int) -> Attempt | None:
        """Return the attempt with this TransactionID (the lower half); None if it is over or never was."""
        return self.flying.get(tid) or self.overdue.get(tid)

    def take(self, tid: int) -> Attempt | None:
        """Return the attempt as `get` does, and take it out: it is over."""
        return self.flying.pop(tid, None) or self.overdue.pop(tid, None)

    def let_go_of_old_ones(self, now: float, patience: float) -> None:
        """Move those of ``flying`` that were sent *patience* seconds ago or earlier to ``overdue``."""
        old = []
        for tid, attempt in self.flying.items():
            if attempt[-1] + patience > now:  # rounded as in `next_move`, or a virtual clock would stand still
                break
            old.append(tid)
        for tid in old:
            self.overdue[tid] = self.flying.pop(tid)

    def take_expired(self, now: float) -> list[Attempt]:
        """Return those whose timeout and grace are over at *now*, and take them out."""
        over = []
        for attempts in (self.overdue, self.flying):
            for tid, (request, _, _, _, sent) in attempts.items():
                if sent + request.envelope.timeout + GRACE <= now:
                    over.append((attempts, tid))
                elif sent + GRACE > now:
                    break  # none behind this one, sent later, can be over
        return [attempts.pop(tid) for attempts, tid in over]

    def expiries(self) -> list[float]:
        """Return when the timeouts and graces of the oldest eight end, in no order.

        Nearly all have the same timeout, so that of the others none ends much earlier; very many may be outstanding.
        """
        oldest = islice(chain(self.overdue.values(), self.flying.values()), 8)
        return [sent + request.envelope.timeout + GRACE for request, _, _, _, sent in oldest]

    def next_move(self, patience: float) -> float:
        """Return when the oldest one of ``flying``, which is not empty, becomes overdue."""
        return next(iter(self.flying.values()))[-1] + patience
