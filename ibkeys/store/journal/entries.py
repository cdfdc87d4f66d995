"""The journal's images of attributes: the 64 bytes that a Set overwrites, on disk before it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from ibkeys.errors import EncodeError
from ibkeys.store.journal.records import EntryStatus, Image
from ibkeys.store.sqlite import guid_number, guid_text

if TYPE_CHECKING:
    from ibkeys.store.sqlite import Database

_COLUMNS: Final = (
    "node_guid, port_guid, node_desc, node_type, port, lid, attribute, attribute_modifier, before, after, key_name"
)


class Entry:
    """One record of the journal: an `Image` and what happened to its Set."""

    __slots__ = ("database", "image", "operation", "sequence", "status")

    def __init__(self, database: Database, operation: int, sequence: int, image: Image, status: EntryStatus) -> None:
        self.database = database
        self.operation, self.sequence, self.image, self.status = operation, sequence, image, status

    def done(self) -> None:
        """Note that the Set was verified by a fresh read. Raises StoreError."""
        set_status(self.database, [self], "done")

    def failed(self) -> None:
        """Note that the Set was refused or could not be verified. Raises StoreError."""
        set_status(self.database, [self], "failed")

    def __repr__(self) -> str:
        where = f"{guid_text(self.image.node_guid)} port {self.image.port}"
        return f"<Entry {self.operation}.{self.sequence} {self.image.attribute} of {where}: {self.status}>"


def record(database: Database, operation: int, first: int, images: Sequence[Image]) -> list[Entry]:
    """Put images on disk as pending entries of *operation*, numbered from *first*. Raises StoreError."""
    with database.transaction() as connection:
        connection.executemany(
            f"INSERT INTO entries (operation, sequence, status, {_COLUMNS}) "
            f"VALUES (?, ?, 'pending', {', '.join('?' * 11)})",
            [(operation, sequence, *_values(image)) for sequence, image in enumerate(images, first)],
        )
    return [Entry(database, operation, number, image, "pending") for number, image in enumerate(images, first)]


def set_status(database: Database, entries: Iterable[Entry], status: EntryStatus) -> None:
    """Set the status of *entries* with one sync. Raises StoreError."""
    entries = list(entries)
    with database.transaction() as connection:
        connection.executemany(
            "UPDATE entries SET status = ? WHERE operation = ? AND sequence = ?",
            [(status, entry.operation, entry.sequence) for entry in entries],
        )
    for entry in entries:
        entry.status = status


def entries_of(database: Database, operation: int) -> list[Entry]:
    """Return the entries of an operation in the order they were recorded. Raises StoreError."""
    rows = database.query(
        f"SELECT sequence, status, {_COLUMNS} FROM entries WHERE operation = ? ORDER BY sequence",
        (operation,),
        of="entries",
    )
    try:
        return [_entry(database, operation, row) for row in rows]
    except EncodeError as error:
        raise database.damage(str(error)) from None


def _entry(database: Database, operation: int, row: Sequence[Any]) -> Entry:
    sequence, status, node_guid, port_guid, *rest = row
    image = Image(guid_number(node_guid), guid_number(port_guid), *rest)
    return Entry(database, operation, sequence, image, cast(EntryStatus, status))


def _values(image: Image) -> tuple[object, ...]:
    return (
        guid_text(image.node_guid),
        guid_text(image.port_guid),
        image.node_desc,
        image.node_type,
        image.port,
        image.lid,
        image.attribute,
        image.attribute_modifier,
        image.before,
        image.after,
        image.key_name,
    )
