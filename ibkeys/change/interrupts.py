"""Signals during a long change: after one, no further port is begun, and the Sets that were sent are still proven; a
second SIGINT ends the change at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OF_TERMINAL = (signal.SIGHUP, signal.SIGTSTP)
"""The signals of a terminal that goes away and of Ctrl-Z. A stopped process cannot watch the time."""


class ExplainedInterrupt(KeyboardInterrupt):
    """An interrupt that says how the change was left. ``by``: the signal, or the work that it interrupted; ``left``:
    the state, and advice for the user."""

    def __init__(self, by: str, left: str) -> None:
        super().__init__(f"{by}: {left}")
        self.by, self.left = by, left

    @classmethod
    def of(cls, interrupt: KeyboardInterrupt, when: str, left: str) -> Self:
        """Return *interrupt* with *left*, the state of the change. *when*: the work that was interrupted; used if
        *interrupt* has no text."""
        return cls(f"{interrupt}" or when, left)


class Interrupts:
    """A context in which SIGINT, SIGTERM and SIGHUP are only noted, and `check` raises KeyboardInterrupt for them.

    A second SIGINT raises at once. *survive_hangup*: ignore SIGHUP, which comes when the terminal goes away, and
    Ctrl-Z. Signals that were ignored before stay ignored; outside the main thread no handler is changed.
    """

    def __init__(self, survive_hangup: bool = False) -> None:
        self._survive_hangup = survive_hangup
        self._signal: signal.Signals | None = None
        self._had_sigint = False
        self._former_handlers: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has asked to stop since the last call."""
        stopping_signal, self._signal = self._signal, None
        if stopping_signal is not None:
            raise KeyboardInterrupt(f"by {stopping_signal.name}")

    def forget(self) -> None:
        """Treat the next SIGINT as a first one again, because another piece of work begins."""
        self._had_sigint = False

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self._had_sigint and number == signal.SIGINT:
            raise KeyboardInterrupt("by a second SIGINT")
        self._had_sigint = self._had_sigint or number == signal.SIGINT
        self._signal = signal.Signals(number)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for each in {*_STOPPING, *(_OF_TERMINAL if self._survive_hangup else ())}:
                if signal.getsignal(each) == signal.SIG_IGN:
                    continue  # as under nohup, or in the background of a shell
                is_ignored = each in _OF_TERMINAL and self._survive_hangup
                self._former_handlers[each] = signal.signal(each, signal.SIG_IGN if is_ignored else self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._former_handlers.items():
            signal.signal(each, handler)
