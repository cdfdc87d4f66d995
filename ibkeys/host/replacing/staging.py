"""A new file that waits beside the old one, for changes of several files that have to be made at almost the same time.
Everything that takes long or may fail for lack of space or rights is done before; only one rename is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ibkeys.errors import FileError
from ibkeys.host.replacing.contents import WITHOUT_KEYS, FileContents
from ibkeys.host.replacing.looked_up import SeenFile
from ibkeys.host.replacing.putting import staged
from ibkeys.host.replacing.replace import metadata_for, note_failed, record, refuse_hindered
from ibkeys.store.journal import FileEntry, RunningOperation


class Staged:
    """A new file beside the old one, complete and on disk. ``entry``: its entry in the journal, ``pending``;
    ``is_placed``: whether it may be in place; *take_place*: puts it in place."""

    def __init__(self, entry: FileEntry, take_place: Callable[[], None]) -> None:
        self.entry = entry
        self.is_placed = False
        self._take_place = take_place

    def put(self) -> None:
        """Put it in place of the file that was seen; called once. Raises FileChanged if the file is not as it was seen,
        FileError for other failures: ``is_replaced`` says which file is in place. On another host raises HostNotReached
        too: the new file may be in place then.
        """
        self.is_placed = True  # before it is so: a connection may be cut
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
    contents: FileContents = WITHOUT_KEYS,
    rights: int | None = None,
) -> Iterator[Staged]:
    """Prepare a replacement as `ibkeys.host.replacing.replace.replace` makes it, with the same arguments and errors,
    and yield the new file, whose `put` does the rest. A file that was not put in place when the block ends is removed,
    and its entry is ``failed``."""
    refuse_hindered(seen, rights)
    metadata = metadata_for(seen, rights)
    entry = record(operation, seen, data, contents)
    here: Staged | None = None
    try:
        with staged(seen, data, metadata) as ready:
            here = Staged(entry, ready.take_place)
            yield here
    finally:
        if here is None or not here.is_placed:
            note_failed(entry)
