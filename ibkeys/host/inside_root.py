"""Looking up the files of a process that has a root directory of its own, from outside. A path below /proc/PID/root
that leads through an absolute symbolic link would be looked up on the host itself. So each part of a path is opened
separately and links are followed here: an absolute link begins again at that root, and ``..`` never leaves it. Links of
/proc are refused: such a link, for example the one behind /dev/stdin, would mean a descriptor of this process, not of
the process that has the path.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.closing import closing_descriptor

MOST_LINKS: Final = 40
"""Most symbolic links that the kernel follows in one path."""
_PROC_MAGIC: Final = 0x9FA0
_LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
READ_WARILY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags to open a file that other users may have put there: no link is followed, no device blocks, and none becomes the
controlling terminal."""
IS_DESCRIPTOR: Final = "it is a descriptor of that process"
"""The reason why a path through a link of /proc is refused."""


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """The file or directory that a path leads to. ``name``: the last part, below the directory that is open as
    ``directory``; "." for the root itself. ``descriptor``: open with O_PATH. ``above``: the directories above with
    their status, the nearest first."""

    directory: int
    name: str
    descriptor: int
    above: tuple[tuple[Path, os.stat_result], ...]


@contextmanager
def open_inside(root: Path, path: str) -> Iterator[ResolvedName]:
    """Look *path* up with *root* as the root directory, and yield the result; its descriptors are closed at the end of
    the block. Raises OSError; its subclass NameOfDescriptor for a path through a link of /proc."""
    if "\0" in path:
        raise OSError(errno.EINVAL, "a name with a NUL byte")
    with ExitStack() as closing:

        def open_part(name: str, directory: int | None, flags: int = _LOOK) -> int:
            descriptor = os.open(name, flags, dir_fd=directory)
            closing.callback(os.close, descriptor)
            return descriptor

        # The directories of the path so far, by name and descriptor. At the end also the file that the path leads to.
        passed = [("", open_part(str(root), None, os.O_PATH | os.O_CLOEXEC))]
        parts = path.split("/")[::-1]
        links = 0
        while parts:
            part = parts.pop()
            here = passed[-1][1]
            if part in ("", "."):
                if not stat.S_ISDIR(os.fstat(here).st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                continue
            if part == "..":
                del passed[max(1, len(passed) - 1) :]
                continue
            found = open_part(part, here)
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                passed.append((part, found))
                continue
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if _is_of_proc(found):
                raise NameOfDescriptor(errno.EINVAL, IS_DESCRIPTOR)
            target = os.readlink("", dir_fd=found)
            if target.startswith("/"):
                del passed[1:]
            parts += target.split("/")[::-1]
        names = [name for name, _ in passed[1:]]
        above = [
            (root.joinpath(*names[:depth]), os.fstat(descriptor)) for depth, (_, descriptor) in enumerate(passed[:-1])
        ]
        directory = passed[-2][1] if names else passed[0][1]
        yield ResolvedName(directory, names[-1] if names else ".", passed[-1][1], tuple(above[::-1]))


class NameOfDescriptor(OSError):
    """A path leads through a link of /proc, which means an open file of the process that follows it."""


def read_inside(root: Path, path: str, limit: int) -> bytes:
    """Return all bytes of a regular file. *path* is looked up with *root* as the root directory. Raises OSError, also
    if the file has more than *limit* bytes."""
    with open_inside(root, path) as place:
        # The check comes before the file is opened for reading: opening alone makes some devices act.
        files.refuse_mode(os.fstat(place.descriptor).st_mode)
        descriptor = os.open(place.name, READ_WARILY, dir_fd=place.directory)
        with closing_descriptor(descriptor):
            files.refuse_mode(os.fstat(descriptor).st_mode)
            return files.read_descriptor(descriptor, limit)


def _is_of_proc(descriptor: int) -> bool:
    """Return whether an open file is in a proc file system. fstatfs(2) writes the type of the file system as the first
    number of its result. Raises OSError."""
    status = (ctypes.c_long * 64)()
    if _libc.fstatfs(descriptor, status) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return status[0] & 0xFFFF_FFFF == _PROC_MAGIC


_libc: Final = ctypes.CDLL(None, use_errno=True)
