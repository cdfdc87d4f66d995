"""Whether what a target did with an input is a finding: an error outside the tree, too much memory, too much time.

Time counts in operations, lines of Python that ran, so that a finding is one on each machine. Counting them is slow:
an input is counted where it took long on the processor's clock, and now and then.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
import traceback
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

import ibkeys
from ibkeys.errors import IbkeysError
from tests.fuzz.target import Target

IBKEYS: Final = f"{Path(ibkeys.__file__).parent}/"
"""Where its files are; a clone is often in a folder of that name too."""

_SUSPICIOUS = 0.1
"""Seconds of the processor from which an input is run again and counted."""
_GROWTH_KIB = 32 << 10
"""By so much the peak memory of the process has to grow for an input to be run again and measured."""
_HANGS = 30.0
"""Seconds of the processor that end an input whatever it does, also within a regular expression."""


class TooMuch(BaseException):
    """A bound was passed. No `Exception`, so that nothing which is judged can swallow it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was wrong with one input. ``place``: where, the same for inputs that show the same defect."""

    target: str
    data: bytes
    place: str
    report: str


class Judge:
    """Runs a target with one input after the other. Use it as a context manager: it takes the timer of the process.

    ``exceptional``: inputs that ended with an error of the tree.
    """

    def __init__(self, target: Target, count_each: int = 0) -> None:
        """*count_each*: of so many inputs the operations and the memory of one are counted whatever it took."""
        self.target = target
        self.inputs = self.exceptional = 0
        self._each = count_each
        self._peak = 0

    def __enter__(self) -> Judge:
        self._peak = _peak_kib()
        self._before = signal.signal(signal.SIGVTALRM, _hangs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self._before)

    def finding(self, data: bytes) -> Finding | None:
        """Run the target with *data*; return what was wrong, None if nothing was."""
        self.inputs += 1
        try:
            begun = time.process_time()
            self.exceptional += not self._once(data)
            if time.process_time() - begun > _SUSPICIOUS or self._has_turn(0):
                self._count(data)
            peak = _peak_kib()
            if peak > self._peak + _GROWTH_KIB or self._has_turn(self._each // 2):
                self._peak = peak
                self._measure(data)
        except (Exception, TooMuch) as error:
            return Finding(self.target.name, data, _place_of(error), traceback.format_exc())
        return None

    def _has_turn(self, number: int) -> bool:
        """Whether this input is the one of ``_each`` that is counted, or measured, whatever it took."""
        return self._each > 0 and self.inputs % self._each == number

    def _once(self, data: bytes) -> bool:
        """Run the target; return whether it succeeded: else it raised an error of the tree."""
        signal.setitimer(signal.ITIMER_VIRTUAL, _HANGS)
        try:
            self.target.run(data)
        except IbkeysError as error:
            check_words(error)
            return False
        return True

    def _count(self, data: bytes) -> None:
        """Raise TooMuch when the target runs more lines of Python than it may."""
        left = self.target.operations
        former = sys.gettrace()

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise TooMuch(f"more than {self.target.operations} operations")
            return trace

        sys.settrace(trace)
        try:
            self._once(data)
        finally:
            sys.settrace(former)

    def _measure(self, data: bytes) -> None:
        """Raise TooMuch when the target takes more memory than it may."""
        tracemalloc.start()
        try:
            self._once(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if peak > self.target.memory:
            raise TooMuch(f"{peak >> 20} MiB of memory, it may take {self.target.memory >> 20}")


def check_words(error: Exception) -> None:
    """Assert that the message of an error is one line."""
    assert "\n" not in str(error), f"a message of several lines: {error}"


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _hangs(number: int, frame: FrameType | None) -> None:
    raise TooMuch(f"more than {_HANGS:.0f} seconds of the processor")


def _place_of(error: BaseException) -> str:
    """Return the kind of an error and the last line of ibkeys, or of a target, that it went through."""
    place = "?"
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if name.startswith(IBKEYS) or "/targets/" in name:
            place = f"{name.rpartition('/')[2]}:{line}"
    if isinstance(error, TooMuch):
        return f"TooMuch: {error.args[0].partition(' of ')[0]}" if place == "?" else f"TooMuch at {place}"
    return f"{type(error).__name__} at {place}"
