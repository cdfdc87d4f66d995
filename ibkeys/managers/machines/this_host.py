"""Changes on this host: files by `ibkeys.host.replacing`, OpenSMs by `ibkeys.managers.machines.processes_here`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import THIS_HOST, HostFiles
from ibkeys.host.host_lock import FoundLock, LockHere, take_lock
from ibkeys.host.replacing import replace as replacing
from ibkeys.host.replacing.contents import WITHOUT_KEYS, FileContents
from ibkeys.host.replacing.hindrances import hindrance
from ibkeys.host.replacing.looked_up import SeenFile, look, real_place
from ibkeys.host.replacing.mounts import is_in_layer
from ibkeys.host.replacing.replace import LeftOvers
from ibkeys.host.replacing.rights import set_mode
from ibkeys.host.replacing.staging import Staged, stage
from ibkeys.managers.machines.other_root import refuse_other_root
from ibkeys.managers.machines.processes_here import ProcessesHere
from ibkeys.managers.machines.remote_guard import RemoteGuard
from ibkeys.managers.opensm.process import OpensmProcess, is_running
from ibkeys.store.journal import FileEntry, RunningOperation

_TOOLS: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class ThisHost(ProcessesHere):
    """Changes on this host: a `Machine` (`ibkeys.managers.machines.machine`)."""

    @property
    def name(self) -> str:
        """The host's name as the user gave it: "" for this one."""
        return self.files.name

    @property
    def files(self) -> HostFiles:
        """Its files, for reading."""
        return THIS_HOST

    def look(self, path: Path) -> SeenFile:
        """Return what is where *path* leads, symbolic links followed.

        Extended attributes of another host's file are not in it; they are kept all the same. Raises FileError,
        FileChanged as `ibkeys.host.replacing.looked_up.look`.
        """
        seen = look(path)
        refuse_other_root(self.files, path, seen.path)
        return seen

    def hindrance(self, seen: SeenFile, rights: int | None = None) -> str | None:
        """Return why a file that was examined cannot be replaced, None when nothing is known to stand in the way.

        *rights*: as for `replace`. Nothing is written. Raises FileError when its folder cannot be read.
        """
        return hindrance(seen, rights)

    def is_in_layer(self, seen: SeenFile) -> bool:
        """Return whether a file that was examined is in the layer of a container: what is written there is lost when
        the container is created again. Raises FileError when its folder cannot be read.
        """
        return is_in_layer(seen)

    def replace(
        self,
        operation: RunningOperation,
        seen: SeenFile,
        data: bytes | None,
        mode: int = 0o644,
        *,
        contents: FileContents = WITHOUT_KEYS,
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
        return replacing.replace(operation, seen, data, mode=mode, contents=contents, rights=rights, owner=owner)

    def stage(
        self,
        operation: RunningOperation,
        seen: SeenFile,
        data: bytes,
        *,
        contents: FileContents = WITHOUT_KEYS,
        rights: int | None = None,
    ) -> AbstractContextManager[Staged]:
        """Prepare what `replace` does with a file that is there, as far as it can be done beside it, and return what
        does the rest within the block. What is not put in place when the block ends is gone, and its entry ``failed``.

        On another host only one file at a time. Raises as `replace`.
        """
        return stage(operation, seen, data, contents=contents, rights=rights)

    def set_mode(self, path: Path, seen: FileFact, mode: int) -> int:
        """Give the file or folder that *path* leads to fewer rights, and return its former mode.

        *seen*: what ``files.stat`` said about it: it must still be the same one (device and inode), with the same owner
        and mode; its bytes may have changed, as those of a log do. Nothing is journaled. Raises FileChanged if it is
        another one; FileError for more rights, for what is neither a regular file nor a folder, and when it fails.
        """
        place = real_place(path)
        refuse_other_root(self.files, path, place)
        return set_mode(place, seen, mode)

    def clean_up(self, entries: Iterable[FileEntry], contents: FileContents = WITHOUT_KEYS) -> LeftOvers:
        """Remove what runs that were interrupted left beside the files of *entries*; those of other hosts are left out.

        All of them are files with these *contents*. Of one whose bytes the journal does not keep only what was not
        complete is removed. Raises FileError when a folder cannot be read or a left-over not be removed.
        """
        return replacing.clean_up((entry for entry in entries if not entry.image.host), contents)

    def take_lock(self, path: Path, text: bytes, stale: bytes | None = None) -> LockHere | FoundLock | None:
        """Take the lock beside the file *path*, with *text* in it, a line of `LockHolder`; return one that somebody
        else has instead. The kernel frees it when this process ends, or the connection; the file is stale then.

        *stale*: the text of a stale one that may be taken over. None where there is no such folder, or this user may
        make no file in it. Raises FileError for what is not a regular file, and when something fails.
        """
        return take_lock(path, text, stale)

    def guard(self, seconds: float) -> RemoteGuard | None:
        """Return a guard on another host, not started yet, that rolls back when nobody confirms; None: who rolls back
        on this host is `ibkeys.change.confirming.guardian`."""
        return None

    def confirm_guard(self, token: str) -> bool:
        """Stop the guard with this token, which another process may have started. The change stays.

        False if it is rolling back, has rolled back, or was stopped before: there is none on this host. Raises
        HostRefused if it belongs to another user.
        """
        return False

    def is_running(self, process: OpensmProcess) -> bool:
        """Return whether this very process runs. One that is dead and was not heard by its parent does not."""
        return is_running(self.files, process)


THIS: Final = ThisHost(_TOOLS)
