"""Putting a new file in place of an old one, so that an edit by another program or administrator is not lost unread,
but for the gaps below.

First the new file is written completely, beside the old one, and synced to disk. Then both are exchanged in one step.
The file that comes out is compared with the file that was read when the change was planned. If they differ, both are
exchanged again, and an error is raised. So a file that another program renamed into place at the last moment is found,
not lost.

Remaining gaps: a program that opened the old file for writing is found only if the file system has leases. A program
that looked up the old file just before the exchange, and opens it just after the comparison, is not found. On a file
system without exchange (NFS, some others) there is only the comparison right before the rename: a file that another
program renames into place between these two calls is lost.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ibkeys import files
from ibkeys.closing import closing_descriptor
from ibkeys.errors import FileChanged, FileError
from ibkeys.host.inside_root import READ_WARILY
from ibkeys.host.replacing import new_file, renames
from ibkeys.host.replacing.file_to_replace import FoundFile, Metadata, SeenFile, open_folder, read_in_folder
from ibkeys.host.replacing.names import new_name, unfinished_name


def put(seen: SeenFile, data: bytes | None, metadata: Metadata, limit: int = files.LIST) -> None:
    """Replace a file by a new one with *data* and *metadata*; *data* None removes the file, if it existed. *seen*: the
    file as it was read; *limit*: the most bytes that are read to compare it again.

    Raises FileChanged if the file is not as it was read: then the version of another user or program is in place.
    Raises FileError for other failures; its ``is_replaced`` says which version is in place.
    """
    if data is not None:
        with prepared(seen, data, metadata, limit) as ready:
            ready.take_place()
        return
    with open_folder(seen.path) as folder_fd:
        Replacement(folder_fd, seen, limit).remove()


@contextmanager
def prepared(seen: SeenFile, data: bytes, metadata: Metadata, limit: int = files.LIST) -> Iterator[Replacement]:
    """Write the new file beside the old one, and yield the replacement, for the caller to call `take_place`. A new file
    that is not in place at the end of the block is removed. Arguments and errors as in `put`; if an error is raised
    before the block, the new file is removed too.
    """
    with open_folder(seen.path) as folder_fd:
        ready = Replacement(folder_fd, seen, limit)
        try:
            ready.prepare(data, metadata)
            yield ready
        finally:
            ready.clear()


class Replacement:
    """The replacement of one file. ``beside``: the temporary name of the new file until it is in place; after the
    exchange the old file has this name. ``written``: the new file as it was read back. ``is_replaced``: whether the new
    version is in place. ``may_hold_foreign_version``: whether the file called ``beside`` may be the only copy of a
    version by another program or administrator, so that it must not be removed.
    """

    def __init__(self, folder_fd: int, seen: SeenFile, limit: int) -> None:
        self.folder_fd, self.seen, self.limit = folder_fd, seen, limit
        self.name = seen.path.name
        self.beside = new_name(self.name)
        self.descriptor: int | None = None
        self.written: FoundFile | None = None
        self.is_replaced = False
        self.may_hold_foreign_version = False

    def prepare(self, data: bytes, metadata: Metadata) -> None:
        """Write the new file beside the old one, and check again that the old one is as it was read. Raises FileChanged
        if it is not, FileError for other failures."""
        with self._as_file_error("replaced"):
            self.descriptor = new_file.create(self.folder_fd, unfinished_name(self.beside))
            new_file.fill(self.descriptor, data, metadata)
            os.rename(unfinished_name(self.beside), self.beside, src_dir_fd=self.folder_fd, dst_dir_fd=self.folder_fd)
            self.written = read_in_folder(self.folder_fd, self.seen.path, self.beside, self.limit)
            self.refuse_changed()

    def take_place(self) -> None:
        """Put the new file in place of the old one. Raises FileChanged and FileError as `put`."""
        with self._as_file_error("replaced"):
            self.refuse_changed()
            self._take_place()
            os.fsync(self.folder_fd)

    def clear(self) -> None:
        """Close and remove the new file, if it is not in place. After an exchange, remove the old file, unless it may
        be the only copy of a version by another program or administrator."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        for name in (unfinished_name(self.beside), self.beside):
            if name != self.beside or not self.may_hold_foreign_version:
                with suppress(OSError):  # the file is gone already, or a later run removes it
                    os.unlink(name, dir_fd=self.folder_fd)

    def remove(self) -> None:
        """Remove the old file, if it existed when it was read. Raises FileChanged and FileError as `put`."""
        with self._as_file_error("removed"):
            self._remove()

    @contextmanager
    def _as_file_error(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FileError(
                f"{self.seen.path}: cannot be {what}: {error.strerror or error}; {self._outcome()}",
                self.is_replaced,
            ) from error

    def _outcome(self) -> str:
        if self.is_replaced:
            return "the change was made, but a crash of this host may still undo it"
        return "it is unchanged"

    def _take_place(self) -> None:
        if self.seen.found is None:
            try:
                renames.take_free_name(self.folder_fd, self.beside, self.name)
            except FileExistsError:
                raise self._changed_error() from None
            self.is_replaced = True
        elif self._exchange():
            self.is_replaced = True
            if not self._is_beside_as_seen():
                self._restore_foreign_version()
            self.may_hold_foreign_version = False
        else:
            os.rename(self.beside, self.name, src_dir_fd=self.folder_fd, dst_dir_fd=self.folder_fd)
            self.is_replaced = True

    def _exchange(self) -> bool:
        self.may_hold_foreign_version = True  # set before the exchange: an interrupt may come right after it
        try:
            self.may_hold_foreign_version = renames.exchange(self.folder_fd, self.beside, self.name)
        except OSError:
            self.may_hold_foreign_version = False
            raise
        return self.may_hold_foreign_version

    def _restore_foreign_version(self) -> None:
        """Put the file that the exchange took out back in place, and raise FileChanged. Another program may have
        replaced the new file in the meantime. Then this second exchange takes out that program's version. It is newer
        than the version that was put back, so a third exchange puts it in place, and the older one stays beside it.
        """
        self._exchange_back()
        self.is_replaced = False
        try:
            came_out = read_in_folder(self.folder_fd, self.seen.path, self.beside, self.limit)
        except FileError as error:
            raise self._changed_error(f"; the version that was briefly there is in {self._path_beside}") from error
        if came_out == self.written:
            self.may_hold_foreign_version = False
            raise self._changed_error()
        self._exchange_back()
        raise self._changed_error(f"; an earlier version of theirs is in {self._path_beside}")

    def _exchange_back(self) -> None:
        try:
            if not renames.exchange(self.folder_fd, self.beside, self.name):
                raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        except OSError as error:
            raise self._restore_error(error) from error

    def _remove(self) -> None:
        if self.seen.found is None:
            return
        self.refuse_changed()
        os.rename(self.name, self.beside, src_dir_fd=self.folder_fd, dst_dir_fd=self.folder_fd)
        self.is_replaced = True
        if not self._is_beside_as_seen():
            try:
                renames.take_free_name(self.folder_fd, self.beside, self.name)
            except OSError as error:
                raise self._restore_error(error) from error
            self.is_replaced = False
            raise self._changed_error()
        try:
            os.fsync(self.folder_fd)
        finally:
            os.unlink(self.beside, dir_fd=self.folder_fd)

    @property
    def _path_beside(self) -> str:
        return str(self.seen.path.with_name(self.beside))

    def _changed_error(self, more: str = "") -> FileChanged:
        return FileChanged(
            f"{self.seen.path}: another user or program changed it in the meantime; the newer version is in place{more}"
        )

    def _restore_error(self, error: OSError) -> FileError:
        return FileError(
            f"{self.seen.path}: another user or program changed it just now, and the newer version cannot be put back "
            f"({error.strerror}): it is in {self._path_beside}",
            self.is_replaced,
        )

    def refuse_changed(self) -> None:
        """Raise FileChanged if the file is not as it was read when the change was planned."""
        if not self._is_as_seen(self.name):
            raise self._changed_error()

    def _is_beside_as_seen(self) -> bool:
        """Return whether the file called ``beside`` is the one that was read when the change was planned; False if it
        cannot be read."""
        try:
            return self._is_as_seen(self.beside)
        except (FileError, OSError):
            return False

    def _is_as_seen(self, name: str) -> bool:
        if self.seen.found is None:
            try:
                os.stat(name, dir_fd=self.folder_fd, follow_symlinks=False)
            except FileNotFoundError:
                return True
            return False
        found = read_in_folder(self.folder_fd, self.seen.path, name, self.limit)
        return found == self.seen.found and not _is_being_written(self.folder_fd, name)


def _is_being_written(folder_fd: int, name: str) -> bool:
    """Return whether some process has a file open for writing; False if the file system has no leases, or this user may
    take none. Raises OSError if the file cannot be opened.

    The kernel grants a read lease only if no process has the file open for writing. The lease is given back at once. If
    another process opens the file between these two calls, the kernel sends this process a signal: SIGURG, which is
    ignored by default, in place of SIGIO, which would end it.
    """
    with closing_descriptor(os.open(name, READ_WARILY, dir_fd=folder_fd)) as descriptor:
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN  # any other error means that no lease can be taken
    return False
