"""Putting a new file in place of an old one, so that an edit by another program or administrator is never lost unread.

The new file is complete and on disk beside the old one first. Then both are exchanged in one step. The file that was
there is compared with the one that was read before. If it differs, both are exchanged again, and an error is raised. So
a file that another program renamed into place at the last moment is found, not lost.

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
from ibkeys.host.replacing.looked_up import FoundFile, Metadata, SeenFile, found_in, opened_folder
from ibkeys.host.replacing.names import new_name, unfinished


def put(seen: SeenFile, data: bytes | None, metadata: Metadata, limit: int = files.LIST) -> None:
    """Replace a file by a new one with *data* and *metadata*; *data* None removes it. *seen*: the file as it was read.

    Raises FileChanged if the file is not as it was read: then the version of another user or program is in place.
    Raises FileError for other failures; its ``is_replaced`` says which version is in place.
    """
    if data is not None:
        with staged(seen, data, metadata, limit) as ready:
            ready.take_place()
        return
    with opened_folder(seen.path) as folder:
        Put(folder, seen, limit).remove()


@contextmanager
def staged(seen: SeenFile, data: bytes, metadata: Metadata, limit: int = files.LIST) -> Iterator[Put]:
    """Write the new file beside the old one, and yield it; it is put in place within the block, or removed at its end.
    Raises as `put`; after an error before the block no new file is left either.
    """
    with opened_folder(seen.path) as folder:
        ready = Put(folder, seen, limit)
        try:
            ready.prepare(data, metadata)
            yield ready
        finally:
            ready.clear()


class Put:
    """One replacement. ``beside``: the name of the new file until it is in place, and of the old one then.
    ``may_be_theirs``: the file beside may be the only copy of a version by another program or administrator, so it must
    stay.
    """

    def __init__(self, folder: int, seen: SeenFile, limit: int) -> None:
        self.folder, self.seen, self.limit = folder, seen, limit
        self.name = seen.path.name
        self.beside = new_name(self.name)
        self.descriptor: int | None = None
        self.made: FoundFile | None = None
        self.is_replaced = False
        self.may_be_theirs = False

    def prepare(self, data: bytes, metadata: Metadata) -> None:
        """Write the new file beside the old one, and check again that the old one is as it was seen. Raises FileError,
        FileChanged.
        """
        with self._as_file_error("replaced"):
            self.descriptor = new_file.create(self.folder, unfinished(self.beside))
            new_file.fill(self.descriptor, data, metadata)
            os.rename(unfinished(self.beside), self.beside, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            self.made = found_in(self.folder, self.seen.path, self.beside, self.limit)
            self.refuse_changed()

    def take_place(self) -> None:
        """Put the new file in place of the one that was seen. Raises FileChanged, FileError as `put`."""
        with self._as_file_error("replaced"):
            self.refuse_changed()
            self._take_place()
            os.fsync(self.folder)

    def clear(self) -> None:
        """Remove the files beside, except one that may be the only copy of a version by another program or
        administrator."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        for name in (unfinished(self.beside), self.beside):
            if name != self.beside or not self.may_be_theirs:
                with suppress(OSError):  # it is gone already, or a later run removes it
                    os.unlink(name, dir_fd=self.folder)

    def remove(self) -> None:
        """Remove the old file. Raises FileError, FileChanged."""
        with self._as_file_error("removed"):
            self._remove()

    @contextmanager
    def _as_file_error(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FileError(
                f"{self.seen.path}: cannot be {what}: {error.strerror or error}; {self._what_holds()}",
                self.is_replaced,
            ) from error

    def _what_holds(self) -> str:
        if self.is_replaced:
            return "the change was made, but a crash of this host may still undo it"
        return "it is unchanged"

    # --- a new file ---------------------------------------------------------------------------------------------------

    def _take_place(self) -> None:
        if self.seen.found is None:
            try:
                renames.take_free_name(self.folder, self.beside, self.name)
            except FileExistsError:
                raise self._changed() from None
            self.is_replaced = True
        elif self._exchange():
            self.is_replaced = True
            if not self._came_out_as_seen():
                self._give_back()
            self.may_be_theirs = False
        else:
            os.rename(self.beside, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            self.is_replaced = True

    def _exchange(self) -> bool:
        self.may_be_theirs = True  # before it is so: an interrupt may come right after the exchange
        try:
            self.may_be_theirs = renames.exchange(self.folder, self.beside, self.name)
        except OSError:
            self.may_be_theirs = False
            raise
        return self.may_be_theirs

    def _give_back(self) -> None:
        """Put the file that was replaced back in place, and raise FileChanged. Another program may have replaced the
        new file in the meantime. Then the second exchange takes out that program's version. It is later than the one
        that was put back, so it is put in place, and the earlier one stays beside it.
        """
        self._exchange_back()
        self.is_replaced = False
        try:
            came_out = found_in(self.folder, self.seen.path, self.beside, self.limit)
        except FileError as error:
            raise self._changed(f"; the version that was briefly there is in {self._path_beside}") from error
        if came_out == self.made:
            self.may_be_theirs = False
            raise self._changed()
        self._exchange_back()
        raise self._changed(f"; an earlier version of theirs is in {self._path_beside}")

    def _exchange_back(self) -> None:
        try:
            if not renames.exchange(self.folder, self.beside, self.name):
                raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        except OSError as error:
            raise self._stuck(error) from error

    # --- no file ------------------------------------------------------------------------------------------------------

    def _remove(self) -> None:
        if self.seen.found is None:
            return
        self.refuse_changed()
        os.rename(self.name, self.beside, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        self.is_replaced = True
        if not self._came_out_as_seen():
            try:
                renames.take_free_name(self.folder, self.beside, self.name)
            except OSError as error:
                raise self._stuck(error) from error
            self.is_replaced = False
            raise self._changed()
        try:
            os.fsync(self.folder)
        finally:
            os.unlink(self.beside, dir_fd=self.folder)

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def _path_beside(self) -> str:
        return str(self.seen.path.with_name(self.beside))

    def _changed(self, more: str = "") -> FileChanged:
        return FileChanged(
            f"{self.seen.path}: another user or program changed it in the meantime; the newer version is in place{more}"
        )

    def _stuck(self, error: OSError) -> FileError:
        return FileError(
            f"{self.seen.path}: another user or program changed it just now, and the newer version cannot be put back "
            f"({error.strerror}): it is in {self._path_beside}",
            self.is_replaced,
        )

    def refuse_changed(self) -> None:
        """Raise FileChanged if the file is not as it was seen."""
        if not self._is_as_seen(self.name):
            raise self._changed()

    def _came_out_as_seen(self) -> bool:
        """Return whether the file beside is the one that was seen; False if it cannot be read."""
        try:
            return self._is_as_seen(self.beside)
        except (FileError, OSError):
            return False

    def _is_as_seen(self, name: str) -> bool:
        if self.seen.found is None:
            try:
                os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            except FileNotFoundError:
                return True
            return False
        found = found_in(self.folder, self.seen.path, name, self.limit)
        return found == self.seen.found and not _is_being_written(self.folder, name)


def _is_being_written(folder: int, name: str) -> bool:
    """Return whether some process has a file open for writing, if the kernel can tell. Raises OSError. The kernel gives
    a read lease only if no process has the file open for writing. The lease is returned at once. If another process
    opens the file at this moment, the signal is SIGURG, which is ignored by default; the default signal would end this
    process.
    """
    with closing_descriptor(os.open(name, READ_WARILY, dir_fd=folder)) as descriptor:
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN  # another error: no leases here, or not for this user
    return False
