"""The journal's images of files: what a change through a subnet manager replaces, on disk before it is replaced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from ibkeys import jsonfile
from ibkeys.errors import EncodeError, FileFormatError
from ibkeys.store.journal.records import EntryStatus, FileImage

if TYPE_CHECKING:
    from ibkeys.store.sqlite import Database

_COLUMNS: Final = "host, path, before, after, mode, uid, gid, attributes"


class FileEntry:
    """One file in the journal: a `FileImage` and the outcome for it."""

    __slots__ = ("database", "image", "operation", "sequence", "status")

    def __init__(
        self, database: Database, operation: int, sequence: int, image: FileImage, status: EntryStatus
    ) -> None:
        self.database = database
        self.operation, self.sequence, self.image, self.status = operation, sequence, image, status

    def done(self) -> None:
        """Note that what follows from the new file was verified on the ports. Raises StoreError."""
        self._set("done")

    def failed(self) -> None:
        """Note that the file was not replaced, or that nothing followed from it. Raises StoreError."""
        self._set("failed")

    def _set(self, status: EntryStatus) -> None:
        with self.database.transaction() as connection:
            connection.execute(
                "UPDATE files SET status = ? WHERE operation = ? AND sequence = ?",
                (status, self.operation, self.sequence),
            )
        self.status = status

    def __repr__(self) -> str:
        return f"<FileEntry {self.operation}.{self.sequence} {self.image.path}: {self.status}>"


def record_file(database: Database, operation: int, image: FileImage) -> FileEntry:
    """Put one file on disk, after those that *operation* has. Raises StoreError."""
    attributes = json.dumps({name: value.hex() for name, value in sorted(image.attributes.items())})
    with database.transaction() as connection:
        [(sequence,)] = connection.execute(
            "SELECT coalesce(max(sequence) + 1, 0) FROM files WHERE operation = ?", (operation,)
        ).fetchall()
        connection.execute(
            f"INSERT INTO files (operation, sequence, status, {_COLUMNS}) VALUES (?, ?, 'pending', "
            "?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(operation, sequence, image.host, image.path, image.before, image.after),
                *(image.mode, image.uid, image.gid, attributes),
            ),
        )
    return FileEntry(database, operation, cast(int, sequence), image, "pending")


def files_of(database: Database, operation: int) -> list[FileEntry]:
    """Return the files of an operation in the order they were recorded. Raises StoreError."""
    rows = database.query(
        f"SELECT sequence, status, {_COLUMNS} FROM files WHERE operation = ? ORDER BY sequence",
        (operation,),
        of="files",
    )
    try:
        return [_entry(database, operation, row) for row in rows]
    except (EncodeError, FileFormatError, ValueError, AttributeError, TypeError) as error:
        raise database.damage(str(error)) from None


def _entry(database: Database, operation: int, row: Sequence[Any]) -> FileEntry:
    sequence, status, host, path, before, after, mode, uid, gid, attributes = row
    parsed = jsonfile.loads(attributes.encode("utf-8", "surrogatepass"))
    kept = {str(name): bytes.fromhex(value) for name, value in parsed.items()}
    image = FileImage(path, before, after, mode, uid, gid, kept, host)
    return FileEntry(database, operation, sequence, image, cast(EntryStatus, status))
