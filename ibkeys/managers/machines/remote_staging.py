"""A new file that waits beside the old one on another host: as `ibkeys.host.replacing.staging` on this host."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ibkeys.errors import FileChanged, FileError, HostNotReached
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.host.replacing.replace import note_failed
from ibkeys.host.replacing.staging import StagedFile
from ibkeys.managers.machines.remote_file_reader import marks
from ibkeys.managers.machines.writer import NOTHING, HostWriter, WriterRefused, checksum_of
from ibkeys.store.journal import FileEntry


class RemoteStagedFile(StagedFile):
    """A new file beside the old one on the host *name*. ``answers``: whether the host answered the last question. When
    the connection is cut, the program on the host removes the new file by itself."""

    def __init__(self, name: str, writer: HostWriter, entry: FileEntry, seen: SeenFile) -> None:
        super().__init__(entry, self._place)
        self.answers = True
        self._name, self._writer, self._seen = name, writer, seen

    def prepare(self, data: bytes, rights: int | None) -> None:
        """Send the new file, and let the program on the host set owner, mode, ACL and label as those of the old one.
        *rights*: permission bits in place of the old mode, None to keep it. Raises FileChanged, FileError,
        HostNotReached."""
        path, seen = self._seen.path, self._seen
        new_mode = NOTHING if rights is None else f"{rights:o}"
        with self._as_file_error():
            self._writer.ask("begin", secrets.token_hex(8), path=path)
            self._writer.send("fill", data, path=path)
            self._writer.ask("ready", checksum_of(data), marks(seen), checksum_of(seen.data), new_mode, path=path)

    def _place(self) -> None:
        with self._as_file_error():
            self._writer.ask("place", marks(self._seen), checksum_of(self._seen.data), path=self._seen.path)

    def clear(self) -> None:
        """Remove the new file, and set its entry to ``failed``; do nothing if the file is or may be in place."""
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
        except WriterRefused as refusal:
            self.answers = True
            raise replacement_error(self._name, self.entry, refusal, "replaced") from None
        self.answers = True


def replacement_error(host: str, entry: FileEntry, refusal: WriterRefused, what: str) -> FileError:
    """Return the error for a refusal to replace or remove a file of *host*. *what*: "replaced" or "removed". If the
    change was made and only not synced to disk, the error's ``is_replaced`` is True; otherwise set *entry* to
    ``failed``."""
    path = f"{host}: {entry.image.path}"
    if refusal.kind == "unsynced":
        holds = "the change was made, but a crash of that host may still undo it"
        return FileError(f"{path}: cannot be {what}: {refusal.reason}; {holds}", True)
    note_failed(entry)
    if refusal.kind == "changed":
        return FileChanged(f"{path}: another user or program changed it in the meantime; the newer version is in place")
    return FileError(f"{path}: cannot be {what}: {refusal.reason or refusal.kind}; it is unchanged")
