"""The lock beside a file of an OpenSM of another host. The program on that host holds it, as `ibkeys.host.host_lock`
does on this host.

The kernel frees the lock when the connection ends, for whatever reason. The lock file is removed only by a release, or
when another command takes over the lock that was left.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from pathlib import Path

from ibkeys.errors import FileError
from ibkeys.host.host_lock import LONGEST, TRIES, FoundLock, lock_file
from ibkeys.managers.machines.writer import HostWriter, WriterRefused, checksum_of


@dataclass(frozen=True, slots=True)
class RemoteLock:
    """A lock that the program on another host holds. ``name``: that host; ``path``: the file beside which it is."""

    name: str
    path: Path
    writer: HostWriter

    def release(self) -> None:
        """Remove the lock file, unless another file has its name by now, and free the lock. Raises FileError,
        HostNotReached."""
        try:
            self.writer.ask("drop_lock", path=self.path)
        except WriterRefused as refusal:
            raise _lock_error(self.name, self.path, "removed", refusal) from None


def take_lock(
    name: str, writer: HostWriter, path: Path, text: bytes, stale: bytes | None
) -> RemoteLock | FoundLock | None:
    """Take a lock on the host *name* as `ibkeys.host.host_lock.take_lock` does on this host. Raises FileError,
    HostNotReached."""
    data = base64.b64encode(text)
    for tries_left in reversed(range(TRIES)):
        words = str(len(data)), secrets.token_hex(8), checksum_of(stale)
        try:
            lines = writer.ask("take_lock", *words, path=path, more=data)
        except WriterRefused as refusal:
            if refusal.kind == "changed" and tries_left:  # another process took or released the lock just then
                continue
            raise _lock_error(name, path, "taken", refusal) from None
        match lines:
            case ["taken"]:
                return RemoteLock(name, path, writer)
            case ["closed"]:
                return None
            case ["held" | "stale" as state, *text_in_hex]:
                found = writer.conversation.hex(text_in_hex)
                if len(found) <= LONGEST:
                    return FoundLock(found, state == "held")
        writer.conversation.end("its answer is invalid (a lock)")
    raise AssertionError("the last try returns or raises")


def _lock_error(name: str, path: Path, failed_action: str, refusal: WriterRefused) -> FileError:
    return FileError(f"{name}: {lock_file(path)}: the lock cannot be {failed_action}: {refusal.reason or refusal.kind}")
