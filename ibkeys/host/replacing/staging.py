"""A new file that waits beside the old one: for changes of several files that have to be close together in time.

All that takes long or may fail for lack of room or rights is done before; what is left is one rename.
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
    ``is_placed``: whether it may be in place; *take_place*: lets it take the place of what was seen."""

    def __init__(self, entry: FileEntry, take_place: Callable[[], None]) -> None:
        self.entry = entry
        self.is_placed = False
        self._take_place = take_place

    def put(self) -> None:
        """Let it take the place of what was seen. Once.

        Raises FileChanged when the file is not what was seen, FileError when it fails: ``is_replaced`` tells which file
        is in place. Of another host raises HostNotReached too: it may be in place then.
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
    """Prepare what `ibkeys.host.replacing.replace.replace` does in one go, with the same arguments and errors, and
    yield what does the rest. What is not put in place when the block ends is gone, and its entry is ``failed``."""
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
