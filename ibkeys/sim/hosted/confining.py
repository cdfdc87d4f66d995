"""Confining a process that is about to execute a program of a simulated host, so that it cannot reach a real adapter.

There are three means, of which the first possible one is used: a mount namespace; Landlock; or the user may not open
the devices anyway. In all cases the process gives up its privileges, its programs can get none, and at the end it is
checked that no device is accessible. If no means is possible, the program is not started.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from typing import Final, Literal

from ibkeys.errors import LibraryMissing, Refused
from ibkeys.sim.hosted import hidden_files, landlock, namespaces
from ibkeys.sim.hosted.linux import give_up_privileges
from ibkeys.simulated_host import SimulatedHost

Hiding = Literal["namespace", "landlock", "permissions"]
"""The means by which the adapters are hidden."""
ALL: Final[tuple[Hiding, ...]] = ("namespace", "landlock", "permissions")


def confine(host: SimulatedHost, peers: Iterable[int], means: Iterable[Hiding] = ALL) -> Hiding:
    """Confine this process, which must have one thread, to *host*; return which of the *means* was possible.

    *peers*: ids of processes on the same host; it joins the namespace of the first that still runs. Raises Refused if
    no means is possible, or if a standard descriptor leads to an adapter or is a folder.
    """
    _close_devices()
    folder = _working_directory()
    reasons = []
    for each in means:
        try:
            _MEANS[each](host, peers)
            _enter_folder(folder)
        except (OSError, LibraryMissing) as error:
            reasons.append(f"{each}: {_describe_error(error)}")
        else:
            return each
    raise Refused(
        f"not started, because the adapters of this host cannot be hidden from it ({'; '.join(reasons)}): "
        "run it as a user other than root who may not open /dev/infiniband/umad*, or allow user namespaces",
        "adapters",
    )


def _by_namespace(host: SimulatedHost, peers: Iterable[int]) -> None:
    if not _join_peer(peers):
        namespaces.make(host)
    give_up_privileges()
    found = list(hidden_files.visible_adapters())
    if found:
        raise OSError(0, f"{found[0]} is still there")


def _join_peer(peers: Iterable[int]) -> bool:
    for process in peers:
        try:
            namespaces.join(process)
        except OSError:  # The process has ended.
            continue
        return True
    return False


def _by_landlock(host: SimulatedHost, peers: Iterable[int]) -> None:
    give_up_privileges()
    landlock.hide(
        [hidden_files.DEVICES, *hidden_files.adapter_classes(), *hidden_files.OWN_FOLDERS, *hidden_files.SERVICES]
    )
    _check_devices()


def _by_permissions(host: SimulatedHost, peers: Iterable[int]) -> None:
    if os.geteuid() == 0:
        raise OSError(0, "root may open them")
    give_up_privileges()
    _check_devices()


def _check_devices() -> None:
    """Raise OSError if this process can open a device for MADs. No issm device is opened, because that would set
    IsSM."""
    for path in hidden_files.managing_devices():
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
    except OSError:  # The folder was removed.
        return "/"


def _enter_folder(folder: str) -> None:
    """Enter *folder* by its name, because the current folder of the process may be hidden now. Enter / if this
    fails."""
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")


def _close_devices() -> None:
    """Close every device and folder that this process inherited: by a descriptor of a folder, devices in it can be
    opened.

    Raises Refused if a standard descriptor leads to an adapter or is a folder.
    """
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            mode = os.fstat(number).st_mode
            path = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the descriptor of the listing itself
            continue
        is_folder = stat.S_ISDIR(mode)
        if number > 2 and (is_folder or stat.S_ISCHR(mode)):
            os.close(number)
        elif is_folder or path.startswith(f"{hidden_files.DEVICES}/"):
            raise Refused(f"descriptor {number} of the program would be {path}: redirect it elsewhere", "adapters")


def _describe_error(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f' ({error.filename})' if error.filename else ''}"
    return str(error)
