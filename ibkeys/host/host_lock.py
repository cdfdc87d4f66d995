"""A lock file beside a file of an OpenSM of this host: it tells a second administrator who is making a change there. It
is locked by flock(2), and has the line about its holder, before it gets its name, so it is never visible empty or
unlocked. The kernel frees the lock when the holder's process ends; the lock file stays then, and is stale. An existing
lock file is read and removed, but never written: a user with write access to the folder may have put a link, a FIFO or
another user's file there.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.closing import closing_descriptor
from ibkeys.errors import FileError
from ibkeys.host.inside_root import READ_WARILY
from ibkeys.host.replacing import new_file
from ibkeys.host.replacing.file_to_replace import Metadata
from ibkeys.host.replacing.names import new_name, unfinished_name
from ibkeys.host.replacing.replace import remove_unfinished

LONGEST: Final = 4 * files.KIB
"""Most bytes of a lock file that are read."""
TRIES: Final = 5
"""Number of attempts, because others may take or release the lock at the same moment."""
_MODE: Final = 0o600
"""Mode of a lock file: a user who may open it could lock it, and so block every change."""
_NOT_PERMITTED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True)
class FoundLock:
    """An existing lock file. ``text``: its first bytes; ``is_held``: whether a running process holds it."""

    text: bytes
    is_held: bool


@dataclass(frozen=True, slots=True)
class LocalLock:
    """A lock that this process holds. ``descriptor``: the open lock file, locked by flock(2)."""

    file: Path
    descriptor: int

    def release(self) -> None:
        """Remove the lock file, unless another file has its name by now, and free the lock. Raises FileError if it
        cannot be removed; the lock is free then too."""
        try:
            if _is_at(self.file, self.descriptor):
                os.unlink(self.file)
        except OSError as error:
            raise _lock_error(self.file, "removed", error) from None
        finally:
            os.close(self.descriptor)


def lock_file(path: Path) -> Path:
    """Return the lock file of *path*, in the same folder. Its name differs from those of the temporary files there
    (`ibkeys.host.replacing.names`), so no cleaning-up removes it."""
    return path.with_name(f".{path.name}.ibkeys-lock")


def take_lock(path: Path, contents: bytes, stale: bytes | None = None) -> LocalLock | FoundLock | None:
    """Take the lock beside *path* and return it; if there is a lock already, return that lock as a `FoundLock`. Return
    None if the folder does not exist, or this user may create no file in it.

    *contents*: those of the new lock file. *stale*: the contents of a lock file that may be taken over if no running
    process holds it. Raises FileError if the lock file is not regular, and for other failures.
    """
    file = lock_file(path)
    for _ in range(TRIES):
        try:
            found = _read_lock(file, stale)
            if found is not None:
                return found
            taken = _make_lock(file, contents)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, *_NOT_PERMITTED) and not os.path.lexists(file):
                return None
            raise _lock_error(file, "taken", error) from None
        if taken is not None:
            try:
                remove_unfinished(file)
            except BaseException:
                taken.release()
                raise
            return taken
    raise FileError(f"{file}: cannot be taken: others take and release it all the time; try again")


def find_lock(path: Path) -> FoundLock | None:
    """Return the lock beside *path*, None if there is none. Raises FileError if the lock file is not regular or cannot
    be read."""
    file = lock_file(path)
    try:
        return _read_lock(file, None)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise _lock_error(file, "read", error) from None


def _read_lock(file: Path, stale: bytes | None) -> FoundLock | None:
    """Return the existing lock; None if there is none. A lock file that no process holds, with the contents *stale*, is
    removed, and None is returned.

    Raises OSError, FileError.
    """
    with ExitStack() as stack:
        for _ in range(TRIES):
            try:
                # The check comes before the file is opened: opening alone makes some devices act.
                files.refuse_mode(os.lstat(file).st_mode)
                descriptor = os.open(file, READ_WARILY)
            except FileNotFoundError:
                return None
            stack.callback(os.close, descriptor)
            files.refuse_mode(os.fstat(descriptor).st_mode)
            is_held = _is_held(descriptor)
            if _is_at(file, descriptor):
                break
        else:
            raise FileError(f"{file}: cannot be read: others take and release it all the time; try again")
        text = os.pread(descriptor, LONGEST, 0)
        if is_held or text != stale:
            return FoundLock(text, is_held)
        os.unlink(file)  # this process still has it locked, so only one of several processes can take it over
        return None


def _make_lock(file: Path, text: bytes) -> LocalLock | None:
    """Make a new lock and return it; None if another process made one first, or took the incomplete file for a
    left-over and removed it. Raises OSError."""
    folder_fd = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    draft = unfinished_name(new_name(file.name))
    with closing_descriptor(folder_fd):
        descriptor = new_file.create(folder_fd, draft)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new_file.fill(descriptor, text, Metadata(_MODE))
            os.link(draft, file.name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd, follow_symlinks=False)
            os.fsync(folder_fd)
        except (FileExistsError, FileNotFoundError, BlockingIOError):
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder_fd)
        return LocalLock(file, descriptor)


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _is_at(file: Path, descriptor: int) -> bool:
    """Return whether the path *file* still leads to the open file *descriptor*."""
    try:
        return os.path.samestat(os.lstat(file), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _lock_error(file: Path, attempt: str, error: OSError) -> FileError:
    if isinstance(error, files.NoRegularFile):
        return FileError(f"{file}: {error.strerror}, so it is no lock of ibkeys: look who put it there, and remove it")
    return FileError(f"{file}: the lock cannot be {attempt}: {error.strerror or error}")
