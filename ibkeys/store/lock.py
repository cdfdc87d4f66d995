"""Allowing one changing command at a time: an exclusive lock file beside each of the files that it changes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from ibkeys.closing import closing_descriptor
from ibkeys.errors import StoreError, StoreLocked
from ibkeys.files import or_none, refuse_strange_file
from ibkeys.store.private_files import create_private_file, named_errors, os_error
from ibkeys.store.strict import check_folders

_HOLDER_BYTES: Final = 200


def lock_path(path: Path) -> Path:
    """Return the path of the lock file of *path*: ``NAME.lock`` beside the file, or beside the target of a symbolic
    link."""
    real = Path(os.path.realpath(path))
    return real.with_name(real.name + ".lock")


@contextmanager
def exclusive(*paths: Path | None, command: str = "ibkeys") -> Iterator[None]:
    """Hold the locks of *paths* (journal and key store) during the block. None is a store in memory and needs no lock.

    Does not wait for a lock: raises StoreLocked, which names the process and the command that hold it. Raises
    StoreError for a path that is no regular file, and for a lock file that cannot be created. The kernel releases the
    locks when the process ends, however it ends. *command*: the name of this command for messages of others, without
    its arguments, which may have a key.
    """
    files = {_lock_of(path) for path in paths if path is not None}
    with ExitStack() as stack:
        # Every process takes the locks in this order. Otherwise two commands could get one lock each, and both fail.
        for file in sorted(files):
            stack.enter_context(_hold_lock(file, command))
        yield


def holder_of(*paths: Path | None) -> str:
    """Return the command that holds the lock of one of *paths*, as ``mkey-rotate, pid 4711``, or "unknown process" if
    its lock file does not say; "" if no command holds one.

    For code that only reads. Testing a lock takes it for a moment, so a lock is tested only if its file names a holder;
    `exclusive` removes the name on release. A lock file that cannot be read counts as not held.
    """
    for file in sorted({lock_path(path) for path in paths if path is not None}):
        descriptor = or_none(os.open, file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        if descriptor is None:
            continue  # missing, or of another user, whose keys cannot be read either
        with closing_descriptor(descriptor):
            try:
                if os.fstat(descriptor).st_size:
                    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _read_holder(descriptor)
    return ""


def _lock_of(path: Path) -> Path:
    with named_errors(path, "journal or key store"):
        if path.exists() and not path.is_file():
            raise StoreError(f"{path}: is not a regular file, so it cannot be a journal or a key store")
        return lock_path(path)


@contextmanager
def _hold_lock(file: Path, command: str) -> Iterator[None]:
    with named_errors(file, "lock file"):
        check_folders(file, "lock file")
        create_private_file(file)
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with closing_descriptor(descriptor):
        with named_errors(file, "lock file"):
            refuse_strange_file(os.fstat(descriptor))  # checked before the file is emptied
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreLocked(
                f"{file}: another changing command is running ({_read_holder(descriptor)}); try again when it has ended"
            ) from None
        except OSError as error:
            raise os_error(file, "lock", error) from error
        _write_holder(descriptor, f"{os.getpid()} {command}")
        try:
            yield
        finally:
            _write_holder(descriptor, "")


def _write_holder(descriptor: int, text: str) -> None:
    with suppress(OSError):  # the text is only for messages of other commands, so a full disk must not stop this one
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode()[:_HOLDER_BYTES], 0)


def _read_holder(descriptor: int) -> str:
    pid, _, command = os.pread(descriptor, _HOLDER_BYTES, 0).decode("utf-8", "replace").partition(" ")
    return f"{command}, pid {pid}" if pid.isdigit() else "unknown process"
