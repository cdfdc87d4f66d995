"""A mount namespace for the programs of a simulated host: a /dev of its own without adapters, and folders of its own.

Root needs no more than that; any other user makes a user namespace with it. All programs of a host share the namespace
of the first one, so that they see each other's files and processes as on a real host. Without capabilities no program
in there can unmount anything; in a user namespace that it makes itself the kernel locks the mounts together.
Source: mount_namespaces(7), user_namespaces(7).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ibkeys.sim.hosted import hidden
from ibkeys.sim.hosted.linux import call, library, mount
from ibkeys.simulated_host import SimulatedHost

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_FOLDERS: Final = ("pts", "shm")
_LINKS: Final = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}


def join(process: int) -> None:
    """Enter the namespaces of a process. Raises OSError."""
    lib = library()
    kinds = {"user": lib.CLONE_NEWUSER, "mnt": lib.CLONE_NEWNS}
    opened = {kind: os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}
    for kind, descriptor in opened.items():
        if not os.path.samestat(os.fstat(descriptor), os.stat(f"/proc/self/ns/{kind}")):
            call(lib.setns, descriptor, kinds[kind])
        os.close(descriptor)


def make(host: SimulatedHost) -> None:
    """Give this process, which has one thread, a namespace for *host*. Raises OSError if the kernel refuses."""
    lib = library()
    user, group = os.geteuid(), os.getegid()
    if user != 0 or not _unshared(lib.CLONE_NEWNS):
        call(lib.unshare, lib.CLONE_NEWUSER | lib.CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    mount("none", "/", flags=lib.MS_REC | lib.MS_PRIVATE)
    _hide_services(Path(host.folder))
    _protect_parents()
    for folder in hidden.OWN_FOLDERS:
        if os.path.isdir(folder):
            own = Path(host.folder) / "files" / folder.strip("/")
            own.mkdir(0o755, parents=True, exist_ok=True)
            mount(str(own), folder, flags=lib.MS_BIND)
    for folder in hidden.adapter_classes():
        mount("none", folder, "tmpfs", lib.MS_RDONLY)
    _make_dev(host)


def _unshared(flags: int) -> bool:
    try:
        call(library().unshare, flags)
    except OSError:
        return False
    return True


def _protect_parents() -> None:
    """Let no folder that a simulated host has for itself be made on the real host, if that does not have it.

    Nothing can be mounted there, so the folder in which root would make it is read-only.
    """
    lib = library()
    missing = [folder for folder in hidden.OWN_FOLDERS if not os.path.isdir(folder)]
    for parent in dict.fromkeys(os.path.dirname(folder) for folder in missing):
        if os.access(parent, os.W_OK):
            mount(parent, parent, flags=lib.MS_BIND | lib.MS_REC)
            mount("none", parent, flags=lib.MS_BIND | lib.MS_REMOUNT | lib.MS_RDONLY)


def _hide_services(folder: Path) -> None:
    lib = library()
    nothing = folder / "nothing"
    nothing.touch(0o600)
    for path in hidden.SERVICES:
        if os.path.isdir(path):
            mount("none", path, "tmpfs", lib.MS_RDONLY)
        elif os.path.exists(path):
            mount(str(nothing), path, flags=lib.MS_BIND)


def _make_dev(host: SimulatedHost) -> None:
    """Put a /dev in place of that of the real host. Its source is the mark of the processes in here."""
    lib = library()
    made = Path(host.folder) / "dev"
    made.mkdir(exist_ok=True)
    mount(host.source, str(made), "tmpfs", lib.MS_NOSUID | lib.MS_NOEXEC, "mode=0755")
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            (made / name).touch()
            mount(f"/dev/{name}", str(made / name), flags=lib.MS_BIND)
    for name in _FOLDERS:
        if os.path.isdir(f"/dev/{name}"):
            (made / name).mkdir()
            mount(f"/dev/{name}", str(made / name), flags=lib.MS_BIND | lib.MS_REC)
    for name, target in _LINKS.items():
        (made / name).symlink_to(f"/proc/self/fd{target}")
    (made / "infiniband").mkdir()
    mount(str(made), "/dev", flags=lib.MS_MOVE)
