"""The processes on hosts of a simulated fabric, as /proc shows them, also those that no program of ours waits for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ibkeys.simulated_host import SimulatedHost, host_of_environment, host_of_mounts

_PROC: Final = Path("/proc")
PATIENCE: Final = 3.0
"""Seconds that processes have to end by themselves, and again when they were killed."""
_PAUSE: Final = 0.05


class HostedProcess(NamedTuple):
    """A process on a simulated host. ``command``: its command line, or its name if it has none."""

    pid: int
    host: SimulatedHost
    command: str


def hosted(socket: str | None = None) -> Iterator[HostedProcess]:
    """Yield the processes on hosts of the fabric with this socket name, None: of all fabrics, by number."""
    numbers = sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())
    for number in numbers:
        host = host_of(number)
        if host is not None and socket in (None, host.socket):
            yield HostedProcess(number, host, _command(number))


def host_of(process: int) -> SimulatedHost | None:
    """Return the simulated host of a process; None if it has ended, or is on this real host."""
    folder = _PROC / str(process)
    marked = host_of_mounts(_text(folder / "mountinfo"))
    if marked is not None:
        return marked
    words = (word.partition("=") for word in _text(folder / "environ").split("\0"))
    return host_of_environment({name: value for name, _, value in words}, _text(folder / "status"))


def end_all(socket: str) -> tuple[int, list[HostedProcess]]:
    """End all processes on hosts of a fabric but this one: by SIGTERM and SIGHUP, and by SIGKILL if they stay.

    Returns the number of those that were told to end, and those that this user may not end.
    """
    told: set[int] = set()
    kept: dict[int, HostedProcess] = {}
    for numbers, seconds in (((signal.SIGTERM, signal.SIGHUP), PATIENCE), ((signal.SIGKILL,), PATIENCE)):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:  # those that were begun in the meantime too
            found = [each for each in hosted(socket) if each.pid not in kept and each.pid != os.getpid()]
            if not found:
                return len(told), list(kept.values())
            for each in found:
                if not _signal(each, numbers if each.pid not in told or signal.SIGKILL in numbers else ()):
                    kept[each.pid] = each
                told.add(each.pid)
            time.sleep(_PAUSE)
    return len(told), [*kept.values(), *(each for each in hosted(socket) if each.pid != os.getpid())]


def _signal(found: HostedProcess, numbers: Sequence[int]) -> bool:
    """Send signals to exactly this process; return False if this user may not."""
    try:
        process = os.pidfd_open(found.pid)
    except ProcessLookupError:
        return True
    try:
        if host_of(found.pid) == found.host:  # otherwise another process has the number now
            for number in numbers:
                signal.pidfd_send_signal(process, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(process)
    return True


def _command(process: int) -> str:
    words = _text(_PROC / str(process) / "cmdline").replace("\0", " ").strip()
    return words or _text(_PROC / str(process) / "comm").strip()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""
