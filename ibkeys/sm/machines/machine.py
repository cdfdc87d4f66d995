"""Changes on the host of an OpenSM: files and their permissions, its process, and a guard that rolls back by itself.

`open_machine` (`ibkeys.sm.machines.opening`) opens this host or another one. Reading goes through ``files``, which
change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import HostFiles
from ibkeys.host.host_lock import FoundLock
from ibkeys.host.opensm_process import OpensmProcess
from ibkeys.host.replacing.contents import WITHOUT_KEYS, Contents
from ibkeys.host.replacing.replace import LeftOvers
from ibkeys.host.replacing.seen import SeenFile
from ibkeys.host.replacing.staging import Staged
from ibkeys.sm.machines.remote_guard import RemoteGuard
from ibkeys.store.journal import FileEntry, Operation


class TakenLock(Protocol):
    """The lock beside a file, held by this process, or by the program of its connection to another host."""

    def release(self) -> None:
        """Remove the file, if it is still this one, and free the lock. Raises FileError, HostNotReached."""


class Machine(Protocol):
    """A host on which files of OpenSM may be replaced, and OpenSMs be told to read them, stopped and started.

    Paths are those of that host.

    Every method of another host raises HostNotReached when that does not answer. After it nobody knows whether what was
    asked for has happened: look again through a new connection.
    """

    @property
    def name(self) -> str:
        """The host's name as the user gave it; "" for this one."""

    @property
    def files(self) -> HostFiles:
        """Its files, for reading."""

    def look(self, path: Path) -> SeenFile:
        """Return what is where *path* leads, symbolic links followed.

        Extended attributes of another host's file are not in it; they are kept all the same. Raises FileError,
        FileChanged as `ibkeys.host.replacing.seen.look`.
        """

    def hindrance(self, seen: SeenFile, rights: int | None = None) -> str | None:
        """Return why a file that was examined cannot be replaced, None when nothing is known to stand in the way.

        *rights*: as for `replace`. Nothing is written. Raises FileError when its folder cannot be read.
        """

    def is_in_layer(self, seen: SeenFile) -> bool:
        """Return whether a file that was examined is in the layer of a container: what is written there is lost when
        the container is created again. Raises FileError when its folder cannot be read.
        """

    def replace(
        self,
        operation: Operation,
        seen: SeenFile,
        data: bytes | None,
        mode: int = 0o644,
        *,
        contents: Contents = WITHOUT_KEYS,
        rights: int | None = None,
        owner: int | None = None,
    ) -> FileEntry:
        """Let *data* take the place of a file as it was *seen*, and return its entry in the journal; None removes it.

        What was seen is in the journal, synced, before anything is written, with the host's name; *contents* says what
        of a file with keys. Owner, mode, ACL and label stay; *mode* and *owner*, a user ID, are for a file that was not
        there: to another user than the one who works there it belongs with the group of its folder. *rights*: the
        permission bits that the new file has instead, there or not; more than the old one has, or a file with an ACL,
        are refused. Until the new file has its owner its mode is 0600. The entry stays ``pending``: the caller says
        whether what follows from it was proven; it is ``failed`` where the file was not replaced.

        Raises FileChanged when the file is not what was seen; FileError for what hinders it, and when something fails:
        ``is_replaced`` tells which file is in place. Raises StoreError, EncodeError.
        """

    def stage(
        self,
        operation: Operation,
        seen: SeenFile,
        data: bytes,
        *,
        contents: Contents = WITHOUT_KEYS,
        rights: int | None = None,
    ) -> AbstractContextManager[Staged]:
        """Prepare what `replace` does with a file that is there, as far as it can be done beside it, and return what
        does the rest within the block. What is not put in place when the block ends is gone, and its entry ``failed``.

        On another host only one file at a time. Raises as `replace`.
        """

    def set_mode(self, path: Path, seen: FileFact, mode: int) -> int:
        """Give the file or folder that *path* leads to fewer rights, and return its former mode.

        *seen*: what ``files.stat`` said about it: it must still be the same one (device and inode), with the same owner
        and mode; its bytes may have changed, as those of a log do. Nothing is journaled. Raises FileChanged if it is
        another one; FileError for more rights, for what is neither a regular file nor a folder, and when it fails.
        """

    def clean_up(self, entries: Iterable[FileEntry], contents: Contents = WITHOUT_KEYS) -> LeftOvers:
        """Remove what runs that were interrupted left beside the files of *entries*; those of other hosts are left out.

        All of them are files with these *contents*. Of one whose bytes the journal does not keep only what was not
        complete is removed. Raises FileError when a folder cannot be read or a left-over not be removed.
        """

    def take_lock(self, path: Path, text: bytes, stale: bytes | None = None) -> TakenLock | FoundLock | None:
        """Take the lock beside the file *path*, with *text* in it, a line of `LockHolder`; return one that somebody
        else has instead. The kernel frees it when this process ends, or the connection; the file is stale then.

        *stale*: the text of a stale one that may be taken over. None where there is no such folder, or this user may
        make no file in it. Raises FileError for what is not a regular file, and when something fails.
        """

    def may_signal(self, process: OpensmProcess) -> str | None:
        """Return why this user may not tell *process* to read its files, None if it may. Nothing is sent."""

    def signal(self, process: OpensmProcess) -> None:
        """Send SIGHUP to this very process: its ID and the moment it started must be those that were seen.

        Where it is the main process of its systemd unit, systemd sends it. Raises HostRefused when it runs no more,
        when the moment is not known, or when this user may not.
        """

    def is_running(self, process: OpensmProcess) -> bool:
        """Return whether this very process runs. One that is dead and was not heard by its parent does not."""

    def stop(self, process: OpensmProcess) -> None:
        """Begin to end this very process, by systemd where it is the main process of its unit, else by SIGTERM.

        It may run on for a while, or not end at all: ask `is_running`. Raises HostRefused as `signal`, and with what
        systemctl said where that refused; nothing was sent then.
        """

    def can_start(self, process: OpensmProcess) -> bool:
        """Return whether it is the main process of ``process.unit``, so that `start_unit` would start it again.

        Ask before it is stopped. Raises HostRefused when it is not the process any more that was seen.
        """

    def start_unit(self, unit: str) -> None:
        """Start a service of systemd; one that is active stays as it is.

        Whether its process works shows later. Raises HostRefused, with what systemctl said, and for what is not a name
        of a service.
        """

    def guard(self, seconds: float) -> RemoteGuard | None:
        """Return a guard on that host, not started yet, that rolls back when nobody confirms; None for this host."""

    def confirm_guard(self, token: str) -> bool:
        """Stop the guard with this token, which another process may have started. The change stays.

        False if it is rolling back, has rolled back, or was stopped before. Raises HostRefused if it belongs to another
        user.
        """
