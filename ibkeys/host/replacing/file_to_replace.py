"""Reading a file that may be replaced: its real path, its bytes, and the metadata that must be kept."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ibkeys import files
from ibkeys.closing import closing_descriptor
from ibkeys.errors import FileChanged, FileError
from ibkeys.host.inside_root import MOST_LINKS, READ_WARILY


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of a file. ``mode``: the permission bits. ``uid``, ``gid``: None stands for the user who creates the
    file. ``attributes``: all extended attributes by name, including ACL and SELinux label.
    """

    mode: int
    uid: int | None = None
    gid: int | None = None
    attributes: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One regular file as it was read. Two equal values are the same file, unchanged between the two reads.
    ``modified_ns``: the time of its last change, in nanoseconds since 1970; ``links``: its number of hard links."""

    data: bytes = field(repr=False)
    metadata: Metadata = field(repr=False)
    device: int
    inode: int
    modified_ns: int
    links: int


@dataclass(frozen=True, slots=True)
class SeenFile:
    """The file that a path led to when it was read. ``path``: the real path, with all symbolic links followed;
    ``found``: the file, None if it does not exist."""

    path: Path
    found: FoundFile | None

    @property
    def data(self) -> bytes | None:
        """The bytes of the file, None if it does not exist."""
        return None if self.found is None else self.found.data


def look(path: Path, limit: int = files.LIST) -> SeenFile:
    """Return the file that *path* leads to; it may have *limit* bytes at most. Raises FileChanged if another program
    writes the file while it is read. Raises FileError for a symbolic link that leads nowhere, is part of a loop, or was
    made by another user; for a file that is not regular or is larger than *limit*; and if reading fails.
    """
    place = real_path(path)
    with open_folder(place) as folder_fd:
        return SeenFile(place, read_in_folder(folder_fd, place, place.name or ".", limit))


def real_path(path: Path) -> Path:
    """Return the absolute path of the file that *path* leads to, with all symbolic links followed. The file need not
    exist if *path* is not a link.

    Raises FileError for a symbolic link as `look`, and for a folder that does not exist or cannot be read.
    """
    place = Path.cwd() / path
    for number in range(MOST_LINKS + 1):
        try:
            parent = Path(os.path.realpath(place.parent, strict=True))
            place = parent / place.name
            status = os.lstat(place)
        except FileNotFoundError as error:
            if number == 0 and error.filename == str(place):
                return place
            missing = error.filename if number == 0 else f"a symbolic link to {error.filename}"
            raise FileError(f"{path}: {missing}, which does not exist") from None
        except (OSError, ValueError) as error:  # a NUL in the name is a ValueError
            raise _unreadable(path, error) from None
        if not stat.S_ISLNK(status.st_mode):
            return place
        if status.st_uid not in files.trusted_users():
            raise FileError(f"{path}: {place} is a symbolic link of another user (UID {status.st_uid})")
        place = parent / os.readlink(place)
    raise FileError(f"{path}: a loop of symbolic links, or more than {MOST_LINKS} of them")


@contextmanager
def open_folder(place: Path) -> Iterator[int]:
    """Yield a descriptor of the folder of *place*. A name that is looked up by it is one in this very folder, even if
    the folder is renamed meanwhile. Raises FileError."""
    with files.os_errors_as(FileError, f"{place.parent}: cannot be read"):
        folder_fd = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with closing_descriptor(folder_fd):
        yield folder_fd


def read_in_folder(folder_fd: int, place: Path, name: str, limit: int = files.LIST) -> FoundFile | None:
    """Return the file called *name* in an open folder, None if it does not exist. *place*: the path in messages.

    Raises FileChanged and FileError as `look`; a symbolic link is not followed, and is not a regular file.
    """
    try:
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{place}: is not a regular file")
        descriptor = os.open(name, READ_WARILY, dir_fd=folder_fd)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(place, error) from None
    with closing_descriptor(descriptor), files.os_errors_as(FileError, f"{place}: cannot be read"):
        return _read_open_file(descriptor, place, limit)


def read_metadata(descriptor: int) -> Metadata:
    """Return the metadata of an open file. Raises OSError."""
    status = os.fstat(descriptor)
    return Metadata(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, _read_attributes(descriptor))


def _read_open_file(descriptor: int, place: Path, limit: int) -> FoundFile:
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        raise FileError(f"{place}: is not a regular file")
    data = files.read_descriptor(descriptor, limit)
    metadata = read_metadata(descriptor)
    status = os.fstat(descriptor)
    if (before.st_mtime_ns, before.st_size) != (status.st_mtime_ns, len(data)):
        raise FileChanged(f"{place}: another program is writing it right now")
    return FoundFile(data, metadata, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_nlink)


def _read_attributes(descriptor: int) -> dict[str, bytes]:
    try:
        names = os.listxattr(descriptor)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return {}
        raise
    return {name: os.getxattr(descriptor, name) for name in sorted(names)}


def _unreadable(path: Path, error: OSError | ValueError) -> FileError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return FileError(f"{path}: cannot be read: {reason}")
