"""The window: how many SMPs may be in flight over all, and how long one of them counts as such."""

from __future__ import annotations

from typing import Final

MAX_WINDOW: Final = 64
"""Most SMPs in flight unless the user says otherwise."""
FIRST_WINDOW: Final = 16
LEAST_WINDOW: Final = 4
LEAST_PATIENCE: Final = 0.02
"""Seconds; an SMA answers faster than this unless it is busy, so an older SMP is waiting, not travelling."""


class Window:
    """A bound that grows by one with each reply, and halves where a request was lost or the device had no room for it.

    ``most``: the most it grows to. ``size``: how many SMPs may be in flight now. ``smoothed_rtt``: seconds, the
    average of the last round trips; 0 before the first one.

    ``set_patience``: a patience in seconds to use instead of the one that goes by round trips, where most of those
    asked will be silent: size / patience is then the most that is sent in one second. None: none is set. With a bound
    of the user's own it has no effect.
    """

    __slots__ = ("_is_users", "_least", "_narrowed_at", "most", "set_patience", "size", "smoothed_rtt")

    def __init__(self, users: int | None = None) -> None:
        """*users* is the user's own bound on requests in flight, kept to the letter: silent ones count until their
        timeout. None: `MAX_WINDOW`."""
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
        """Widen the window by so many replies that came in."""
        self.size = min(self.most, self.size + replies)

    def narrow(self) -> None:
        """Halve the window: the device had no room for a request."""
        self.size = max(self._least, self.size // 2)

    def narrow_for_loss(self, sent: float, now: float) -> None:
        """Halve the window for a request that was sent at *sent* and lost; not for one that was sent before the last
        time it was halved: that one met the same congestion."""
        if sent > self._narrowed_at:
            self.narrow()
            self._narrowed_at = now
