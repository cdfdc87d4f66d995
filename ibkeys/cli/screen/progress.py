"""Showing progress on a terminal: one line on standard error, which is redrawn again and again, and removed at the end.

Code that writes a line to the same terminal calls `hide` first; the next step draws the progress again.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from time import monotonic
from typing import Final, Self

from ibkeys.cli import streams
from ibkeys.cli.screen.lines import columns, width_of

MIN_INTERVAL: Final = 0.1
"""Shortest time between two drawings, in seconds."""
_CLEAR: Final = "\r\x1b[K"
_BAR: Final = 30
_LEAST_BAR: Final = 8


class ProgressLine:
    """The progress line of one task. It is a context manager, which removes the line at the end.

    *is_wanted*: whether to draw at all. Nothing is drawn if standard error is no terminal, or a terminal that cannot
    clear a line (TERM=dumb).
    """

    def __init__(self, is_wanted: bool = True) -> None:
        self.is_drawing = is_wanted and sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        self._began: float | None = None
        self._next = 0.0

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """Draw *text*, how many steps of *total* are *done* (0: unknown), and the time since the first call.

        Draws at most once every `MIN_INTERVAL` seconds. While the terminal accepts no output nothing is drawn, so that
        the task does not wait for it.
        """
        if not self.is_drawing:
            return
        now = monotonic()
        if self._began is None:
            self._began = now
        if now < self._next or not streams.takes_more(sys.stderr, 0):
            return
        self._next = now + MIN_INTERVAL
        self._write(_CLEAR + _line(text, done, total, int(now - self._began)), is_drawn=True)

    def stop(self) -> None:
        """Remove the line. May be called twice; the next `show` draws it again."""
        self._next = 0.0
        hide()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _write(self, text: str, is_drawn: bool) -> None:
        try:
            _put(text, is_drawn)
        except (OSError, ValueError):  # the terminal is gone: the task goes on without it
            self.is_drawing = False


def hide() -> None:
    """Remove the progress line from the terminal, if there is one, so that another line can be written in its place."""
    if streams.hide_progress is not None:
        with suppress(OSError, ValueError):
            _put(_CLEAR, is_drawn=False)


def _put(text: str, is_drawn: bool) -> None:
    streams.hide_progress = hide if is_drawn else None
    sys.stderr.write(text)
    sys.stderr.flush()


def _line(text: str, done: int, total: int, seconds: int) -> str:
    """Return the line, fitted to the terminal. On a narrow terminal the bar is left out, and the text may be cut."""
    most = (width_of(sys.stderr) or 0) - 1  # some terminals begin a new line once the last column is filled
    minutes, second = divmod(seconds, 60)
    end = f"{f'  {done}/{total}' if total else ''}  {minutes // 60}:{minutes % 60:02}:{second:02}"
    room = min(_BAR, most - columns(text) - len(end) - len("  []"))
    if total and room >= _LEAST_BAR:
        filled = room * done // total
        return f"{text}  [{'#' * filled}{'-' * (room - filled)}]{end}"
    return f"{text[: max(0, most - len(end))]}{end}"[:most]
