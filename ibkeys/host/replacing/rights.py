"""Removing rights from an existing file or folder. Nothing here ever adds rights."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.closing import closing_descriptor
from ibkeys.errors import FileChanged, FileError
from ibkeys.host.file_access import FileFact
from ibkeys.host.replacing.file_to_replace import SeenFile, open_folder, real_path

ACL: Final = "system.posix_acl_access"
"""The extended attribute with the ACL."""


def rights_hindrance(seen: SeenFile, rights: int | None, has_acl: bool) -> str | None:
    """Return the reason why a new file with exactly these *rights* (permission bits) cannot replace the file *seen*;
    None if it can, if *rights* is None, or if the file does not exist. In a file with an ACL the group's bits are the
    mask of the ACL, so they do not show who may read the file: *has_acl* is a reason.
    """
    if rights is None or seen.found is None:
        return None
    if wider := _wider_rights(seen.found.metadata.mode, rights):
        return wider
    if has_acl:
        return "has an ACL, which its mode does not show; remove it first (setfacl -b), or set the rights by hand"
    return None


def refuse_wider(at: str, seen: FileFact, mode: int) -> None:
    """Raise FileError if *mode* would give rights that the file *seen* does not give. *at*: the file's name in the
    message."""
    if wider := _wider_rights(seen.mode, mode):
        raise FileError(f"{at}: {wider}")


def set_mode(path: Path, seen: FileFact, mode: int) -> int:
    """Set the permission bits of the file or folder that *path* leads to, and return the former ones. *mode* may only
    take rights away.

    *seen*: the facts of the file when it was examined. It must still be the same file (device and inode), with the same
    owner and mode. Its bytes may have changed: a log grows. Raises FileChanged if it is another file, or has another
    owner or mode; FileError if *mode* gives more rights, if it is neither a regular file nor a folder, and for other
    failures.
    """
    refuse_wider(str(path), seen, mode)
    place = real_path(path)
    with open_folder(place) as folder_fd:
        try:
            # A device or FIFO may act when it is opened for reading. O_PATH avoids that, and needs no right to read.
            descriptor = os.open(place.name or ".", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
        except FileNotFoundError:
            raise changed_error(str(place)) from None
        except OSError as error:
            raise FileError(f"{place}: cannot be examined: {error.strerror}") from None
        as_file_error = files.os_errors_as(FileError, f"{place}: its mode cannot be set to {mode:04o}")
        with closing_descriptor(descriptor), as_file_error:
            _set_mode(descriptor, place, seen, mode)
    return seen.mode


def changed_error(at: str) -> FileChanged:
    """Return the error for a file that is not the one that was examined, or has another owner or mode now. *at*: the
    file's name in the message."""
    return FileChanged(
        f"{at}: is not the file that was examined, or another program changed its mode or owner; it is unchanged"
    )


def _set_mode(descriptor: int, place: Path, seen: FileFact, mode: int) -> None:
    status = os.fstat(descriptor)
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise FileError(f"{place}: is neither a regular file nor a folder")
    found = ((status.st_dev, status.st_ino), status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))
    if found != (seen.identity, seen.uid, seen.gid, seen.mode):
        raise changed_error(str(place))
    os.chmod(f"/proc/self/fd/{descriptor}", mode)
    has = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if has != mode:
        raise FileError(f"{place}: its mode cannot be set to {mode:04o}: it has {has:04o} now")


def _wider_rights(former: int, mode: int) -> str:
    if mode & ~former:
        return f"has mode {former:04o}, and {mode:04o} would give more rights; ibkeys only takes rights away"
    return ""
