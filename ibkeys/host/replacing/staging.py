"""A new file that waits beside the old one: for changes of several files that have to be close together in time.

All that takes long or may fail for lack of room or rights is done before; what is left is one rename.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from ibkeys.errors import FileError, StoreError
from ibkeys.host.replacing.contents import WITHOUT_KEYS, Contents
from ibkeys.host.replacing.putting import Put, staged
from ibkeys.host.replacing.replace import metadata_for, record, refuse_hindered
from ibkeys.host.replacing.seen import SeenFile
from ibkeys.store.journal import FileEntry, Operation


class Staged(Protocol):
    """A new file beside the old one, complete and on disk."""

    @property
    def entry(self) -> FileEntry:
        """Its entry in the journal, ``pending``."""

    def put(self) -> None:
        """Let it take the place of what was seen. Once.

        Raises FileChanged when the file is not what was seen, FileError when it fails: ``is_replaced`` tells which file
        is in place. Of another host raises HostNotReached too: it may be in place then.
        """


class StagedHere:
    """A `Staged` file of this host. ``is_placed``: whether it may be in place."""

    def __init__(self, entry: FileEntry, ready: Put) -> None:
        self.entry = entry
        self._ready = ready
        self.is_placed = False

    def put(self) -> None:
        """Let it take the place of what was seen. Raises FileChanged, FileError."""
        self.is_placed = True
        try:
            self._ready.take_place()
        except FileError as error:
            self.is_placed = error.is_replaced
            raise


@contextmanager
def stage(
    operation: Operation,
    seen: SeenFile,
    data: bytes,
    *,
    contents: Contents = WITHOUT_KEYS,
    rights: int | None = None,
) -> Iterator[Staged]:
    """Prepare what `ibkeys.host.replacing.replace.replace` does in one go, with the same arguments and errors, and
    yield what does the rest. What is not put in place when the block ends is gone, and its entry is ``failed``."""
    refuse_hindered(seen, rights)
    metadata = metadata_for(seen, rights)
    entry = record(operation, seen, data, contents)
    here: StagedHere | None = None
    try:
        with staged(seen, data, metadata) as ready:
            here = StagedHere(entry, ready)
            yield here
    finally:
        if here is None or not here.is_placed:
            with suppress(StoreError):  # what went wrong first is what the user must hear
                entry.failed()
