"""Changes on this host: files by `ibkeys.host.replacing`, OpenSMs by `ibkeys.managers.machines.local_processes`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import THIS_HOST, HostFiles
from ibkeys.host.host_lock import FoundLock, LocalLock, take_lock
from ibkeys.host.replacing import replace as replacing
from ibkeys.host.replacing.file_to_replace import SeenFile, look, real_path
from ibkeys.host.replacing.hindrances import hindrance_to_replacing
from ibkeys.host.replacing.mounts import is_in_layer
from ibkeys.host.replacing.rights import set_mode
from ibkeys.host.replacing.staging import stage
from ibkeys.managers.machines.local_processes import LocalProcesses
from ibkeys.managers.machines.other_root import refuse_other_root
from ibkeys.managers.machines.remote_guard import RemoteGuard
from ibkeys.managers.opensm.process import OpensmProcess, is_running

_TOOL_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class ThisHost(LocalProcesses):
    """Changes on this host: a `Machine` (`ibkeys.managers.machines.machine`)."""

    replace = staticmethod(replacing.replace)
    stage = staticmethod(stage)
    clean_up = staticmethod(replacing.clean_up)

    @property
    def name(self) -> str:
        """The host's name as the user gave it; "" for this host."""
        return self.files.name

    @property
    def files(self) -> HostFiles:
        """The files of the host, for reading only."""
        return THIS_HOST

    def look(self, path: Path) -> SeenFile:
        """Return the file that *path* leads to, with all symbolic links followed.

        The result for a file of another host has no extended attributes. A replacement keeps them nevertheless. Raises
        FileError and FileChanged as `ibkeys.host.replacing.file_to_replace.look`, and FileError for a file in another
        root directory or mount namespace.
        """
        seen = look(path)
        refuse_other_root(self.files, path, seen.path)
        return seen

    def hindrance(self, seen: SeenFile, rights: int | None = None) -> str | None:
        """Return the reason why the file *seen* cannot be replaced, None if no reason is known. Nothing is written.

        *rights*: as in `replace`. Raises FileError if its folder cannot be read.
        """
        return hindrance_to_replacing(seen, rights)

    def is_in_layer(self, seen: SeenFile) -> bool:
        """Return whether the file *seen* is in the writable layer of a container, in which a change is lost when the
        container is created again; False if that is not known. Raises FileError when its folder cannot be read.
        """
        return is_in_layer(seen)

    def set_mode(self, path: Path, seen: FileFact, mode: int) -> int:
        """Reduce the rights of the file or folder that *path* leads to, and return its former mode. The change is not
        in the journal.

        *seen*: the facts of the file when it was examined. It must still be the same file (device and inode), with the
        same owner and mode; its bytes may have changed, as those of a log do. Raises FileChanged if it is another file,
        or has another owner or mode; FileError if *mode* gives more rights, if it is neither a regular file nor a
        folder, or if the change fails.
        """
        place = real_path(path)
        refuse_other_root(self.files, path, place)
        return set_mode(place, seen, mode)

    def take_lock(self, path: Path, text: bytes, stale: bytes | None = None) -> LocalLock | FoundLock | None:
        """Take the lock beside the file *path* and return it; if there is a lock already, return that lock as a
        `FoundLock`. Return None if the folder does not exist, or this user may create no file in it. The kernel frees
        the lock when this process or the connection ends; the lock file is stale then.

        *text*: the contents of the new lock file, a line of `LockHolder`. *stale*: the contents of a lock file that may
        be taken over if no running process holds it. Raises FileError if the lock file is not regular or a step fails.
        """
        return take_lock(path, text, stale)

    def guard(self, seconds: float) -> RemoteGuard | None:
        """Return None: on this host `ibkeys.change.confirming.guardian` rolls back.

        On another host, return a guard, not started yet, which rolls a change back if it is not confirmed within
        *seconds*.
        """
        return None

    def confirm_guard(self, token: str) -> bool:
        """Return False: this host has no guard.

        On another host, end the guard with this *token*, which another process may have started, and keep the change.
        Return False if the guard is rolling back, has rolled back, or was ended before. Raises HostRefused if the guard
        belongs to another user, or *token* is not a token.
        """
        return False

    def is_running(self, process: OpensmProcess) -> bool:
        """Return whether *process* is running, identified by its ID and start time. Return False for a zombie, and if
        the start time is not known."""
        return is_running(self.files, process)


THIS: Final = ThisHost(_TOOL_ENVIRONMENT)
