"""The private, locked file in which a simulated subnet is saved from one run to the next.

Its first line is the whole state. Each save appends a line with the changes since the last save, so the time for a save
depends on the changes and not on the size of the fabric. When these lines have become too long, a new file with the
whole state is written, locked and renamed over the old file. So a reader gets the old state or the new one, and the
lock is held all the time. A last line that a crash has cut off is ignored.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ibkeys import files, jsonfile
from ibkeys.errors import FileFormatError, StoreError, StoreLocked
from ibkeys.sim.state.document import dump_changes, dump_state, load_state
from ibkeys.sim.subnet import Subnet

LEAST_CHANGES: Final = 1 << 20
"""The changes in a file may have as many bytes as the state in its first line, and this number in addition."""
_OPENING: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class StateFile:
    """The state of *subnet* in the file *path*, which is loaded now, or created. The time since the last save passes on
    the subnet's clock, which from now on follows real time.

    It contains M_Keys, so its mode is 0600. Raises StoreLocked if another process has it open; StoreError if it is
    damaged, belongs to another net file, cannot be opened, is a symbolic link or not a regular file, has other names
    (hard links), or belongs to another user.
    """

    def __init__(self, path: str | Path, subnet: Subnet) -> None:
        self.path = Path(path)
        self.subnet = subnet
        self._fd = self._lock()
        self._state_size = self._size = 0  # bytes of the first line and of the file; 0: the next save writes a new file
        try:
            self._load()
        except BaseException:
            self._release()
            raise
        started, start = time.monotonic(), subnet.now
        subnet.history.follow_clock(lambda: start + time.monotonic() - started)
        self._saved_changes = subnet.history.changes

    def _lock(self) -> int:
        while True:
            try:
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | _OPENING, 0o600)
            except (OSError, ValueError) as error:  # ValueError: a NUL in the name
                raise self._error("opened", error) from None
            try:
                files.refuse_strange_file(os.fstat(fd))
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.fchmod(fd, 0o600)
                on_disk = os.lstat(self.path)
            except BlockingIOError:
                os.close(fd)
                raise StoreLocked(f"{self.path}: another process has this simulated subnet open") from None
            except FileNotFoundError:
                os.close(fd)
                continue
            except OSError as error:
                os.close(fd)
                raise self._error("locked", error) from None
            # Between open and lock another process may have renamed a newer state over this one.
            if os.path.samestat(os.fstat(fd), on_disk):
                return fd
            os.close(fd)

    def _error(self, what: str, error: OSError | ValueError) -> StoreError:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            why = "is a symbolic link; name the file itself"
        return StoreError(f"{self.path}: simulator state cannot be {what}: {why}")

    def _load(self) -> None:
        try:
            raw = files.read_descriptor(self._fd, files.STATE)
        except OSError as error:
            raise self._error("read", error) from None
        if not raw:
            return
        lines = raw.splitlines(keepends=True)
        is_cut_off = len(lines) > 1 and not lines[-1].endswith(b"\n")
        try:
            documents = [jsonfile.loads(line) for line in lines[: -1 if is_cut_off else None]]
            wall = float(documents[-1]["wall"])
            if not math.isfinite(wall):
                raise ValueError("an invalid time")
            load_state(self.subnet, *(document["subnet"] for document in documents))
        except (FileFormatError, ValueError, KeyError, TypeError, OverflowError):
            raise StoreError(f"{self.path}: damaged simulator state; remove it to start afresh") from None
        except StoreError as error:
            raise StoreError(f"{self.path}: {error}") from None
        self.subnet.advance(max(0.0, time.time() - wall))
        self.subnet.history.forget_fresh()
        if lines[-1].endswith(b"\n"):
            self._state_size, self._size = len(lines[0]), len(raw)

    def save_if_changed(self) -> None:
        """Save if something has changed since the last save: the effect of an SMP must survive a crash. Raises
        StoreError."""
        if self.subnet.history.changes != self._saved_changes:
            self.save()

    def save(self) -> None:
        """Append the changes to the file, or write the whole state to a new file, and sync it. Raises StoreError."""
        appended = self._size and self._append(_line(dump_changes(self.subnet)))
        if not appended:
            self._replace(_line(dump_state(self.subnet)))
        self.subnet.history.forget_fresh()
        self._saved_changes = self.subnet.history.changes

    def _append(self, line: bytes) -> bool:
        """Append *line* and sync; return False if the file would become too long, or not all bytes were written. Raises
        StoreError."""
        if self._size + len(line) > 2 * self._state_size + LEAST_CHANGES:
            return False
        size, self._size = (
            self._size,
            0,
        )  # If this fails, a part of the line may be in the file: the next save writes a new file.
        try:
            written = os.pwrite(self._fd, line, size)
            os.fsync(self._fd)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, size)
            raise self._error("written", error) from None
        if written == len(line):
            self._size = size + written
        return written == len(line)

    def _replace(self, line: bytes) -> None:
        """Write *line* to a new file, sync it and rename it over the old file. Raises StoreError."""
        new_path = self.path.with_name(f".{self.path.name}.new")
        try:
            with suppress(FileNotFoundError):
                os.unlink(new_path)  # It may be left by a killed run, or be made by another user.
            fd = os.open(new_path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPENING, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with open(fd, "wb", closefd=False) as file:
                    file.write(line)
                os.fsync(fd)
                os.replace(new_path, self.path)
            except BaseException:
                os.close(fd)
                new_path.unlink(missing_ok=True)
                raise
            self._release()
            self._fd = fd
            files.sync_directory(self.path.parent)
        except OSError as error:
            raise self._error("written", error) from None
        self._state_size = self._size = len(line)

    def close(self) -> None:
        """Save and unlock. Safe to call twice. Raises StoreError."""
        if self._fd < 0:
            return
        try:
            self.save()
        finally:
            self._release()
            self.subnet.history.follow_clock(None)

    def _release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _line(document: dict[str, Any]) -> bytes:
    """Return the line of the file for *document*, with the current time."""
    return json.dumps({"wall": time.time(), "subnet": document}, separators=(",", ":")).encode() + b"\n"
