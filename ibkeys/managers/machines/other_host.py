"""Changes on another host through ssh. Nothing has to be installed there: a small shell program does the work.

Reading goes over a connection of its own, to the program that changes nothing (`ibkeys.managers.elsewhere.remote`). The
program compares a file with the bytes that were read earlier right before it puts the new file in place. A file that
another program renames to that name between these two calls is lost, because a shell cannot exchange two files
atomically.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import FileError, HostNotReached
from ibkeys.host.file_access import FileFact
from ibkeys.host.host_lock import FoundLock
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.hindrances import name_hindrance
from ibkeys.host.replacing.images import image_of, known_bytes
from ibkeys.host.replacing.looked_up import SeenFile
from ibkeys.host.replacing.replace import LeftOvers, note_failed
from ibkeys.host.replacing.rights import changed_error, refuse_wider, rights_hindrance
from ibkeys.host.replacing.staging import StagedFile
from ibkeys.managers.elsewhere.channel import Channel
from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.machines.ground import FolderFacts, hindrance_of, read_folder_facts
from ibkeys.managers.machines.lock_there import LockThere, take_lock
from ibkeys.managers.machines.looking_there import LookingThere, marks
from ibkeys.managers.machines.processes_there import ProcessesThere
from ibkeys.managers.machines.remote_guard import RemoteGuard, confirm_guard
from ibkeys.managers.machines.staged_there import StagedThere, not_replaced
from ibkeys.managers.machines.writer import NOTHING, HostWriter, WriterRefused, sum_of
from ibkeys.managers.opensm.process import OpensmProcess, is_running
from ibkeys.store.journal import FileEntry, RunningOperation

OWN_SESSION: Final = partial(Channel, own_session=True)
"""An interrupt makes ibkeys roll back, which needs this connection, so the connection must survive the interrupt."""
_LONGEST_PID: Final = len("4194304")
_LEFT: Final = re.compile(r"(\d{1,20}-[0-9a-f]{16}(\.part)?) ([0-9a-f]{64})")


class OtherHost(LookingThere, ProcessesThere):
    """Changes on another host: a `Machine` (`ibkeys.managers.machines.machine`). `ThisHost` says what each method
    does."""

    def __init__(self, files: RemoteFiles, writer: HostWriter) -> None:
        super().__init__(files, writer)
        self._is_staging = False

    # --- hindrances ---------------------------------------------------------------------------------------------------

    def hindrance(self, seen: SeenFile, rights: int | None = None) -> str | None:
        """Return why a file cannot be replaced, None if no reason is known.

        Raises FileError, HostNotReached.
        """
        reason = _of_name(seen.path)
        if reason is None:
            ground = self._ground_of(seen)
            reason = hindrance_of(seen, ground, self.users()[0]) or rights_hindrance(seen, rights, ground.has_acl)
        return None if reason is None else f"{self._at(seen.path)}: {reason}"

    def is_in_layer(self, seen: SeenFile) -> bool:
        """Return whether a file is in the layer of a container. Raises FileError, HostNotReached."""
        return self._ground_of(seen).is_in_layer

    def _ground_of(self, seen: SeenFile) -> FolderFacts:
        try:
            return read_folder_facts(self.writer, seen.path)
        except WriterRefused as no:
            raise FileError(f"{self._at(seen.path.parent)}: cannot be examined: {no.reason}") from None

    # --- replacing ----------------------------------------------------------------------------------------------------

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
        """Replace the contents of a file by *data*, or remove it for None. *seen*: the file as it was read.

        Raises FileChanged, FileError, StoreError, EncodeError, and HostNotReached: then the entry is ``pending`` if the
        file may have been replaced, and ``failed`` if it was not.
        """
        entry = self._record(operation, seen, data, conversions, rights)
        may_be_done = False
        try:
            if data is not None:
                self.writer.ask("begin", secrets.token_hex(8), path=seen.path)
                self.writer.send("fill", data, path=seen.path)
            may_be_done = True  # before the change: the connection may be cut
            if data is not None:
                given = _given(seen, mode if rights is None else rights, rights is not None, owner)
                self.writer.ask("put", sum_of(data), marks(seen), sum_of(seen.data), given, path=seen.path)
            elif seen.found is not None:
                self.writer.ask("remove", marks(seen), sum_of(seen.data), path=seen.path)
        except WriterRefused as no:
            raise not_replaced(self.name, entry, no, "removed" if data is None else "replaced") from None
        except HostNotReached:
            if not may_be_done:
                note_failed(entry)
            raise
        return entry

    def _record(
        self,
        operation: RunningOperation,
        seen: SeenFile,
        data: bytes | None,
        conversions: FileConversions,
        rights: int | None,
    ) -> FileEntry:
        """Record the file as it was read in the journal, unless something prevents the replacement by *data*. Raises
        FileError."""
        if data is not None and len(data) > files.LIST:
            raise FileError(
                f"{self._at(seen.path)}: more than {files.LIST // files.MIB} MiB, the limit for such a file"
            )
        if (reason := self.hindrance(seen, rights)) is not None:
            raise FileError(reason)
        return operation.record_file(image_of(seen, data, conversions, self.name))

    @contextmanager
    def stage(
        self,
        operation: RunningOperation,
        seen: SeenFile,
        data: bytes,
        *,
        conversions: FileConversions = WITHOUT_KEYS,
        rights: int | None = None,
    ) -> Iterator[StagedFile]:
        """Prepare a replacement as `replace` makes it, and yield the object that finishes it. Raises as `replace`."""
        if self._is_staging:
            raise FileError(
                f"{self._at(seen.path)}: only one file of that host can wait to be replaced at a time; it is unchanged"
            )
        staged = StagedThere(self.name, self.writer, self._record(operation, seen, data, conversions, rights), seen)
        self._is_staging = True
        try:
            staged.prepare(data, rights)
            yield staged
        finally:
            self._is_staging = False
            staged.clear()

    def set_mode(self, path: Path, seen: FileFact, mode: int) -> int:
        """Reduce the rights of a file or folder, and return its former mode. Raises FileError, HostNotReached."""
        refuse_wider(self._at(path), seen, mode)
        place = self.real_path(path)
        device, inode = seen.identity or (0, 0)
        was = f"{seen.mode:o}:{seen.uid}:{seen.gid}:{device}:{inode}"
        try:
            self.writer.ask("set_mode", was, f"{mode:o}", path=place)
        except WriterRefused as no:
            if no.kind == "changed":
                raise changed_error(self._at(place)) from None
            reason = no.reason or no.kind
            raise FileError(f"{self._at(place)}: its mode cannot be set to {mode:04o}: {reason}") from None
        return seen.mode

    def clean_up(self, entries: Iterable[FileEntry], conversions: FileConversions = WITHOUT_KEYS) -> LeftOvers:
        """Remove the temporary files that interrupted runs left beside the files of this host. Raises FileError,
        HostNotReached."""
        known: dict[Path, set[str]] = {}
        for entry in entries:
            if entry.image.host == self.name:
                sums = known.setdefault(Path(entry.image.path), set())
                sums |= set(map(sum_of, known_bytes(entry.image, conversions)))
        removed: list[Path] = []
        foreign: list[Path] = []
        for place, sums in known.items():
            try:
                for line in self.writer.ask("left", path=place):
                    left = _LEFT.fullmatch(line)
                    if left is None:
                        self.writer.conversation.end("its answer is invalid (left-overs)")
                    is_known = bool(left[2]) or left[3] in sums
                    if is_known:
                        self.writer.ask("drop", left[1], path=place)
                    (removed if is_known else foreign).append(place.with_name(f".{place.name}.ibkeys-{left[1]}"))
            except WriterRefused as no:
                raise FileError(f"{self._at(place.parent)}: cannot be cleaned up: {no.reason}") from None
        return LeftOvers(tuple(removed), tuple(foreign))

    def take_lock(self, path: Path, text: bytes, stale: bytes | None = None) -> LockThere | FoundLock | None:
        """Take the lock beside a file. Raises FileError, HostNotReached."""
        return take_lock(self.name, self.writer, path, text, stale)

    # --- OpenSM -------------------------------------------------------------------------------------------------------

    def is_running(self, process: OpensmProcess) -> bool:
        """Return whether exactly this process is running. Raises HostNotReached."""
        return is_running(self.files, process)

    def guard(self, seconds: float) -> RemoteGuard:
        """Return a guard on that host, which rolls a change back if it is not confirmed in time."""
        return RemoteGuard(self.name, self.writer, seconds, self.words)

    def confirm_guard(self, token: str) -> bool:
        """End the guard of this token. Raises HostRefused, HostNotReached."""
        return confirm_guard(self.name, self.writer, token)


def _given(seen: SeenFile, mode: int, is_wanted: bool, owner: int | None) -> str:
    """Return the mode of the new file, and the owner of one that did not exist, as the program reads them.

    *is_wanted*: the mode was asked for and is not that of the old file.
    """
    if seen.found is not None:
        return f"{mode:o}" if is_wanted else NOTHING
    return f"{mode:o}" if owner is None else f"{mode:o}:{owner}"


def _of_name(place: Path) -> str | None:
    return "there is a newline in its name" if "\n" in str(place) else name_hindrance(place, _LONGEST_PID)
