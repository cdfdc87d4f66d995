"""A lock beside a file of an OpenSM of this host, which tells a second administrator who is making a change there. The
file is locked by flock(2) and filled with its holder before it gets its name, so it is never visible empty or unlocked.
The kernel frees the lock when its process ends; the file stays then, and is stale. An existing file is read and
removed, but never written: a user with write access to the folder may have made it a link, a FIFO or another user's
file.
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
from ibkeys.host.replacing.looked_up import Metadata
from ibkeys.host.replacing.names import new_name, unfinished
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
class LockHere:
    """A lock that this process holds, by a descriptor."""

    file: Path
    descriptor: int

    def release(self) -> None:
        """Remove the file, if it is still this one, and free the lock. Raises FileError."""
        try:
            if _is_at(self.file, self.descriptor):
                os.unlink(self.file)
        except OSError as error:
            raise _lock_error(self.file, "removed", error) from None
        finally:
            os.close(self.descriptor)


def lock_file(path: Path) -> Path:
    """Return the lock file of *path*, beside it. No file that replaces another one has such a name."""
    return path.with_name(f".{path.name}.ibkeys-lock")


def take_lock(path: Path, text: bytes, stale: bytes | None = None) -> LockHere | FoundLock | None:
    """Take the lock beside *path*, with *text* in it; if there is a lock already, return that one as it was found.
    *stale*: the text of a stale lock that may be taken over. None if the folder does not exist, or this user may make
    no file in it. Raises FileError for a file that is not regular, and for other errors.
    """
    file = lock_file(path)
    for _ in range(TRIES):
        try:
            found = _look(file, stale)
            if found is not None:
                return found
            taken = _make(file, text)
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
    """Return the lock that lies beside *path*, None for none. Raises FileError."""
    file = lock_file(path)
    try:
        return _look(file, None)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise _lock_error(file, "read", error) from None


def _look(file: Path, stale: bytes | None) -> FoundLock | None:
    """Return the existing lock; None if there is none, or if it was removed because it may be taken over.

    Raises OSError, FileError.
    """
    with ExitStack() as stack:
        for _ in range(TRIES):
            try:
                files.refuse_mode(os.lstat(file).st_mode)  # before it is opened: opening alone makes some devices act
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
        os.unlink(file)  # still locked: of several who take it over one succeeds
        return None


def _make(file: Path, text: bytes) -> LockHere | None:
    """Make a new lock and return it; None if another process made one first, or removed the unfinished file as a
    left-over. Raises OSError."""
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    draft = unfinished(new_name(file.name))
    with closing_descriptor(folder):
        descriptor = new_file.create(folder, draft)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new_file.fill(descriptor, text, Metadata(_MODE))
            os.link(draft, file.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            os.fsync(folder)
        except (FileExistsError, FileNotFoundError, BlockingIOError):
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
        return LockHere(file, descriptor)


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _is_at(file: Path, descriptor: int) -> bool:
    """Return whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.lstat(file), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _lock_error(file: Path, attempt: str, error: OSError) -> FileError:
    if isinstance(error, files.NoRegularFile):
        return FileError(f"{file}: {error.strerror}, so it is no lock of ibkeys: look who put it there, and remove it")
    return FileError(f"{file}: the lock cannot be {attempt}: {error.strerror or error}")
