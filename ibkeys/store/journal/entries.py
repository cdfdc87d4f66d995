"""The journal's entries: the image of each Set or replaced file, and its outcome. An entry is on disk before the Set is
sent or the file is replaced."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from ibkeys import jsonfile
from ibkeys.store.journal.records import EntryStatus, FileImage, Image
from ibkeys.store.sqlite import guid_number, guid_text

if TYPE_CHECKING:
    from ibkeys.store.sqlite import Database

AnyImage = TypeVar("AnyImage", bound=Image | FileImage)


@dataclass(eq=False, repr=False)
class ImageEntry(ABC, Generic[AnyImage]):
    """One image in the journal, with the outcome of its change.

    ``table``, ``columns``: the table of images of this kind, and their columns, separated by commas. ``operation``: the
    number of the operation; ``sequence``: the number of the image in the operation, from 0.
    """

    table: ClassVar[str]
    columns: ClassVar[str]
    database: Database
    operation: int
    sequence: int
    image: AnyImage
    status: EntryStatus

    @classmethod
    def next_number(cls, database: Database, operation: int) -> int:
        """Return the number that the next image of *operation* will have. Raises StoreError."""
        sql = f"SELECT coalesce(max(sequence) + 1, 0) FROM {cls.table} WHERE operation = ?"
        return int(database.query(sql, (operation,))[0][0])

    @classmethod
    def record(cls, database: Database, operation: int, first: int, images: Sequence[AnyImage]) -> list[Self]:
        """Write *images* to disk as pending entries of *operation*, numbered from *first*, and return the entries.
        Raises StoreError."""
        entries = [cls(database, operation, number, image, "pending") for number, image in enumerate(images, first)]
        database.insert_all(
            cls.table,
            f"operation, sequence, status, {cls.columns}",
            [(operation, each.sequence, each.status, *cls._values(each.image)) for each in entries],
        )
        return entries

    @classmethod
    def all_of(cls, database: Database, operation: int, sequence: int | None = None) -> list[Self]:
        """Return the entries of an operation in the order in which they were recorded, or the one with the number
        *sequence*. Raises StoreError."""
        rows = database.query(
            f"SELECT sequence, status, {cls.columns} FROM {cls.table} WHERE operation = ? AND sequence = "
            "coalesce(?, sequence) ORDER BY sequence",
            (operation, sequence),
            of=cls.table,
        )
        try:
            return [cls(database, operation, number, cls._image(values), status) for number, status, *values in rows]
        except (ValueError, AttributeError, TypeError) as error:  # EncodeError and FileFormatError are ValueErrors
            raise database.damage(str(error)) from None

    @classmethod
    def set_status(cls, database: Database, entries: Iterable[Self], status: EntryStatus) -> None:
        """Set the status of *entries* with one sync. Raises StoreError."""
        entries = list(entries)
        database.execute_all(
            f"UPDATE {cls.table} SET status = ? WHERE operation = ? AND sequence = ?",
            [(status, entry.operation, entry.sequence) for entry in entries],
        )
        for entry in entries:
            entry.status = status

    def done(self) -> None:
        """Record that a new read verified the Set, or the effect of the new file. Raises StoreError."""
        self.set_status(self.database, [self], "done")

    def failed(self) -> None:
        """Record that the Set or the new file was refused, or could not be verified. Raises StoreError."""
        self.set_status(self.database, [self], "failed")

    @staticmethod
    @abstractmethod
    def _values(image: AnyImage) -> tuple[object, ...]:
        """Return the values of *image* in the order of ``columns``."""

    @staticmethod
    @abstractmethod
    def _image(values: Sequence[Any]) -> AnyImage:
        """Return the image from *values*, in the order of ``columns``. Raises ValueError, AttributeError or TypeError
        for impossible ones."""


class JournalEntry(ImageEntry[Image]):
    """One attribute in the journal: an `Image` and the outcome of its Set."""

    table = "entries"
    columns = (
        "node_guid, port_guid, node_desc, node_type, port, lid, attribute, attribute_modifier, before, after, key_name"
    )

    @staticmethod
    def _values(image: Image) -> tuple[object, ...]:
        return (
            *(guid_text(image.node_guid), guid_text(image.port_guid), image.node_desc, image.node_type, image.port),
            *(image.lid, image.attribute, image.attribute_modifier, image.before, image.after, image.key_name),
        )

    @staticmethod
    def _image(values: Sequence[Any]) -> Image:
        node_guid, port_guid, *rest = values
        return Image(guid_number(node_guid), guid_number(port_guid), *rest)

    def __repr__(self) -> str:
        where = f"{guid_text(self.image.node_guid)} port {self.image.port}"
        return f"<Entry {self.operation}.{self.sequence} {self.image.attribute} of {where}: {self.status}>"


class FileEntry(ImageEntry[FileImage]):
    """One file in the journal: a `FileImage` and the outcome of its replacement."""

    table = "files"
    columns = "host, path, before, after, mode, uid, gid, attributes"
    _IS_REPLACED: ClassVar = "NOT (mode IS NOT NULL AND before IS NULL AND after IS NULL)"
    """The opposite of `FileImage.closed_to`."""

    @classmethod
    def keys(cls, database: Database, content: bytes | None = None) -> list[tuple[str, str]]:
        """Return host and path of each file that was replaced; with *content* only of those that had it before or after
        a change. Raises StoreError."""
        query = f"SELECT DISTINCT host, path FROM files WHERE {cls._IS_REPLACED}"
        if content is None:
            return [(host, path) for host, path in database.query(query, of=cls.table)]
        # SQLite knows the length of a value without reading it.
        query += " AND (length(before) = ? AND before = ? OR length(after) = ? AND after = ?)"
        return [(host, path) for host, path in database.query(query, (len(content), content) * 2, of=cls.table)]

    @classmethod
    def of_file(cls, database: Database, key: tuple[str, str]) -> Iterator[Self]:
        """Yield the entries of the replacements of the file *key* (host and path), the newest first. Each is read when
        the caller takes it. Raises StoreError."""
        query = (
            f"SELECT operation, sequence FROM files WHERE host = ? AND path = ? AND {cls._IS_REPLACED} "
            "ORDER BY operation DESC, sequence DESC"
        )
        for operation, sequence in database.query(query, key, of=cls.table):
            yield from cls.all_of(database, operation, sequence)

    @staticmethod
    def _values(image: FileImage) -> tuple[object, ...]:
        attributes = json.dumps({name: value.hex() for name, value in sorted(image.attributes.items())})
        return image.host, image.path, image.before, image.after, image.mode, image.uid, image.gid, attributes

    @staticmethod
    def _image(values: Sequence[Any]) -> FileImage:
        host, path, before, after, mode, uid, gid, attributes = values
        parsed = jsonfile.loads(attributes.encode("utf-8", "surrogatepass"))
        by_name = {str(name): bytes.fromhex(value) for name, value in parsed.items()}
        return FileImage(path, before, after, mode, uid, gid, by_name, host)

    def __repr__(self) -> str:
        return f"<FileEntry {self.operation}.{self.sequence} {self.image.path}: {self.status}>"
