"""Finding and ending the processes on hosts of a simulated fabric by /proc, even if `ibkeys sim run` has ended."""

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
"""Seconds that processes have to end after SIGTERM, and again after SIGKILL."""
_PAUSE: Final = 0.05


class HostedProcess(NamedTuple):
    """A process on a simulated host. ``command``: its command line, or its name if the command line is empty."""

    pid: int
    host: SimulatedHost
    command: str


def hosted_processes(socket: str | None = None) -> Iterator[HostedProcess]:
    """Yield the processes on hosts of the fabric with the socket name *socket*, in the order of their ids. None: of all
    fabrics."""
    numbers = sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())
    for number in numbers:
        host = host_of(number)
        if host is not None and socket in (None, host.socket):
            yield HostedProcess(number, host, _command(number))


def host_of(process: int) -> SimulatedHost | None:
    """Return the simulated host of the process with the id *process*; None if the process has ended, or is on no
    simulated host."""
    folder = _PROC / str(process)
    marked = host_of_mounts(_text(folder / "mountinfo"))
    if marked is not None:
        return marked
    words = (word.partition("=") for word in _text(folder / "environ").split("\0"))
    return host_of_environment({name: value for name, _, value in words}, _text(folder / "status"))


def end_all(socket: str) -> tuple[int, list[HostedProcess]]:
    """End all processes on hosts of the fabric *socket*, except this process: by SIGTERM and SIGHUP, then by SIGKILL.

    Returns the number of processes that it tried to end, and the processes that did not end, or that this user may not
    end.
    """
    tried: set[int] = set()
    refused: dict[int, HostedProcess] = {}
    for numbers, seconds in (((signal.SIGTERM, signal.SIGHUP), PATIENCE), ((signal.SIGKILL,), PATIENCE)):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:  # This also finds processes that were started in the meantime.
            found = [each for each in hosted_processes(socket) if each.pid not in refused and each.pid != os.getpid()]
            if not found:
                return len(tried), list(refused.values())
            for each in found:
                if not _signal(each, numbers if each.pid not in tried or signal.SIGKILL in numbers else ()):
                    refused[each.pid] = each
                tried.add(each.pid)
            time.sleep(_PAUSE)
    return len(tried), [*refused.values(), *(each for each in hosted_processes(socket) if each.pid != os.getpid())]


def _signal(target: HostedProcess, numbers: Sequence[int]) -> bool:
    """Send the signals *numbers* to the process *target*, if it still exists; return False if this user may not."""
    try:
        pidfd = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return True
    try:
        if host_of(target.pid) == target.host:  # otherwise another process has the id now
            for number in numbers:
                signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(pidfd)
    return True


def _command(process: int) -> str:
    words = _text(_PROC / str(process) / "cmdline").replace("\0", " ").strip()
    return words or _text(_PROC / str(process) / "comm").strip()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""
