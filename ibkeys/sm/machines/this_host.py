"""Changes on this host: files by `ibkeys.host.replacing`, OpenSMs by `ibkeys.sm.machines.processes_here`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import THIS_HOST, HostFiles
from ibkeys.host.host_lock import FoundLock, LockHere, take_lock
from ibkeys.host.opensm_process import OpensmProcess, is_running
from ibkeys.host.replacing import replace as replacing
from ibkeys.host.replacing.contents import WITHOUT_KEYS, Contents
from ibkeys.host.replacing.hindrances import hindrance
from ibkeys.host.replacing.mounts import is_in_layer
from ibkeys.host.replacing.replace import LeftOvers
from ibkeys.host.replacing.rights import set_mode
from ibkeys.host.replacing.seen import SeenFile, look, real_place
from ibkeys.host.replacing.staging import Staged, stage
from ibkeys.sm.machines.other_root import refuse_other_root
from ibkeys.sm.machines.processes_here import ProcessesHere
from ibkeys.sm.machines.remote_guard import RemoteGuard
from ibkeys.store.journal import FileEntry, Operation

_TOOLS: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class ThisHost(ProcessesHere):
    """Changes on this host: a `Machine`."""

    @property
    def name(self) -> str:
        """The name of this host: ""."""
        return self.files.name

    @property
    def files(self) -> HostFiles:
        """Its files, for reading."""
        return THIS_HOST

    def look(self, path: Path) -> SeenFile:
        """Return what is where *path* leads. Raises FileError, FileChanged."""
        seen = look(path)
        refuse_other_root(self.files, path, seen.path)
        return seen

    def hindrance(self, seen: SeenFile, rights: int | None = None) -> str | None:
        """Return why a file cannot be replaced, None when nothing is known to stand in the way. Raises FileError."""
        return hindrance(seen, rights)

    def is_in_layer(self, seen: SeenFile) -> bool:
        """Return whether a file is in the layer of a container. Raises FileError."""
        return is_in_layer(seen)

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
        """Let *data* take the place of a file. Raises FileChanged, FileError, StoreError, EncodeError."""
        return replacing.replace(operation, seen, data, mode=mode, contents=contents, rights=rights, owner=owner)

    def stage(
        self,
        operation: Operation,
        seen: SeenFile,
        data: bytes,
        *,
        contents: Contents = WITHOUT_KEYS,
        rights: int | None = None,
    ) -> AbstractContextManager[Staged]:
        """Prepare what `replace` does, and return what does the rest. Raises FileChanged, FileError, StoreError."""
        return stage(operation, seen, data, contents=contents, rights=rights)

    def set_mode(self, path: Path, seen: FileFact, mode: int) -> int:
        """Give a file or folder fewer rights, and return its former mode. Raises FileChanged, FileError."""
        place = real_place(path)
        refuse_other_root(self.files, path, place)
        return set_mode(place, seen, mode)

    def clean_up(self, entries: Iterable[FileEntry], contents: Contents = WITHOUT_KEYS) -> LeftOvers:
        """Remove what runs that were interrupted left beside the files of this host. Raises FileError."""
        return replacing.clean_up((entry for entry in entries if not entry.image.host), contents)

    def take_lock(self, path: Path, text: bytes, stale: bytes | None = None) -> LockHere | FoundLock | None:
        """Take the lock beside a file. Raises FileError."""
        return take_lock(path, text, stale)

    def guard(self, seconds: float) -> RemoteGuard | None:
        """None: who rolls back on this host is `ibkeys.change.confirming.guardian`."""
        return None

    def confirm_guard(self, token: str) -> bool:
        """False: there is none on this host."""
        return False

    def is_running(self, process: OpensmProcess) -> bool:
        """Return whether this very process runs."""
        return is_running(self.files, process)


THIS: Final = ThisHost(_TOOLS)
