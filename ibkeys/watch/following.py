"""Following a text file that another program writes: new lines as they come, across logrotate and truncation."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.closing import Closing

LONGEST_LINE: Final = 4096
"""Bytes; a line that is longer is left out. None of OpenSM's is."""
_CHUNK: Final = 1 << 18


class FollowedFile(Closing):
    """Reads the lines that are written to a file from now on. Use it as a context manager.

    logrotate may rename the file and make a new one, or copy and truncate it; OpenSM truncates it at SIGUSR1 with
    accum_log_file FALSE. A file that replaces the first is read from its start. A missing file is waited for.
    ``problem``: why the file cannot be read now, "" while it can be read. ``is_behind``: whether the file has more
    lines than were returned. ``rest``: the beginning of a line whose end was not written yet.
    """

    def __init__(self, path: Path) -> None:
        """Open *path* at its end. Raises OSError if it is not a regular file, or may not be read."""
        self.path = path
        self.problem = ""
        self.is_behind = False
        self._file: int | None = None
        self._read_before: tuple[int, int] | None = None
        self._place = 0
        self.rest = b""
        self._skipping = False
        self._open()
        self._go_to_the_end()

    def _open(self) -> None:
        try:
            files.refuse_what_is_no_file(self.path)  # before it is opened: opening alone has an effect on some devices
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        except FileNotFoundError:
            self.problem = "does not exist (waiting for it)"
            return
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise files.NoRegularFile(0, "is not a regular file")
        self._file, self.problem = descriptor, ""
        if (found.st_dev, found.st_ino) != self._read_before:  # else it is read on after a failure
            self._place, self.rest, self._skipping = 0, b"", False
        self._read_before = found.st_dev, found.st_ino

    def _go_to_the_end(self) -> None:
        if self._file is not None:
            self._place = os.fstat(self._file).st_size
            self._skipping = self._place > 0 and os.pread(self._file, 1, self._place - 1) != b"\n"

    def new_lines(self) -> list[str]:
        """Return the whole lines that were written since the last call; at most 256 KiB of them at a time.

        A failure is stored in ``problem``, and the next call tries again.
        """
        self.is_behind = False
        try:
            return self._new_lines()
        except OSError as error:
            self.problem = error.strerror or str(error)
            self.close()
            return []

    def _new_lines(self) -> list[str]:
        if self._file is None:
            self._open()
        if self._file is None:
            return []
        if os.fstat(self._file).st_size < self._place:  # truncated: its contents are new
            self._place, self.rest, self._skipping = 0, b"", False
        data = os.pread(self._file, _CHUNK, self._place)
        self._place += len(data)
        self.is_behind = len(data) == _CHUNK
        if not data and self._was_replaced():
            self.close()
            self._open()
        return self._split(data)

    def _was_replaced(self) -> bool:
        """Return whether the file's name leads to another file now.

        A file that was renamed, with no new file in its place yet, is still read: its writer has it open.
        """
        assert self._file is not None
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        own = os.fstat(self._file)
        return (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino)

    def _split(self, data: bytes) -> list[str]:
        *whole, rest = (self.rest + data).split(b"\n")
        lines = []
        for line in whole:
            if not self._skipping and len(line) <= LONGEST_LINE:
                lines.append(line.decode("utf-8", "replace"))
            self._skipping = False
        if len(rest) > LONGEST_LINE:
            self._skipping, rest = True, b""
        self.rest = rest
        return lines

    def close(self) -> None:
        """Close the file. The next read opens it again, and reads on; a file that took its place is read from its
        start."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
