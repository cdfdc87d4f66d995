"""A new file that waits beside the old one, for changes that must replace several files at almost the same time. All
work that takes long, or may fail for lack of space or rights, is done beforehand; then only a rename remains for each
file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ibkeys.errors import FileError
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.host.replacing.putting import prepared
from ibkeys.host.replacing.replace import metadata_for, note_failed, record, refuse_hindered
from ibkeys.store.journal import FileEntry, RunningOperation


class StagedFile:
    """A new file beside the old one, complete and on disk. ``entry``: its ``pending`` entry in the journal;
    ``is_placed``: whether it is in place, or may be; *take_place*: the function that puts it in place."""

    def __init__(self, entry: FileEntry, take_place: Callable[[], None]) -> None:
        self.entry = entry
        self.is_placed = False
        self._take_place = take_place

    def put(self) -> None:
        """Put the new file in place of the old one. Call this once. Raises FileChanged if the old file is not as it was
        read, FileError for other failures; the error's ``is_replaced`` says whether the new file is in place. For a
        file on another host, also raises HostNotReached; then the new file may be in place.
        """
        self.is_placed = True  # set before the call: a connection may be cut during it, so the result is not known
        try:
            self._take_place()
        except FileError as error:
            self.is_placed = error.is_replaced
            raise


@contextmanager
def stage(
    operation: RunningOperation,
    seen: SeenFile,
    data: bytes,
    *,
    conversions: FileConversions = WITHOUT_KEYS,
    rights: int | None = None,
) -> Iterator[StagedFile]:
    """Prepare a replacement as `ibkeys.host.replacing.replace.replace` makes it; the arguments and errors are as there.
    Yield the new file, whose `put` puts it in place. If that has not happened at the end of the block, the new file is
    removed, and its entry is ``failed``."""
    refuse_hindered(seen, rights)
    metadata = metadata_for(seen, rights)
    entry = record(operation, seen, data, conversions)
    staged: StagedFile | None = None
    try:
        with prepared(seen, data, metadata) as ready:
            staged = StagedFile(entry, ready.take_place)
            yield staged
    finally:
        if staged is None or not staged.is_placed:
            note_failed(entry)
