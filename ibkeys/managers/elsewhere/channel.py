"""A child program that answers line by line over pipes, with limits on the time and size of each answer."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from ibkeys.closing import Closing
from ibkeys.files import os_errors_as

_CHUNK: Final = 1 << 16
_MOST_ERROR_BYTES: Final = 1 << 16
"""The number of bytes kept of standard error, counted from its end."""


class ChannelBroken(Exception):
    """The program could not be started, ended, did not answer in time, or sent too long an answer. The message says
    which of these happened."""


class Channel(Closing):
    """A running child program. Not thread-safe. Use it as a context manager: the program is ended at the end of the
    block."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
        own_session: bool = False,
    ) -> None:
        """Start the program *command* with only the variables of *environment*. *clock*: returns monotonic seconds.
        *own_session*: whether an interrupt at the terminal leaves the program running.

        Raises ChannelBroken if the program cannot be started.
        """
        self._clock = clock
        with os_errors_as(ChannelBroken, f"{command[0]} cannot be started"):
            self.process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=own_session,
            )
        self._unread = bytearray()
        self._errors = b""
        self._selector = selectors.DefaultSelector()
        assert self.process.stdin is not None
        os.set_blocking(self.process.stdin.fileno(), False)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ)

    def send(self, data: bytes, seconds: float) -> None:
        """Write all of *data* to the program's standard input. Raises ChannelBroken if the program has ended, or does
        not read all of it within *seconds*."""
        assert self.process.stdin is not None
        deadline = self._clock() + seconds
        view = memoryview(data)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self.process.stdin, selectors.EVENT_WRITE)
                while view:
                    if self._clock() > deadline:
                        raise ChannelBroken("it does not read the requests")
                    if selector.select(max(deadline - self._clock(), 0)):
                        view = view[self.process.stdin.write(view) or 0 :]
        except OSError:  # `last_error_line` has the reason
            raise ChannelBroken("it ended") from None

    def lines(self, seconds: float, most_bytes: int, most_lines: int, is_last: Callable[[bytes], bool]) -> list[bytes]:
        """Return the program's next lines of output, up to and including the first for which *is_last* is true. Raises
        ChannelBroken if that line does not come within *seconds*, if the lines have more than *most_bytes* or are more
        than *most_lines*, or if the program ends."""
        deadline = self._clock() + seconds
        found: list[bytes] = []
        size = searched = 0
        while True:
            end = self._unread.find(b"\n", searched)
            size_now = size + (end + 1 if end >= 0 else len(self._unread))
            if size_now > most_bytes or len(found) >= most_lines:
                raise ChannelBroken("its answer is too long")
            if end >= 0:
                found.append(bytes(self._unread[:end]))
                del self._unread[: end + 1]  # deleting from the front of a bytearray copies nothing
                size, searched = size_now, 0
                if is_last(found[-1]):
                    return found
                continue
            searched = len(self._unread)
            if self._clock() > deadline:
                raise ChannelBroken("no answer in time")
            self._unread += self._read_available(deadline - self._clock())

    def has_unread_output(self) -> bool:
        """Return whether the program has sent output that `lines` has not returned yet. Raises ChannelBroken if the
        program has ended."""
        if not self._unread:
            self._unread += self._read_available(0)
        return bool(self._unread)

    def _read_available(self, seconds: float) -> bytes:
        """Return the next bytes of standard output, waiting up to *seconds*; b"" if none came. Keep the bytes of
        standard error for `last_error_line`. Raises ChannelBroken if the program has ended."""
        for key, _ in self._selector.select(max(seconds, 0)):
            data = os.read(key.fd, _CHUNK)
            if key.fileobj is self.process.stderr:
                self._errors = (self._errors + data)[-_MOST_ERROR_BYTES:]
                if not data:
                    self._selector.unregister(key.fileobj)
                return b""
            if not data:
                raise ChannelBroken("it ended")
            return data
        return b""

    def last_error_line(self) -> str:
        """Return the last line that the program wrote to standard error, "" for none. Wait up to a second for the
        program to end, because it may still be writing."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        assert self.process.stderr is not None
        with suppress(OSError):
            self._errors += os.read(self.process.stderr.fileno(), _CHUNK)
        lines = [line.strip() for line in self._errors.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End the program. May be called twice."""
        self._selector.close()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
