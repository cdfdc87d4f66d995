"""The lock beside a file of an OpenSM of another host: the program there holds it, as `ibkeys.host.host_lock` here.

The lock is free when the connection ends, for whatever reason; the file is removed only when it is released.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from pathlib import Path

from ibkeys.errors import FileError
from ibkeys.host.host_lock import LONGEST, TRIES, FoundLock, lock_file
from ibkeys.managers.machines.writer import HostWriter, WriterRefused, sum_of


@dataclass(frozen=True, slots=True)
class LockThere:
    """A lock that the program on the host holds."""

    name: str
    path: Path
    writer: HostWriter

    def release(self) -> None:
        """Remove the lock file, if it is still the file that this process locked, and free the lock. Raises FileError,
        HostNotReached."""
        try:
            self.writer.ask("drop_lock", path=self.path)
        except WriterRefused as refusal:
            raise _lock_error(self.name, self.path, "removed", refusal) from None


def take_lock(
    name: str, writer: HostWriter, path: Path, text: bytes, stale: bytes | None
) -> LockThere | FoundLock | None:
    """Take a lock as `ibkeys.host.host_lock.take_lock` does, on the host *name*. Raises FileError, HostNotReached."""
    data = base64.b64encode(text)
    for tries_left in reversed(range(TRIES)):
        words = str(len(data)), secrets.token_hex(8), sum_of(stale)
        try:
            lines = writer.ask("take_lock", *words, path=path, more=data)
        except WriterRefused as refusal:
            if refusal.kind == "changed" and tries_left:  # another run took or released it at that moment
                continue
            raise _lock_error(name, path, "taken", refusal) from None
        match lines:
            case ["taken"]:
                return LockThere(name, path, writer)
            case ["closed"]:
                return None
            case ["held" | "stale" as state, *text_in_hex]:
                found = writer.conversation.hex(text_in_hex)
                if len(found) <= LONGEST:
                    return FoundLock(found, state == "held")
        writer.conversation.end("its answer is invalid (a lock)")
    raise AssertionError("the last try returns or raises")


def _lock_error(name: str, path: Path, attempt: str, refusal: WriterRefused) -> FileError:
    return FileError(f"{name}: {lock_file(path)}: the lock cannot be {attempt}: {refusal.reason or refusal.kind}")
