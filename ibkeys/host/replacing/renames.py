"""Renaming that Python's os does not have: exchanging two files, and taking a name only if it is free. Linux has
renameat2 for both. If C library, kernel or file system lack it, `exchange` returns False.
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


def exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two files of an open folder in one step; return False if that is not available. Raises OSError if one of
    them does not exist, or the file system refuses.
    """
    try:
        renameat2(folder, one, other, EXCHANGE)
    except OSError as error:
        if error.errno in _LACKING:
            return False
        raise
    return True


def take_free_name(folder: int, old: str, new: str) -> None:
    """Rename a file of an open folder to a name that must be free. Raises FileExistsError; OSError."""
    try:
        renameat2(folder, old, new, _NO_REPLACE)
    except OSError as error:
        if error.errno not in _LACKING:
            raise
        os.link(old, new, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        with suppress(OSError):  # it has the new name, which is what was asked for
            os.unlink(old, dir_fd=folder)


def renameat2(folder: int, old: str, new: str, flags: int) -> None:
    """Call renameat2 with both names in one folder (`AT_FDCWD`: that of this process). Raises OSError; ENOSYS if the C
    library lacks it."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if function(folder, os.fsencode(old), folder, os.fsencode(new), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), old, None, new)
