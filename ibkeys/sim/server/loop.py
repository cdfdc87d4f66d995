"""The loop of the server: it waits for sockets and times, and calls their handlers.

An exception in a handler is reported and the loop continues: a bug that one program triggers must not end the service
for the others.
"""

from __future__ import annotations

import heapq
import itertools
import os
import select
import time
from collections.abc import Callable
from typing import Final

READABLE: Final = select.EPOLLIN
WRITABLE: Final = select.EPOLLOUT


class Loop:
    """Calls the handlers of sockets, and functions at their times. ``report``: called with each exception of these.
    ``stopping``: `stop` was called."""

    def __init__(self, report: Callable[[Exception], None]) -> None:
        self.report = report
        self._handlers: dict[int, Callable[[int], object]] = {}
        self._later: list[tuple[float, int, Callable[[], object]]] = []
        self._serial = itertools.count()
        self._closed = False
        self.stopping = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, READABLE)

    def register(self, fd: int, handler: Callable[[int], object]) -> None:
        """Call *handler* with the epoll events whenever the descriptor *fd* is readable."""
        self._handlers[fd] = handler
        self._epoll.register(fd, READABLE)

    def wait_for(self, fd: int, events: int) -> None:
        """Wait for *events* instead of the former events of a registered descriptor."""
        self._epoll.modify(fd, events)

    def unregister(self, fd: int) -> None:
        """Stop waiting for a registered descriptor. Call it before the descriptor is closed."""
        del self._handlers[fd]
        self._epoll.unregister(fd)

    def at(self, delay: float, work: Callable[[], object]) -> None:
        """Call *work* in the loop, *delay* seconds from now."""
        heapq.heappush(self._later, (time.monotonic() + delay, next(self._serial), work))

    def run_due(self) -> float | None:
        """Call the functions that are due. Return the seconds until the next one is due, None if there is none."""
        later = self._later
        if not later:
            return None
        now = time.monotonic()
        while later and later[0][0] <= now:
            self.guarded(heapq.heappop(later)[2])
        return max(0.0, later[0][0] - now) if later else None

    def poll(self, wait: float) -> None:
        """Wait up to *wait* seconds for events, and call the handlers of the descriptors that are ready."""
        for fd, events in self._epoll.poll(wait):
            handler = self._handlers.get(fd)
            if handler is not None:
                self.guarded(handler, events)

    def guarded(self, work: Callable[..., object], *events: int) -> None:
        """Call *work* with *events*; report an exception instead of raising it."""
        try:
            work(*events)
        except Exception as error:
            self.report(error)

    def stop(self) -> None:
        """Set ``stopping`` and end the wait of `poll`. It may be called from a signal handler or another thread."""
        self.stopping = True
        if not self._closed:
            os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Close the descriptors that the loop itself opened."""
        self._closed = True
        self._epoll.close()
        os.close(self._wake)
