"""The mount namespace of a simulated host, with a /dev of its own without adapters, and with folders of its own.

Root creates a mount namespace; any other user creates a user namespace with it. All programs of a host share the
namespace of the first program, so that they see each other's files, as on a real host. No program in it can unmount
anything: it has no capability, and in a user namespace that it creates itself the kernel locks the mounts together.
Source: mount_namespaces(7), user_namespaces(7).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ibkeys.sim.hosted import hidden_files
from ibkeys.sim.hosted.linux import call, library, mount
from ibkeys.simulated_host import SimulatedHost, host_of_mounts

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_FOLDERS: Final = ("pts", "shm")
_LINKS: Final = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}


def join(process: int) -> None:
    """Enter the user and mount namespaces of the process with the id *process*.

    Raises LibraryMissing; OSError, also for a process without a /dev of its own: its mount namespace hides nothing, and
    may have another root folder.
    """
    mounts = Path(f"/proc/{process}/mountinfo").read_text("utf-8", "surrogateescape")
    if host_of_mounts(mounts) is None:
        raise OSError(0, f"process {process} has no mount namespace of a simulated host")
    lib = library()
    kinds = {"user": lib.CLONE_NEWUSER, "mnt": lib.CLONE_NEWNS}
    opened = {kind: os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}
    for kind, descriptor in opened.items():
        if not os.path.samestat(os.fstat(descriptor), os.stat(f"/proc/self/ns/{kind}")):
            call(lib.setns, descriptor, kinds[kind])
        os.close(descriptor)


def make(host: SimulatedHost) -> None:
    """Create the namespace of *host* for this process, which must have one thread. Raises OSError if the kernel
    refuses, LibraryMissing."""
    lib = library()
    user, group = os.geteuid(), os.getegid()
    if user != 0 or not _try_unshare(lib.CLONE_NEWNS):
        call(lib.unshare, lib.CLONE_NEWUSER | lib.CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    mount("none", "/", flags=lib.MS_REC | lib.MS_PRIVATE)
    _hide_services(Path(host.folder))
    _protect_parents()
    for folder in hidden_files.OWN_FOLDERS:
        if os.path.isdir(folder):
            own = Path(host.folder) / "files" / folder.strip("/")
            own.mkdir(0o755, parents=True, exist_ok=True)
            mount(str(own), folder, flags=lib.MS_BIND)
    for folder in hidden_files.adapter_classes():
        mount("none", folder, "tmpfs", lib.MS_RDONLY)
    _make_dev(host)


def _try_unshare(flags: int) -> bool:
    try:
        call(library().unshare, flags)
    except OSError:
        return False
    return True


def _protect_parents() -> None:
    """Make sure that no program creates one of `OWN_FOLDERS` on the real host, if it does not exist there.

    Nothing can be mounted on a missing folder, so its parent folder is made read-only.
    """
    lib = library()
    missing = [folder for folder in hidden_files.OWN_FOLDERS if not os.path.isdir(folder)]
    for parent in dict.fromkeys(os.path.dirname(folder) for folder in missing):
        if os.access(parent, os.W_OK):
            mount(parent, parent, flags=lib.MS_BIND | lib.MS_REC)
            mount("none", parent, flags=lib.MS_BIND | lib.MS_REMOUNT | lib.MS_RDONLY)


def _hide_services(folder: Path) -> None:
    lib = library()
    empty_file = folder / "nothing"
    empty_file.touch(0o600)
    for path in hidden_files.SERVICES:
        if os.path.isdir(path):
            mount("none", path, "tmpfs", lib.MS_RDONLY)
        elif os.path.exists(path):
            mount(str(empty_file), path, flags=lib.MS_BIND)


def _make_dev(host: SimulatedHost) -> None:
    """Replace /dev by a new one with few devices and an empty folder infiniband.

    The source of its mount is ``host.source``, by which other programs recognize the processes of this host.
    """
    lib = library()
    new_dev = Path(host.folder) / "dev"
    new_dev.mkdir(exist_ok=True)
    mount(host.source, str(new_dev), "tmpfs", lib.MS_NOSUID | lib.MS_NOEXEC, "mode=0755")
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            (new_dev / name).touch()
            mount(f"/dev/{name}", str(new_dev / name), flags=lib.MS_BIND)
    for name in _FOLDERS:
        if os.path.isdir(f"/dev/{name}"):
            (new_dev / name).mkdir()
            mount(f"/dev/{name}", str(new_dev / name), flags=lib.MS_BIND | lib.MS_REC)
    for name, target in _LINKS.items():
        (new_dev / name).symlink_to(f"/proc/self/fd{target}")
    (new_dev / "infiniband").mkdir()
    mount(str(new_dev), "/dev", flags=lib.MS_MOVE)
