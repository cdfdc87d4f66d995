"""Creating and replacing files and directories that only this user may read, and the errors of failed system calls."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ibkeys.closing import closing_descriptor
from ibkeys.errors import StoreError
from ibkeys.files import check_output, replace_file, sync_directory

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def os_error(path: Path | None, what: str, error: OSError | ValueError) -> StoreError:
    """Return the StoreError for a failed system call on *path*. *what* names the kind of file in the message. A
    ValueError means a path that no file can have."""
    if not isinstance(error, OSError):
        return StoreError(f"{path}: {what}: {error}")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"{path}: no space left for the {what}")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreError(
            f"{path}: the {what} cannot be opened or made here: {error.strerror}; name another file, or be root"
        )
    return StoreError(f"{path}: {what}: {error.strerror or error}")


@contextmanager
def named_errors(path: Path, what: str) -> Iterator[None]:
    """Convert the OSError or ValueError of a system call in this block into the StoreError of `os_error`."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise os_error(path, what, error) from error


def is_there(path: Path, what: str) -> bool:
    """Return whether *path* exists. Raises StoreError if that cannot be determined, for example in another user's
    folder.
    """
    with named_errors(path, what):
        return path.exists()


def create_private_file(path: Path) -> None:
    """Create an empty file of mode 0600, and its missing directories with mode 0700, all synced.

    A file that exists already is left as it is. Raises OSError.
    """
    make_directory(path.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except FileExistsError:
        return
    with closing_descriptor(descriptor):
        os.fsync(descriptor)
    sync_directory(path.parent)


def replace_private_file(path: Path, data: bytes) -> None:
    """Replace *path* by a file of mode 0600 with *data*, synced and atomically: a crash leaves the old file or the new
    one. Missing directories are created with mode 0700. Raises OSError, also for a *path* that is not a regular file.
    """
    make_directory(path.parent)
    check_output(path)
    replace_file(path, data, FILE_MODE)
    sync_directory(path.parent)


def make_directory(directory: Path) -> None:
    """Create a directory and its missing parents, each with mode 0700 and synced. Raises OSError."""
    missing = []
    while not directory.exists():
        missing.append(directory)
        directory = directory.parent
    for each in reversed(missing):
        each.mkdir(DIRECTORY_MODE, exist_ok=True)
        sync_directory(each.parent)
