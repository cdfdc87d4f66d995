"""The reasons why a file cannot be replaced, found without writing anything."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.closing import closing_descriptor
from ibkeys.errors import FileError
from ibkeys.host.replacing.file_to_replace import SeenFile, open_folder
from ibkeys.host.replacing.mounts import mount_number
from ibkeys.host.replacing.names import new_name, unfinished_name
from ibkeys.host.replacing.rights import ACL, rights_hindrance

_NAME_MAX: Final = 255
MOUNT_POINT: Final = (
    "is a mount point itself, for example a file mounted into a container: it can only be written in place, which "
    "ibkeys does not do; change it at its source"
)
_GET_FLAGS: Final = 0x80086601 if struct.calcsize("P") == 8 else 0x80046601
"""FS_IOC_GETFLAGS of linux/fs.h."""
_FIXED: Final = 0x10 | 0x20
"""FS_IMMUTABLE_FL and FS_APPEND_FL of linux/fs.h, which `chattr` sets."""


def hindrance_to_replacing(seen: SeenFile, rights: int | None = None) -> str | None:
    """Return the reason why a file that was examined cannot be replaced, None if no reason is known. *rights*: the
    permission bits of the new file, None for those of the old one. Raises FileError if its folder cannot be read, or if
    one of them cannot be examined.
    """
    with open_folder(seen.path) as folder_fd, files.os_errors_as(FileError, f"{seen.path}: cannot be examined"):
        reason = next((reason for reason in _find_reasons(folder_fd, seen, rights) if reason), None)
    return None if reason is None else f"{seen.path}: {reason}"


def _find_reasons(folder_fd: int, seen: SeenFile, rights: int | None) -> Iterator[str | None]:
    yield name_hindrance(seen.path)
    yield _mount_hindrance(folder_fd, seen)
    yield _folder_hindrance(folder_fd, seen.path.parent)
    if seen.found is not None:
        above = os.fstat(folder_fd)
        yield owner_hindrance(seen, os.geteuid(), above.st_mode, above.st_uid)
        yield links_hindrance(seen.found.links)
        yield _flag_hindrance(folder_fd, seen.path)
        yield rights_hindrance(seen, rights, ACL in seen.found.metadata.attributes)


def name_hindrance(place: Path, more: int = 0) -> str | None:
    """Return the reason why a file with the name of *place* cannot be replaced, or None. *more*: the number of bytes by
    which the name of its temporary file may be longer than here; another host names it otherwise."""
    try:
        place.as_posix().encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8, and the journal cannot keep it"
    if len(os.fsencode(unfinished_name(new_name(place.name)))) + more > _NAME_MAX:
        return "its name is too long: the new file needs a longer one beside it until it is complete"
    return None


def _mount_hindrance(folder_fd: int, seen: SeenFile) -> str | None:
    """Return the reason if the file itself is a mount point, or if that cannot be determined; else None. A bind mount
    has the same device number as the file system that it shows, so the kernel's number of the mount is compared."""
    if seen.found is None:
        return None
    try:
        descriptor = os.open(seen.path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError as error:
        return f"cannot be examined: {error.strerror}"
    with closing_descriptor(descriptor):
        own, above = mount_number(descriptor), mount_number(folder_fd)
    is_mount_point = own != above if own and above else seen.found.device != os.fstat(folder_fd).st_dev
    return MOUNT_POINT if is_mount_point else None


def _folder_hindrance(folder_fd: int, path: Path) -> str | None:
    if os.fstatvfs(folder_fd).f_flag & os.ST_RDONLY:
        return f"{path} is on a read-only file system"
    if _read_flags(folder_fd) & _FIXED:
        return f"no file can be replaced in {path}: it is marked as immutable or append-only (chattr)"
    if not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
        return f"no file can be created in {path} by this user (UID {os.geteuid()})"
    return None


def owner_hindrance(seen: SeenFile, user: int, folder_mode: int, folder_owner: int) -> str | None:
    """Return the reason why *user* (an ID) cannot replace a file of another user, or None. *folder_mode*,
    *folder_owner*: those of the file's folder."""
    owner = None if seen.found is None else seen.found.metadata.uid
    if user in (0, owner):
        return None
    if folder_mode & stat.S_ISVTX and folder_owner != user:
        return f"belongs to UID {owner}, and {seen.path.parent} lets only that user replace it"
    return f"belongs to UID {owner}, and only root can make a file that belongs to another user"


def links_hindrance(links: int) -> str | None:
    """Return the reason why a file with *links* hard links cannot be replaced; None for one link."""
    return f"has {links} names (hard links), and the others would keep the former content" if links > 1 else None


def _flag_hindrance(folder_fd: int, place: Path) -> str | None:
    try:
        descriptor = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError as error:
        return f"cannot be examined: {error.strerror}"
    with closing_descriptor(descriptor):
        fixed = _read_flags(descriptor) & _FIXED
    return "is marked as immutable or append-only (chattr)" if fixed else None


def _read_flags(descriptor: int) -> int:
    try:
        answer = fcntl.ioctl(descriptor, _GET_FLAGS, bytes(struct.calcsize("l")))
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EPERM):
            return 0  # the file system has no such flags, or does not show them to this user
        raise
    return int(struct.unpack_from("i", answer)[0])
