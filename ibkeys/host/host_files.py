"""How the files of a host are read: of this one, or of another one through a shell there (`ibkeys.sm.remote`).

What looks for OpenSM and its files asks through `HostFiles`, so that it is written once for every host. Nothing here
changes a file.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ibkeys import files
from ibkeys.host.file_access import FileFact, stat_file

USER_HZ: Final = 100
"""Ticks in a second of the times in /proc/PID/stat, on every machine that runs OpenSM."""


class Clock(NamedTuple):
    """A host's time: seconds since 1970, seconds since it booted, and how exact the first is, in seconds."""

    now: float
    uptime: float
    precision: float


class HostFiles(Protocol):
    """The files of one host. Paths are those of that host.

    Every method but `processes` raises OSError for what is not there or may not be read, as the functions of `os` do;
    that of another host also raises `ibkeys.errors.HostNotReached` when the host itself does not answer.
    """

    @property
    def name(self) -> str:
        """The host's name as the user gave it; "" for this one."""

    def read(self, path: Path, limit: int) -> bytes:
        """Return all of a regular file, which may have *limit* bytes."""

    def stat(self, path: Path) -> FileFact:
        """Return what can be told of a file or directory from outside; symbolic links are followed."""

    def link(self, path: Path) -> str:
        """Return where a symbolic link leads to."""

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory, in order."""

    def processes(self, proc: Path, program: str) -> list[int]:
        """Return the IDs of the processes that may run *program*; some of them may run another."""

    def clock(self) -> Clock:
        """Return the time of the host."""

    def own_user(self) -> int:
        """Return the user ID that reads there."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """This host."""

    name: str = ""

    def read(self, path: Path, limit: int) -> bytes:
        """Return all of a regular file."""
        return files.read_bytes(path, limit)

    def stat(self, path: Path) -> FileFact:
        """Return what can be told of a file from outside."""
        return stat_file(path)

    def link(self, path: Path) -> str:
        """Return where a symbolic link leads to."""
        return os.readlink(path)

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory."""
        return sorted(os.listdir(path))

    def processes(self, proc: Path, program: str) -> list[int]:
        """Return the IDs of all processes: what they run shows in their command lines."""
        return sorted(int(folder.name) for folder in proc.glob("[0-9]*") if folder.name.isdecimal())

    def clock(self) -> Clock:
        """Return the time of this host."""
        text = files.read_text("/proc/uptime", files.SETTINGS)
        return Clock(time.time(), float(text.split()[0]), 1 / USER_HZ)

    def own_user(self) -> int:
        """Return the effective user ID of this process."""
        return os.geteuid()


THIS_HOST: Final = LocalFiles()
