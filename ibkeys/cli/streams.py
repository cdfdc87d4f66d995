"""Standard output and standard error that keep working after their readers have gone.

If a write fails (the reader of a pipe has gone, a disk is full, the terminal was closed), all further output is thrown
away and the command goes on. A change must not stop half way because its output is not read; and the interpreter, which
flushes both streams at its end, must not fail, because it would exit with 120 in place of the command's exit code. The
first failure is kept for the choice of the exit code.
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
"""Removes the progress line (`ibkeys.cli.screen.progress`) while one is drawn, else None.

Code that writes another line to the terminal calls it first.
"""


class Outliving(io.FileIO):
    """A file descriptor whose writes never fail: output that cannot be written is thrown away.

    ``error``: the first failure.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.error: OSError | None = None
        self.was_terminal = os.isatty(descriptor)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write *data*, or throw it away; wait for a descriptor that would block."""
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
    """Return the error after which nothing written to *stream* arrives; None if there is none."""
    beneath = _beneath(stream)
    return beneath.error if beneath is not None else None


def reader_is_gone(stream: TextIO) -> bool:
    """Return whether *stream* failed because its reader has gone: the other end of a pipe or a terminal was closed."""
    beneath = _beneath(stream)
    if beneath is None or beneath.error is None:
        return False
    return beneath.error.errno in _READER_GONE or (beneath.was_terminal and beneath.error.errno == errno.EIO)


def takes_more(stream: TextIO, seconds: float) -> bool:
    """Return whether a line can be written to *stream* without waiting for its reader, within *seconds*.

    A pipe takes a whole page or nothing. True for a stream that has failed, or that is not one of `outliving`.
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
    """Replace the standard streams by streams that outlive their readers.

    A stream that a caller has replaced is left alone. Standard input and standard error that were closed from the
    beginning become /dev/null, so that no file opened later gets their descriptors, to which libraries may write
    warnings. A closed standard output stays None.
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
    """Return a text stream on the descriptor of *stream* whose writes never fail.

    A character that cannot be encoded is escaped.
    """
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(Outliving(stream.fileno())),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,  # write_through is set with PYTHONUNBUFFERED
    )
