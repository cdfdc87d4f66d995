"""Reading the files of a host: of this one, or of another one by a shell there (`ibkeys.managers.elsewhere.remote`).

Code that looks for OpenSM and its files reads them through `HostFiles`, so it is written once for all hosts. Nothing
here changes a file.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ibkeys import files
from ibkeys.host.file_access import FileFact, fact_of
from ibkeys.host.inside_root import open_inside, read_inside
from ibkeys.simulated_host import SimulatedHost, host_of_environment, host_of_mounts, own_simulated_host

USER_HZ: Final = 100
"""Ticks in a second of the times in /proc/PID/stat, on every machine that runs OpenSM."""


class HostTime(NamedTuple):
    """The time of a host. ``now``: seconds since 1970; ``uptime``: seconds since the host booted; ``precision``: the
    most seconds by which a time that is computed from both may be wrong."""

    now: float
    uptime: float
    precision: float


class HostFiles(Protocol):
    """The files of one host. Paths are those of that host.

    Every method but `processes` raises OSError for a file that does not exist or may not be read, as the functions of
    `os` do; the methods of another host also raise `ibkeys.errors.HostNotReached` when the host itself does not answer.
    """

    @property
    def name(self) -> str:
        """The host's name as the user gave it; "" for this one."""

    @property
    def simulated_host(self) -> SimulatedHost | None:
        """The simulated host whose files these are; None for a real host."""

    def read(self, path: Path, limit: int) -> bytes:
        """Return all bytes of a regular file, which may have *limit* bytes at most; OSError for a larger one."""

    def stat(self, path: Path) -> FileFact:
        """Return the facts of a file or directory without opening it; symbolic links are followed."""

    def link(self, path: Path) -> str:
        """Return the target of a symbolic link."""

    def names(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""

    def processes(self, proc: Path, program: str) -> list[int]:
        """Return the IDs of the processes that may run *program*; some of them may run another program. *proc*: the
        proc file system of the host."""

    def clock(self) -> HostTime:
        """Return the time of the host."""

    def own_user(self) -> int:
        """Return the user ID with which files are read on the host."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files of this host. ``proc``: the proc file system.

    The paths for `read` and `stat` come from other processes, so a path such as /dev/stdin is refused there: it would
    mean a descriptor of this process. A path below /proc/PID/root is looked up with that directory as the root."""

    name: str = ""
    proc: Path = Path("/proc")

    @property
    def simulated_host(self) -> SimulatedHost | None:
        """The simulated host that this process is on; None on a real one."""
        return own_simulated_host()

    def read(self, path: Path, limit: int) -> bytes:
        """Return all bytes of a regular file."""
        return read_inside(*self._split(path), limit)

    def stat(self, path: Path) -> FileFact:
        """Return the facts of a file without opening it."""
        with open_inside(*self._split(path)) as place:
            return fact_of(path, os.fstat(place.descriptor), place.above)

    def _split(self, path: Path) -> tuple[Path, str]:
        """Return the root directory of a path, and the path inside that directory."""
        parts = path.relative_to(self.proc).parts if path.is_relative_to(self.proc) else ()
        if len(parts) > 1 and parts[0].isdecimal() and parts[1] == "root":
            return self.proc / parts[0] / "root", "/".join(parts[2:])
        return Path("/"), str(path.absolute())

    def link(self, path: Path) -> str:
        """Return the target of a symbolic link."""
        return os.readlink(path)

    def names(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        return sorted(os.listdir(path))

    def processes(self, proc: Path, program: str) -> list[int]:
        """Return the sorted IDs of the processes whose command line begins with *program*, with or without a folder
        before it; [] if *proc* cannot be read."""
        numbers = (int(name) for name in files.or_none(os.listdir, proc) or () if name.isdecimal())
        return [pid for pid in sorted(numbers) if _is_called(proc / str(pid), program)]

    def clock(self) -> HostTime:
        """Return the time of this host."""
        text = files.read_text("/proc/uptime", files.SETTINGS)
        return HostTime(time.time(), float(text.split()[0]), 1 / USER_HZ)

    def own_user(self) -> int:
        """Return the effective user ID of this process."""
        return os.geteuid()


def simulated_host_of(host: HostFiles, process: Path) -> SimulatedHost | None:
    """Return the simulated host that a process of *host* is on; None if it is a real one, or if nothing shows it.

    *process*: its folder in /proc.
    """
    marked = host_of_mounts(_text(host, process / "mountinfo", files.LIST))
    if marked is not None:
        return marked
    words = _text(host, process / "environ", files.SETTINGS).split("\0")
    variables = dict(word.partition("=")[::2] for word in words)
    return host_of_environment(variables, _text(host, process / "status", files.SETTINGS))


def _text(host: HostFiles, path: Path, limit: int) -> str:
    return (files.or_none(host.read, path, limit) or b"").decode("utf-8", "surrogateescape")


def _is_called(process: Path, program: str) -> bool:
    """Return whether the first word of a process's command line is *program*, or a path to it. Only its beginning is
    read, because a host has thousands of processes."""
    head = files.or_none(files.read_head, process / "cmdline", _LONGEST_PATH) or b""
    return os.path.basename(os.fsdecode(head.partition(b"\0")[0])) == program


_LONGEST_PATH: Final = 4096
THIS_HOST: Final = LocalFiles()
