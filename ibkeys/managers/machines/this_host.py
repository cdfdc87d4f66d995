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
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.hindrances import hindrance
from ibkeys.host.replacing.looked_up import SeenFile, look, real_path
from ibkeys.host.replacing.mounts import is_in_layer
from ibkeys.host.replacing.replace import LeftOvers
from ibkeys.host.replacing.rights import set_mode
from ibkeys.host.replacing.staging import StagedFile, stage
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
        """Return the file that *path* leads to, symbolic links followed.

        Extended attributes of a file of another host are not part of it; they are kept all the same. Raises FileError,
        FileChanged as `ibkeys.host.replacing.looked_up.look`.
        """
        seen = look(path)
        refuse_other_root(self.files, path, seen.path)
        return seen

    def hindrance(self, seen: SeenFile, rights: int | None = None) -> str | None:
        """Return why a file that was examined cannot be replaced, None if no reason is known.

        *rights*: as for `replace`. Nothing is written. Raises FileError if its folder cannot be read.
        """
        return hindrance(seen, rights)

    def is_in_layer(self, seen: SeenFile) -> bool:
        """Return whether a file that was examined is in the layer of a container: a change there is lost when the
        container is created again. Raises FileError when its folder cannot be read.
        """
        return is_in_layer(seen)

    def replace(
        self,
        operation: RunningOperation,
        seen: SeenFile,
        data: bytes | None,
        mode: int = 0o644,
        *,
        conversions: FileConversions = WITHOUT_KEYS,
        rights: int | None = None,
        owner: int | None = None,
    ) -> FileEntry:
        """Replace the contents of a file by *data*, or remove it for None, and return its entry in the journal. *seen*:
        the file as it was read.

        Before anything is written *seen* is in the journal, synced, with the host's name; *contents*: which bytes of a
        file with keys the journal keeps. The file keeps owner, mode, ACL and label. A file that did not exist gets
        *mode* and *owner* (a user ID); if the owner is not the user of the program on the host, it gets the group of
        its folder. *rights*: the permission bits of the new file, existing or not, in place of *mode*; more rights than
        the old file gives, or a file with an ACL, are refused. Until the new file has its owner its mode is 0600. The
        entry stays ``pending``: the caller records whether the effect of the change was proven; it is ``failed`` if the
        file was not replaced.

        Raises FileChanged if the file is not as it was read; FileError for a reason that prevents the replacement, and
        if a step fails: ``is_replaced`` tells which file is in place. Raises StoreError, EncodeError.
        """
        return replacing.replace(operation, seen, data, mode=mode, conversions=conversions, rights=rights, owner=owner)

    def stage(
        self,
        operation: RunningOperation,
        seen: SeenFile,
        data: bytes,
        *,
        conversions: FileConversions = WITHOUT_KEYS,
        rights: int | None = None,
    ) -> AbstractContextManager[StagedFile]:
        """Prepare the replacement of a file that exists, as far as possible without touching it, and return the object
        that finishes it within the block. A new file that is not put in place when the block ends is removed, and its
        entry is ``failed``.

        On another host only one file at a time can be prepared. Raises as `replace`.
        """
        return stage(operation, seen, data, conversions=conversions, rights=rights)

    def set_mode(self, path: Path, seen: FileFact, mode: int) -> int:
        """Reduce the rights of the file or folder that *path* leads to, and return its former mode.

        *seen*: its facts as ``files.stat`` returned them: it must still be the same one (device and inode), with the
        same owner and mode; its bytes may have changed, as those of a log do. The change is not journaled. Raises
        FileChanged if it is another file; FileError for more rights, for anything but a regular file or a folder, and
        if the change fails.
        """
        place = real_path(path)
        refuse_other_root(self.files, path, place)
        return set_mode(place, seen, mode)

    def clean_up(self, entries: Iterable[FileEntry], conversions: FileConversions = WITHOUT_KEYS) -> LeftOvers:
        """Remove the temporary files that interrupted runs left beside the files of *entries*; those of other hosts are
        left out.

        All of them are files with these *contents*. Beside a file whose bytes the journal does not keep, only
        incomplete copies are removed. Raises FileError if a folder cannot be read or a temporary file cannot be
        removed.
        """
        return replacing.clean_up((entry for entry in entries if not entry.image.host), conversions)

    def take_lock(self, path: Path, text: bytes, stale: bytes | None = None) -> LockHere | FoundLock | None:
        """Take the lock beside the file *path*, with *text* in it, a line of `LockHolder`; return the lock that another
        run has instead. The kernel frees it when this process or the connection ends; the lock file is stale then.

        *stale*: the text of a stale lock that may be taken over. None if there is no such folder, or this user may
        create no file in it. Raises FileError for anything but a regular file, and if a step fails.
        """
        return take_lock(path, text, stale)

    def guard(self, seconds: float) -> RemoteGuard | None:
        """Return a guard on another host, not started yet, which rolls a change back if it is not confirmed in time.

        None on this host: `ibkeys.change.confirming.guardian` rolls back here.
        """
        return None

    def confirm_guard(self, token: str) -> bool:
        """Stop the guard with this token, which another process may have started. The change stays.

        Return False if it is rolling back, has rolled back, or was stopped before, or on this host, which has none.
        Raises HostRefused if the guard belongs to another user.
        """
        return False

    def is_running(self, process: OpensmProcess) -> bool:
        """Return whether exactly this process is running. A dead process that its parent has not waited for is not."""
        return is_running(self.files, process)


THIS: Final = ThisHost(_TOOLS)
