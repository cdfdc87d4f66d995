"""Standard output and standard error, which keep working after their readers have gone.

Where a write fails (the reader of a pipe has gone, a disk is full, the terminal was closed), what follows is thrown
away and the command goes on: a change must not stop half way because nobody listens, and the interpreter, which flushes
both at its end, must find nothing to complain of (it would put 120 in place of the exit code). What failed is kept, for
those who decide about the exit code.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_READER_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET})

hide_progress: Callable[[], None] | None = None
"""Removes the line of progress (`ibkeys.cli.screen.progress`) from the terminal while one is drawn, else None. Whoever
writes a line there calls it first."""


class Outliving(io.FileIO):
    """A descriptor that takes everything: what cannot be written is thrown away. ``error`` is the first failure."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.error: OSError | None = None
        self.was_terminal = os.isatty(descriptor)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write *data*, or throw it away; a descriptor that would block is waited for."""
        while self.error is None:
            try:
                written = super().write(data)
            except OSError as error:
                self.error = error
                break
            if written is not None:
                return written
            select.select([], [self.fileno()], [])
        return memoryview(data).nbytes


def failure_of(stream: TextIO) -> OSError | None:
    """Return why nothing that is written to *stream* arrives any more, None if it does."""
    beneath = _beneath(stream)
    return beneath.error if beneath is not None else None


def reader_is_gone(stream: TextIO) -> bool:
    """Whether *stream* failed because nobody reads it any more: the other end of a pipe or a terminal was closed."""
    beneath = _beneath(stream)
    if beneath is None or beneath.error is None:
        return False
    return beneath.error.errno in _READER_GONE or (beneath.was_terminal and beneath.error.errno == errno.EIO)


def takes_more(stream: TextIO, seconds: float) -> bool:
    """Whether a line can be written to *stream* without waiting for its reader, after *seconds* at most.

    A pipe takes a page or nothing; a stream that failed, or that somebody put in its place, takes everything.
    """
    beneath = _beneath(stream)
    if beneath is None or beneath.error is not None:
        return True
    return bool(select.select([], [beneath.fileno()], [], seconds)[1])


def _beneath(stream: TextIO) -> Outliving | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, Outliving) else None


@contextmanager
def outliving() -> Iterator[None]:
    """Let the standard streams outlive their readers; one that somebody has put in their place is skipped.

    Standard input and standard error that were closed from the beginning become /dev/null: nothing that is opened
    later may get their descriptors, and be written by a library that warns. A closed standard output stays None.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is not None and sys.stdout is sys.__stdout__:
        sys.stdout = _around(cast(io.TextIOWrapper, sys.stdout))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _around(cast(io.TextIOWrapper, sys.stderr))
    mine = sys.stdout, sys.stderr
    try:
        yield
    finally:
        for stream in mine:
            if stream is not None:
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def _around(stream: io.TextIOWrapper) -> TextIO:
    """Return a text stream on the descriptor of *stream*, without its faults. An unencodable character is escaped."""
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(Outliving(stream.fileno())),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,  # the latter with PYTHONUNBUFFERED
    )
