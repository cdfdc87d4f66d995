"""Changes on another host through ssh. Nothing has to be installed there: a small shell program does the work.

Files are read over a second connection, by a program that changes nothing (`ibkeys.managers.elsewhere.remote`). Right
before the program that changes files puts a new file in place, it compares the old file with the bytes that were read
earlier. A file that another program renames into place between the comparison and the replacement is lost, because a
shell cannot exchange two files in one step.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import FileError, HostNotReached
from ibkeys.host.file_access import FileFact
from ibkeys.host.host_lock import FoundLock
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.host.replacing.hindrances import name_hindrance
from ibkeys.host.replacing.images import image_of, known_bytes
from ibkeys.host.replacing.replace import LeftOvers, RecordedImages, note_failed
from ibkeys.host.replacing.rights import changed_error, refuse_wider, rights_hindrance
from ibkeys.host.replacing.staging import StagedFile
from ibkeys.managers.elsewhere.channel import Channel
from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.machines.folder_facts import FolderFacts, folder_hindrance, read_folder_facts
from ibkeys.managers.machines.remote_file_reader import RemoteFileReader, marks
from ibkeys.managers.machines.remote_guard import RemoteGuard, confirm_guard
from ibkeys.managers.machines.remote_lock import RemoteLock, take_lock
from ibkeys.managers.machines.remote_processes import RemoteProcesses
from ibkeys.managers.machines.remote_staging import RemoteStagedFile, replacement_error
from ibkeys.managers.machines.writer import NOTHING, HostWriter, WriterRefused, checksum_of
from ibkeys.managers.opensm.process import OpensmProcess, is_running
from ibkeys.store.journal import FileEntry, RunningOperation

OWN_SESSION: Final = partial(Channel, own_session=True)
"""Opens a channel that survives an interrupt at the terminal: ibkeys then rolls back, and needs the connection."""
_LONGEST_PID: Final = len("4194304")
_LEFT_OVER: Final = re.compile(r"(\d{1,20}-[0-9a-f]{16}(\.part)?) ([0-9a-f]{64})")


class OtherHost(RemoteFileReader, RemoteProcesses):
    """Changes on another host: a `Machine` (`ibkeys.managers.machines.machine`). `ThisHost` has the full documentation
    of each method."""

    def __init__(self, files: RemoteFiles, writer: HostWriter) -> None:
        super().__init__(files, writer)
        self._is_staging = False

    def hindrance(self, seen: SeenFile, rights: int | None = None) -> str | None:
        """Return the reason why a file cannot be replaced, None if no reason is known. Raises FileError,
        HostNotReached."""
        reason = _name_hindrance(seen.path)
        if reason is None:
            facts = self._folder_facts(seen)
            reason = folder_hindrance(seen, facts, self.users()[0]) or rights_hindrance(seen, rights, facts.has_acl)
        return None if reason is None else f"{self._at(seen.path)}: {reason}"

    def is_in_layer(self, seen: SeenFile) -> bool:
        """Return whether a file is in the writable layer of a container. Raises FileError, HostNotReached."""
        return self._folder_facts(seen).is_in_layer

    def _folder_facts(self, seen: SeenFile) -> FolderFacts:
        try:
            return read_folder_facts(self.writer, seen.path)
        except WriterRefused as refusal:
            raise FileError(f"{self._at(seen.path.parent)}: cannot be examined: {refusal.reason}") from None

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
        """Replace the contents of a file by *data* (None removes the file), and return its entry in the journal.
        *seen*: the file as it was read.

        Raises FileChanged, FileError, StoreError, EncodeError as `ThisHost.replace`; HostNotReached, after which the
        entry is ``pending`` if the file may have been replaced, else ``failed``.
        """
        entry = self._record(operation, seen, data, conversions, rights)
        may_be_done = False
        try:
            if data is not None:
                self.writer.ask("begin", secrets.token_hex(8), path=seen.path)
                self.writer.send("fill", data, path=seen.path)
            may_be_done = True  # set before the change: the connection may be cut during it
            if data is not None:
                mode_and_owner = _mode_and_owner(seen, mode if rights is None else rights, rights is not None, owner)
                self.writer.ask(
                    "put", checksum_of(data), marks(seen), checksum_of(seen.data), mode_and_owner, path=seen.path
                )
            elif seen.found is not None:
                self.writer.ask("remove", marks(seen), checksum_of(seen.data), path=seen.path)
        except WriterRefused as refusal:
            raise replacement_error(self.name, entry, refusal, "removed" if data is None else "replaced") from None
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
        """Record in the journal that a file will be replaced by *data*, and return the entry. Raises FileError if
        *data* is too long or the file cannot be replaced; StoreError, EncodeError, HostNotReached."""
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
        """Prepare a replacement as `replace` makes it, and yield the new file, whose `put` puts it in place. Only one
        file of a host can be prepared at a time: FileError for a second one. Other errors as `replace`."""
        if self._is_staging:
            raise FileError(
                f"{self._at(seen.path)}: only one file of that host can wait to be replaced at a time; it is unchanged"
            )
        staged = RemoteStagedFile(
            self.name, self.writer, self._record(operation, seen, data, conversions, rights), seen
        )
        self._is_staging = True
        try:
            staged.prepare(data, rights)
            yield staged
        finally:
            self._is_staging = False
            staged.clear()

    def set_mode(self, path: Path, seen: FileFact, mode: int) -> int:
        """Reduce the rights of a file or folder to *mode*, and return its former mode. *seen*: its facts when it was
        examined. Raises FileChanged, FileError, HostNotReached."""
        refuse_wider(self._at(path), seen, mode)
        place = self.real_path(path)
        device, inode = seen.identity or (0, 0)
        former = f"{seen.mode:o}:{seen.uid}:{seen.gid}:{device}:{inode}"
        try:
            self.writer.ask("set_mode", former, f"{mode:o}", path=place)
        except WriterRefused as refusal:
            if refusal.kind == "changed":
                raise changed_error(self._at(place)) from None
            reason = refusal.reason or refusal.kind
            raise FileError(f"{self._at(place)}: its mode cannot be set to {mode:04o}: {reason}") from None
        return seen.mode

    def clean_up(self, recorded: RecordedImages, conversions: FileConversions = WITHOUT_KEYS) -> LeftOvers:
        """Remove the temporary files that interrupted runs left beside the files of *recorded* on this host, and return
        those that were removed and those that stay. Raises FileError, HostNotReached, and the errors of *conversions*,
        except KeyGone."""
        removed: list[Path] = []
        foreign: list[Path] = []
        for place, images in recorded.items():
            try:
                for line in self.writer.ask("left", path=place):
                    left_over = _LEFT_OVER.fullmatch(line)
                    if left_over is None:
                        self.writer.conversation.end("its answer is invalid (left-overs)")
                    is_known = bool(left_over[2]) or any(
                        left_over[3] in map(checksum_of, known_bytes(image, conversions)) for image in images()
                    )
                    if is_known:
                        self.writer.ask("drop", left_over[1], path=place)
                    (removed if is_known else foreign).append(place.with_name(f".{place.name}.ibkeys-{left_over[1]}"))
            except WriterRefused as refusal:
                raise FileError(f"{self._at(place.parent)}: cannot be cleaned up: {refusal.reason}") from None
        return LeftOvers(tuple(removed), tuple(foreign))

    def take_lock(self, path: Path, text: bytes, stale: bytes | None = None) -> RemoteLock | FoundLock | None:
        """Take the lock beside a file, as `ThisHost.take_lock` does. Raises FileError, HostNotReached."""
        return take_lock(self.name, self.writer, path, text, stale)

    def is_running(self, process: OpensmProcess) -> bool:
        """Return whether exactly this process is running. Raises HostNotReached."""
        return is_running(self.files, process)

    def guard(self, seconds: float) -> RemoteGuard:
        """Return a guard for this host, not started yet, which rolls a change back if it is not confirmed within
        *seconds*."""
        return RemoteGuard(self.name, self.writer, seconds, self.identify)

    def confirm_guard(self, token: str) -> bool:
        """End the guard with this *token*, and return whether the change stays. Raises HostRefused, HostNotReached."""
        return confirm_guard(self.name, self.writer, token)


def _mode_and_owner(seen: SeenFile, mode: int, is_wanted: bool, owner: int | None) -> str:
    """Return the mode of the new file, with the owner of a file that did not exist, as a word for the program.

    *is_wanted*: whether the caller set the mode of an existing file; if not, the new file gets that of the old one.
    """
    if seen.found is not None:
        return f"{mode:o}" if is_wanted else NOTHING
    return f"{mode:o}" if owner is None else f"{mode:o}:{owner}"


def _name_hindrance(place: Path) -> str | None:
    return "there is a newline in its name" if "\n" in str(place) else name_hindrance(place, _LONGEST_PID)
