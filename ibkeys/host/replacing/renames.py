"""Two kinds of renaming that Python's os lacks: exchanging two files, and renaming only to a free name. Linux has
renameat2(2) for both. If the C library, kernel or file system lacks it, `exchange` returns False, and `take_free_name`
makes a hard link instead.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from typing import Final

AT_FDCWD: Final = -100
_NO_REPLACE: Final = 1
EXCHANGE: Final = 2
_LACKING: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})
"""Errors that mean that the call is not available. EPERM: filters of system calls return it. If renaming is forbidden
too, the next attempt raises the error."""


def exchange(folder_fd: int, one: str, other: str) -> bool:
    """Exchange two files of an open folder in one step; return False if renameat2 is not available. Raises OSError if
    one of the files does not exist, or the file system refuses.
    """
    try:
        renameat2(folder_fd, one, other, EXCHANGE)
    except OSError as error:
        if error.errno in _LACKING:
            return False
        raise
    return True


def take_free_name(folder_fd: int, old: str, new: str) -> None:
    """Rename a file of an open folder to the name *new*, which must be free. Raises FileExistsError if it is not,
    OSError for other failures."""
    try:
        renameat2(folder_fd, old, new, _NO_REPLACE)
    except OSError as error:
        if error.errno not in _LACKING:
            raise
        os.link(old, new, src_dir_fd=folder_fd, dst_dir_fd=folder_fd, follow_symlinks=False)
        with suppress(OSError):  # the file has the new name already; the old name alone is no reason to fail
            os.unlink(old, dir_fd=folder_fd)


def renameat2(folder_fd: int, old: str, new: str, flags: int) -> None:
    """Call renameat2(2) with both names relative to one folder. *folder_fd*: its descriptor, or `AT_FDCWD` for the
    working directory. Raises OSError, with ENOSYS if the C library lacks the function."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if function(folder_fd, os.fsencode(old), folder_fd, os.fsencode(new), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), old, None, new)
