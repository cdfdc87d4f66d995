"""Standard output and standard error that keep working after their readers have gone.

If a write fails (the reader of a pipe has gone, a disk is full, the terminal was closed), all further output is thrown
away and the command goes on. A change must not stop half way because its output is not read; and the interpreter, which
flushes both streams at its end, must not fail, because it would exit with 120 in place of the command's exit code. The
first error is kept, because the exit code depends on it.
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
"""The function that removes the progress line (`ibkeys.cli.screen.progress`); None while no progress line is drawn.

Code that writes another line to the terminal calls it first.
"""


class OutlastingFile(io.FileIO):
    """A file descriptor whose writes never fail: output that cannot be written is thrown away.

    ``error``: the error of the first write that failed; None if none has failed. ``was_terminal``: whether the
    descriptor was a terminal at the beginning.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.error: OSError | None = None
        self.was_terminal = os.isatty(descriptor)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write *data*, or throw it away after an error. If the descriptor would block, wait for it."""
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
    """Return the error of the first write to *stream* that failed; None if none has failed.

    After it nothing that is written to the stream arrives.
    """
    raw_file = _raw_file(stream)
    return raw_file.error if raw_file is not None else None


def reader_is_gone(stream: TextIO) -> bool:
    """Return whether *stream* failed because its reader has gone: the other end of a pipe or a terminal was closed."""
    raw_file = _raw_file(stream)
    if raw_file is None or raw_file.error is None:
        return False
    return raw_file.error.errno in _READER_GONE or (raw_file.was_terminal and raw_file.error.errno == errno.EIO)


def look_for_reader(stream: TextIO) -> None:
    """If the reader of *stream*, a pipe, has gone, mark the stream as failed before anything is written to it."""
    raw_file = _raw_file(stream)
    if raw_file is not None and raw_file.error is None:
        poll = select.poll()
        poll.register(raw_file.fileno(), 0)  # errors are reported in any case
        if poll.poll(0):
            raw_file.error = BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def takes_more(stream: TextIO, seconds: float) -> bool:
    """Return whether *stream* can take a line without blocking, now or within *seconds*.

    A pipe that is ready takes a whole page. True for a stream that has failed, and for a stream that is not from
    `outlasting_readers`.
    """
    raw_file = _raw_file(stream)
    if raw_file is None or raw_file.error is not None:
        return True
    return bool(select.select([], [raw_file.fileno()], [], seconds)[1])


def _raw_file(stream: TextIO) -> OutlastingFile | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, OutlastingFile) else None


@contextmanager
def outlasting_readers() -> Iterator[None]:
    """Replace standard output and standard error, in this block, by streams whose writes never fail.

    A stream that a caller has replaced is left alone. Standard input and standard error that were closed from the
    beginning become /dev/null: a file that is opened later must not get their descriptors, because libraries may write
    warnings to them. A closed standard output stays None.
    """
    originals = sys.stdin, sys.stdout, sys.stderr
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is not None and sys.stdout is sys.__stdout__:
        sys.stdout = _outlasting_stream(cast(io.TextIOWrapper, sys.stdout))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _outlasting_stream(cast(io.TextIOWrapper, sys.stderr))
    replaced = sys.stdout, sys.stderr
    try:
        yield
    finally:
        for stream in replaced:
            if stream is not None:
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = originals


def _outlasting_stream(stream: io.TextIOWrapper) -> TextIO:
    """Return a text stream on the descriptor of *stream* whose writes never fail.

    A character that cannot be encoded is escaped.
    """
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(OutlastingFile(stream.fileno())),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,  # write_through is set with PYTHONUNBUFFERED
    )
