"""Signals during a long change: no further port is begun, and what was sent is still proven."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OF_TERMINAL = (signal.SIGHUP, signal.SIGTSTP)
"""It goes away, and Ctrl-Z: a process that is stopped watches no time."""


class ExplainedInterrupt(KeyboardInterrupt):
    """An interrupt that says how the change was left. ``by``: the signal, or what it interrupted; ``left``: the state,
    and what the user can do."""

    def __init__(self, by: str, left: str) -> None:
        super().__init__(f"{by}: {left}")
        self.by, self.left = by, left

    @classmethod
    def of(cls, interrupt: KeyboardInterrupt, when: str, left: str) -> Self:
        """Return *interrupt* with how the change was left. *when*: what it interrupted, if it does not say by what."""
        return cls(f"{interrupt}" or when, left)


class Interrupts:
    """While this context is open SIGINT, SIGTERM and SIGHUP are remembered, and `check` raises KeyboardInterrupt.

    A second SIGINT raises at once. *survive_hangup*: SIGHUP, which comes when the terminal goes away, and Ctrl-Z
    are passed over. Signals that were ignored stay so, and outside the main thread all are left as they are.
    """

    def __init__(self, survive_hangup: bool = False) -> None:
        self._survive_hangup = survive_hangup
        self._came: signal.Signals | None = None
        self._had_sigint = False
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def check(self) -> None:
        """Raise KeyboardInterrupt when a signal came that asks to stop; each only once."""
        came, self._came = self._came, None
        if came is not None:
            raise KeyboardInterrupt(f"by {came.name}")

    def forget(self) -> None:
        """Take the next SIGINT for a first one again: what begins now is another thing to be interrupted."""
        self._had_sigint = False

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self._had_sigint and number == signal.SIGINT:
            raise KeyboardInterrupt("by a second SIGINT")
        self._had_sigint = self._had_sigint or number == signal.SIGINT
        self._came = signal.Signals(number)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for each in {*_STOPPING, *(_OF_TERMINAL if self._survive_hangup else ())}:
                if signal.getsignal(each) == signal.SIG_IGN:
                    continue  # nohup, or a shell that runs this in the background
                passed_over = each in _OF_TERMINAL and self._survive_hangup
                self._before[each] = signal.signal(each, signal.SIG_IGN if passed_over else self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
