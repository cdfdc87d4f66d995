"""A new file that waits next to the old one on another host: see `ibkeys.host.replacing.staging`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ibkeys.errors import FileChanged, FileError, HostNotReached
from ibkeys.host.replacing.looked_up import SeenFile
from ibkeys.host.replacing.replace import note_failed
from ibkeys.host.replacing.staging import StagedFile
from ibkeys.managers.machines.looking_there import marks
from ibkeys.managers.machines.writer import NOTHING, HostWriter, WriterRefused, sum_of
from ibkeys.store.journal import FileEntry


class StagedThere(StagedFile):
    """A new file on the host *name*. ``answers``: whether the host answered the last question; after a cut connection
    the program there cleans up by itself."""

    def __init__(self, name: str, writer: HostWriter, entry: FileEntry, seen: SeenFile) -> None:
        super().__init__(entry, self._place)
        self.answers = True
        self._name, self._writer, self._seen = name, writer, seen

    def prepare(self, data: bytes, rights: int | None) -> None:
        """Send the file, and let the program give it owner, mode, ACL and label of the old one. Raises FileChanged,
        FileError, HostNotReached."""
        path, seen = self._seen.path, self._seen
        given = NOTHING if rights is None else f"{rights:o}"
        with self._as_file_error():
            self._writer.ask("begin", secrets.token_hex(8), path=path)
            self._writer.send("fill", data, path=path)
            self._writer.ask("ready", sum_of(data), marks(seen), sum_of(seen.data), given, path=path)

    def _place(self) -> None:
        with self._as_file_error():
            self._writer.ask("place", marks(self._seen), sum_of(self._seen.data), path=self._seen.path)

    def clear(self) -> None:
        """Remove the new file if it is not in place, and set its entry to failed then."""
        if self.is_placed:
            return
        note_failed(self.entry)
        if self.answers:
            with suppress(WriterRefused, HostNotReached):
                self._writer.ask("clear")

    @contextmanager
    def _as_file_error(self) -> Iterator[None]:
        self.answers = False
        try:
            yield
        except WriterRefused as no:
            self.answers = True
            raise not_replaced(self._name, self.entry, no, "replaced") from None
        self.answers = True


def not_replaced(host: str, entry: FileEntry, no: WriterRefused, what: str) -> FileError:
    """Return the error for a file of *host* that was not *what* ("replaced", for example), or may not survive a crash;
    in the first case its entry is set to failed."""
    path = f"{host}: {entry.image.path}"
    if no.kind == "unsynced":
        holds = "the change was made, but a crash of that host may still undo it"
        return FileError(f"{path}: cannot be {what}: {no.reason}; {holds}", True)
    note_failed(entry)
    if no.kind == "changed":
        return FileChanged(f"{path}: another user or program changed it in the meantime; the newer version is in place")
    return FileError(f"{path}: cannot be {what}: {no.reason or no.kind}; it is unchanged")
