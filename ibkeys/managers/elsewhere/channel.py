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
from ibkeys.files import told_as

_CHUNK: Final = 1 << 16
_MOST_SAID: Final = 1 << 16
"""Bytes of standard error that are kept."""


class ChannelBroken(Exception):
    """The program ended, did not answer in time, or sent more than an answer may have. ``str()`` says which."""


class Channel(Closing):
    """A running program. Not thread-safe. Use it as a context manager: it is ended on the way out."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
        own_session: bool = False,
    ) -> None:
        """Start the program. *own_session*: an interrupt at the terminal ends this process only, not the program.

        Raises ChannelBroken if it cannot be started.
        """
        self._clock = clock
        with told_as(ChannelBroken, f"{command[0]} cannot be started"):
            self.process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=own_session,
            )
        self._rest = bytearray()
        self._errors = b""
        self._selector = selectors.DefaultSelector()
        assert self.process.stdin is not None
        os.set_blocking(self.process.stdin.fileno(), False)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ)

    def send(self, data: bytes, seconds: float) -> None:
        """Write all of *data* within *seconds*. Raises ChannelBroken if the program has ended, or does not read."""
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
        except OSError:  # why is what it said last
            raise ChannelBroken("it ended") from None

    def lines(self, seconds: float, most_bytes: int, most_lines: int, is_last: Callable[[bytes], bool]) -> list[bytes]:
        """Return the lines up to and including the first for which *is_last* is true, within *seconds*. Raises
        ChannelBroken."""
        deadline = self._clock() + seconds
        found: list[bytes] = []
        size = searched = 0
        while True:
            end = self._rest.find(b"\n", searched)
            size_now = size + (end + 1 if end >= 0 else len(self._rest))
            if size_now > most_bytes or len(found) >= most_lines:
                raise ChannelBroken("its answer is too long")
            if end >= 0:
                found.append(bytes(self._rest[:end]))
                del self._rest[: end + 1]  # no copying
                size, searched = size_now, 0
                if is_last(found[-1]):
                    return found
                continue
            searched = len(self._rest)
            if self._clock() > deadline:
                raise ChannelBroken("no answer in time")
            self._rest += self._more(deadline - self._clock())

    def has_unread_output(self) -> bool:
        """Return whether output of the program has arrived that was not read yet. Raises ChannelBroken."""
        if not self._rest:
            self._rest += self._more(0)
        return bool(self._rest)

    def _more(self, seconds: float) -> bytes:
        """Return the next bytes of standard output, and keep those of standard error for `last_words`."""
        for key, _ in self._selector.select(max(seconds, 0)):
            data = os.read(key.fd, _CHUNK)
            if key.fileobj is self.process.stderr:
                self._errors = (self._errors + data)[-_MOST_SAID:]
                if not data:
                    self._selector.unregister(key.fileobj)
                return b""
            if not data:
                raise ChannelBroken("it ended")
            return data
        return b""

    def last_words(self) -> str:
        """Return the last line that the program wrote to standard error, waiting up to a second for its end."""
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
