"""The loop of the server: waits for sockets and for times, and calls their handlers.

An exception in a handler is reported and the loop continues: a bug hit by one program must not end the others.
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
    """Sockets with their handlers, and functions to call later. ``report`` is called with each exception of these."""

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
        """Call *handler* with the events whenever the socket is readable."""
        self._handlers[fd] = handler
        self._epoll.register(fd, READABLE)

    def wait_for(self, fd: int, events: int) -> None:
        """Wait for other events of a registered socket."""
        self._epoll.modify(fd, events)

    def unregister(self, fd: int) -> None:
        """Stop waiting for this socket, which is not closed yet."""
        del self._handlers[fd]
        self._epoll.unregister(fd)

    def at(self, delay: float, work: Callable[[], object]) -> None:
        """Call *work* in the loop, *delay* seconds from now."""
        heapq.heappush(self._later, (time.monotonic() + delay, next(self._serial), work))

    def run_due(self) -> float | None:
        """Call the functions that are due. Return the seconds until the next is due, None if there is none."""
        later = self._later
        if not later:
            return None
        now = time.monotonic()
        while later and later[0][0] <= now:
            self.guarded(heapq.heappop(later)[2])
        return max(0.0, later[0][0] - now) if later else None

    def poll(self, wait: float) -> None:
        """Wait up to *wait* seconds, and call the handlers of the sockets that are ready."""
        for fd, events in self._epoll.poll(wait):
            handler = self._handlers.get(fd)
            if handler is not None:
                self.guarded(handler, events)

    def guarded(self, work: Callable[..., object], *events: int) -> None:
        """Call *work*, and report an exception of it."""
        try:
            work(*events)
        except Exception as error:
            self.report(error)

    def stop(self) -> None:
        """End the wait, and set ``stopping``. May be called from a signal handler or another thread."""
        self.stopping = True
        if not self._closed:
            os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Close the descriptors that the loop itself opened."""
        self._closed = True
        self._epoll.close()
        os.close(self._wake)
