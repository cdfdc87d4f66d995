"""The newest page of metrics, and when it expires: numbers of an outdated reading are removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from ibkeys.export.family import Family
from ibkeys.export.of_sweep import SweepAttempt, sweep_families
from ibkeys.export.page import render


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """The metrics of one reading as text, and the text that replaces them once they are overdue."""

    text: bytes
    overdue: bytes

    @classmethod
    def of(cls, sweep: SweepAttempt, families: Sequence[Family]) -> Self:
        """Return the page of *families*, which were read by *sweep*. If the sweep failed, *families* is empty. Raises
        UsageError without prometheus-client.
        """
        overdue = replace(sweep, success=False, duration=None, answered=None, lost=None)
        return cls(render([*sweep_families(sweep), *families]), render(sweep_families(overdue)))


class CurrentPage:
    """The current page. One thread may call `publish`; any thread may call `page`.

    *patience*: seconds for which a page is shown; None: forever. If no new page has come by then, the numbers of the
    fabric are removed and ``ibkeys_sweep_success`` is 0; the times of the last runs stay.
    """

    def __init__(self, patience: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        self._shown: tuple[MetricsPage, float] | None = None

    def publish(self, page: MetricsPage) -> None:
        """Show *page* from now on, in place of the former page."""
        until = float("inf") if self._patience is None else self._clock() + self._patience
        with self._lock:
            self._shown = (page, until)

    def page(self) -> bytes | None:
        """Return the current text; None before the first page."""
        with self._lock:
            shown = self._shown
        if shown is None:
            return None
        page, until = shown
        return page.text if self._clock() <= until else page.overdue
