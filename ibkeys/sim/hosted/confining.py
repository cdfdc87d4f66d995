"""Confining a process, before it executes a program of a simulated host, so that nothing there reaches an adapter.

The first of these that the kernel allows: a mount namespace; Landlock; a user who may not open the devices anyway. In
all three the process has no privilege and its programs get none, and what it sees is checked at the end. If none is
possible, the program is not started.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from typing import Final, Literal

from ibkeys.errors import LibraryMissing, Refused
from ibkeys.sim.hosted import hidden, landlock, namespaces
from ibkeys.sim.hosted.linux import give_up_privileges
from ibkeys.simulated_host import SimulatedHost

Hiding = Literal["namespace", "landlock", "permissions"]
"""The means by which the adapters are hidden."""
ALL: Final[tuple[Hiding, ...]] = ("namespace", "landlock", "permissions")


def confine(host: SimulatedHost, peers: Iterable[int], means: Iterable[Hiding] = ALL) -> Hiding:
    """Confine this process, which has one thread, to *host* and return by which of the *means*.

    *peers*: processes on the same host. Raises Refused if no means is possible.
    """
    _close_devices()
    folder = _working_directory()
    reasons = []
    for each in means:
        try:
            _MEANS[each](host, peers)
            _go_to(folder)
        except (OSError, LibraryMissing) as error:
            reasons.append(f"{each}: {_words(error)}")
        else:
            return each
    raise Refused(
        f"not started, because the adapters of this host cannot be hidden from it ({'; '.join(reasons)}): "
        "run it as a user other than root who may not open /dev/infiniband/umad*, or allow user namespaces",
        "adapters",
    )


def _by_namespace(host: SimulatedHost, peers: Iterable[int]) -> None:
    if not _joined(peers):
        namespaces.make(host)
    give_up_privileges()
    seen = list(hidden.visible())
    if seen:
        raise OSError(0, f"{seen[0]} is still there")


def _joined(peers: Iterable[int]) -> bool:
    for process in peers:
        try:
            namespaces.join(process)
        except OSError:  # it has ended
            continue
        return True
    return False


def _by_landlock(host: SimulatedHost, peers: Iterable[int]) -> None:
    give_up_privileges()
    landlock.hide([hidden.DEVICES, *hidden.adapter_classes(), *hidden.OWN_FOLDERS, *hidden.SERVICES])
    _check_devices()


def _by_permissions(host: SimulatedHost, peers: Iterable[int]) -> None:
    if os.geteuid() == 0:
        raise OSError(0, "root may open them")
    give_up_privileges()
    _check_devices()


def _check_devices() -> None:
    """Raise OSError if this process can open a device for MADs. An issm device is not opened, as that sets a bit."""
    for path in hidden.managing_devices():
        if os.path.basename(path).startswith("issm"):
            continue
        try:
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:
            continue
        raise OSError(0, f"{path} can be opened")


_MEANS: Final[dict[Hiding, Callable[[SimulatedHost, Iterable[int]], None]]] = {
    "namespace": _by_namespace,
    "landlock": _by_landlock,
    "permissions": _by_permissions,
}


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "/"


def _go_to(folder: str) -> None:
    """Enter the folder of this name, which may be hidden now, or be another one than that in which the process was."""
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")


def _close_devices() -> None:
    """Close every device and folder that this process inherited, because by a folder of /dev a device can be opened.

    Raises Refused if a standard descriptor leads to an adapter or is a folder.
    """
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            mode = os.fstat(number).st_mode
            path = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the list itself
            continue
        is_folder = stat.S_ISDIR(mode)
        if number > 2 and (is_folder or stat.S_ISCHR(mode)):
            os.close(number)
        elif is_folder or path.startswith(f"{hidden.DEVICES}/"):
            raise Refused(f"descriptor {number} of the program would be {path}: redirect it elsewhere", "adapters")


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f' ({error.filename})' if error.filename else ''}"
    return str(error)
