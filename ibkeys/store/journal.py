"""The journal: what every changing command overwrites, on disk before the Set that overwrites it.

It holds whole 64-byte attributes but no M_Key: those of PortInfo are zeroed, and ``key_ref`` names a row of the key
store instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, cast

from ibkeys.errors import EncodeError, StoreError
from ibkeys.store.sqlite import Schema, Store, guid_number, guid_text, timestamp

OperationState = Literal["open", "done", "undone", "failed"]
EntryStatus = Literal["pending", "done", "failed"]
Stage = Literal["running", "unconfirmed", "confirmed", "going-back"]
"""How far an operation with a plan is: ``unconfirmed`` waits for somebody to say that all is well."""

ATTRIBUTE_SIZE: Final = 64
ATTRIBUTES: Final = frozenset({"P_KeyTable", "PortInfo"})
"""What commands write today. A new one needs a look at whether it can hold a key."""

_SCHEMA: Final = Schema(
    what="journal",
    application_id=0x49424B4A,  # "IBKJ"
    steps=(
        (
            """CREATE TABLE operations (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                command TEXT NOT NULL,
                state TEXT NOT NULL CHECK (state IN ('open', 'done', 'undone', 'failed')),
                started TEXT NOT NULL,
                finished TEXT
            )""",
            """CREATE TABLE entries (
                operation INTEGER NOT NULL REFERENCES operations (id),
                sequence INTEGER NOT NULL,
                node_guid TEXT NOT NULL,
                port_guid TEXT NOT NULL,
                node_desc TEXT NOT NULL,
                node_type TEXT NOT NULL,
                port INTEGER NOT NULL,
                lid INTEGER NOT NULL,
                attribute TEXT NOT NULL,
                attribute_modifier INTEGER NOT NULL,
                before BLOB NOT NULL CHECK (length(before) = 64),
                after BLOB NOT NULL CHECK (length(after) = 64),
                key_ref INTEGER,
                status TEXT NOT NULL CHECK (status IN ('pending', 'done', 'failed')),
                PRIMARY KEY (operation, sequence)
            ) WITHOUT ROWID""",
        ),
        (
            """CREATE TABLE plans (
                operation INTEGER PRIMARY KEY REFERENCES operations (id),
                document TEXT NOT NULL,
                options TEXT NOT NULL,
                stage TEXT NOT NULL CHECK (stage IN ('running', 'unconfirmed', 'confirmed', 'going-back'))
            )""",
        ),
    ),
)

_IMAGE_COLUMNS: Final = (
    "node_guid, port_guid, node_desc, node_type, port, lid, attribute, attribute_modifier, before, after, key_ref"
)


@dataclass(frozen=True, slots=True)
class Image:
    """One attribute of one port before and after a Set.

    ``before`` and ``after`` are the 64 bytes as read and as sent, M_Key zeroed; ``key_ref`` is the key store's row of
    the new M_Key, None when the Set does not change it. ``port`` and ``lid`` as every JSON document has them.

    Raises EncodeError for blobs of another length, an attribute that no command writes, and a PortInfo with its M_Key.
    """

    node_guid: int
    port_guid: int
    node_desc: str
    node_type: str
    port: int
    lid: int
    attribute: str
    attribute_modifier: int
    before: bytes
    after: bytes
    key_ref: int | None = None

    def __post_init__(self) -> None:
        if self.attribute not in ATTRIBUTES:
            raise EncodeError(f"the journal does not keep {self.attribute}; known: {', '.join(sorted(ATTRIBUTES))}")
        for blob in (self.before, self.after):
            if len(blob) != ATTRIBUTE_SIZE:
                raise EncodeError(f"an attribute in the journal has {ATTRIBUTE_SIZE} bytes, {len(blob)} given")
            if self.attribute == "PortInfo" and any(blob[:8]):
                raise EncodeError(
                    "a PortInfo for the journal still has its M_Key; zero it, give the key store's reference"
                )


class Entry:
    """One record of the journal: an `Image` and what became of its Set."""

    __slots__ = ("_journal", "image", "operation", "sequence", "status")

    def __init__(self, journal: Journal, operation: int, sequence: int, image: Image, status: EntryStatus) -> None:
        self._journal = journal
        self.operation, self.sequence, self.image, self.status = operation, sequence, image, status

    def done(self) -> None:
        """Note that the Set was verified by a fresh read."""
        self._journal.settle([self], "done")

    def failed(self) -> None:
        """Note that the Set was refused or could not be verified."""
        self._journal.settle([self], "failed")

    def __repr__(self) -> str:
        where = f"{guid_text(self.image.node_guid)} port {self.image.port}"
        return f"<Entry {self.operation}.{self.sequence} {self.image.attribute} of {where}: {self.status}>"


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """One line of ``ibkeys journal``. ``finished`` is None while it is ``open``; ``ports`` counts distinct ports.

    ``unproven`` counts the Sets whose effect was not proven, or was disproved. ``stage``: how far an operation with a
    plan is, None for one without.
    """

    id: int
    command: str
    state: OperationState
    started: str
    finished: str | None
    ports: int
    unproven: int
    stage: Stage | None

    @property
    def awaits_confirmation(self) -> bool:
        """Whether it will be undone unless somebody says that all is well."""
        return self.stage == "unconfirmed" and self.state != "undone"


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The plan of an operation, as `Journal.begin` took it, and how far it is."""

    document: str
    options: str
    stage: Stage


class Operation:
    """A changing command while it runs; made by `Journal.operation`, `Journal.begin` or `Journal.reopen`.

    ``id`` is None until the first record: a command that had nothing to change leaves no trace. At the end of the
    ``with`` block the operation is ``done``, or ``failed`` when an entry is not done or an exception came through. An
    interrupt (KeyboardInterrupt, SystemExit) leaves it ``open``, as a crash does: it may be resumed or undone.

    *resumable*: an exception, too, leaves it ``open``. ``outcome``: the state that it ends with when nothing was
    raised, in place of ``done`` or ``failed``.
    """

    def __init__(
        self, journal: Journal, command: str, id: int | None = None, first: int = 0, resumable: bool = False
    ) -> None:
        self._journal = journal
        self._entries: list[Entry] = []
        self._first = first
        self._resumable = resumable
        self.command = command
        self.id = id
        self.outcome: OperationState | None = None

    @property
    def journal(self) -> Journal:
        """The journal that it stands in."""
        return self._journal

    def record_all(
        self, images: Iterable[Image], done: Sequence[Entry] = (), failed: Sequence[Entry] = ()
    ) -> list[Entry]:
        """Put many images on disk, and what became of earlier Sets, with one sync; the Sets of *images* may be sent
        when this returns."""
        images = list(images)
        entries: list[Entry] = []
        if not images and not done and not failed:
            return entries
        with self._journal.together():
            if done:
                self._journal.settle(done, "done")
            if failed:
                self._journal.settle(failed, "failed")
            if images:
                self.id, entries = self._journal._record(
                    self.id, self.command, self._first + len(self._entries), images
                )
        self._entries += entries
        return entries

    def settle(self, entries: Iterable[Entry], status: EntryStatus) -> None:
        """Note with one sync what became of the Sets of *entries*."""
        self._journal.settle(entries, status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.id is None or (kind is not None and not issubclass(kind, Exception)):
            return
        if kind is not None and self._resumable:
            return
        complete = kind is None and all(entry.status == "done" for entry in self._entries)
        state: OperationState = "done" if complete else "failed"
        if kind is None and self.outcome is not None:
            state = self.outcome
        try:
            self._journal.set_state(self.id, state)
        except StoreError:
            if kind is None:  # what went wrong first is what the user must hear
                raise


class Journal(Store):
    """The journal file; ``path`` None keeps it in memory. ``create=False``: a missing file reads as an empty journal.

    All methods raise StoreError. Synchronization: use in the thread that made it.
    """

    schema = _SCHEMA

    def operation(self, command: str) -> Operation:
        """Return a new operation, to be used in a ``with`` statement. *command* is a name without arguments."""
        return Operation(self, command)

    def begin(self, command: str, document: str, options: str) -> Operation:
        """Return a new operation that follows a plan, to be used in a ``with`` statement; it may be resumed.

        It is on disk with *document* and *options*, the texts of its plan, when this returns. They hold no key.
        """
        with self._database.transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO operations (command, state, started) VALUES (?, 'open', ?)",
                (command, timestamp(self._clock)),
            )
            connection.execute(
                "INSERT INTO plans (operation, document, options, stage) VALUES (?, ?, ?, 'running')",
                (cursor.lastrowid, document, options),
            )
        return Operation(self, command, cursor.lastrowid, resumable=True)

    def reopen(self, operation: int) -> Operation:
        """Return an earlier operation, open again, to be used in a ``with`` statement: further entries follow its own.

        Raises StoreError for an unknown id.
        """
        record = self.find(operation)
        self.set_state(operation, "open")
        self.set_stage(operation, "running")
        [(first,)] = self._database.query(
            "SELECT coalesce(max(sequence) + 1, 0) FROM entries WHERE operation = ?", (operation,)
        )
        return Operation(self, record.command, operation, first, resumable=True)

    def plan_of(self, operation: int) -> PlanRecord | None:
        """Return the plan that an operation follows, None when it follows none."""
        rows = self._database.query("SELECT document, options, stage FROM plans WHERE operation = ?", (operation,))
        return PlanRecord(*rows[0]) if rows else None

    def set_stage(self, operation: int, stage: Stage) -> None:
        """Set how far an operation is; nothing happens to one without a plan."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE plans SET stage = ? WHERE operation = ?", (stage, operation))

    def move_stage(self, operation: int, old: Stage, new: Stage) -> bool:
        """Change the stage from *old* to *new*; False when it was another. Of several processes one succeeds."""
        with self._database.transaction() as connection:
            cursor = connection.execute(
                "UPDATE plans SET stage = ? WHERE operation = ? AND stage = ?", (new, operation, old)
            )
        return cursor.rowcount == 1

    def find(self, operation: int) -> OperationRecord:
        """Return one operation. Raises StoreError for an unknown id."""
        self._require(operation)
        return next(record for record in self.list_operations() if record.id == operation)

    def list_operations(self) -> list[OperationRecord]:
        """Return all operations, the oldest first."""
        rows = self._database.query(
            """SELECT id, command, state, started, finished,
                      (SELECT count(*) FROM (SELECT DISTINCT node_guid, port FROM entries WHERE operation = id)),
                      (SELECT count(*) FROM entries WHERE operation = id AND status != 'done'), stage
               FROM operations LEFT JOIN plans ON plans.operation = id ORDER BY id"""
        )
        return [OperationRecord(*row) for row in rows]

    def entries(self, operation: int) -> list[Entry]:
        """Return the entries of an operation in the order they were recorded. Raises StoreError for an unknown id."""
        self._require(operation)
        rows = self._database.query(
            f"SELECT sequence, status, {_IMAGE_COLUMNS} FROM entries WHERE operation = ? ORDER BY sequence",
            (operation,),
        )
        return [
            Entry(
                self,
                operation,
                sequence,
                Image(guid_number(node_guid), guid_number(port_guid), *rest),
                cast(EntryStatus, status),
            )
            for sequence, status, node_guid, port_guid, *rest in rows
        ]

    def set_state(self, operation: int, state: OperationState) -> None:
        """Set an operation's state; every state but ``open`` also gives it a finishing time."""
        self._require(operation)
        finished = None if state == "open" else timestamp(self._clock)
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE operations SET state = ?, finished = ? WHERE id = ?", (state, finished, operation)
            )

    def settle(self, entries: Iterable[Entry], status: EntryStatus) -> None:
        """Set the status of *entries* with one sync."""
        entries = list(entries)
        with self._database.transaction() as connection:
            connection.executemany(
                "UPDATE entries SET status = ? WHERE operation = ? AND sequence = ?",
                [(status, entry.operation, entry.sequence) for entry in entries],
            )
        for entry in entries:
            entry.status = status

    def _record(
        self, operation: int | None, command: str, first: int, images: Sequence[Image]
    ) -> tuple[int, list[Entry]]:
        with self._database.transaction() as connection:
            if operation is None:
                cursor = connection.execute(
                    "INSERT INTO operations (command, state, started) VALUES (?, 'open', ?)",
                    (command, timestamp(self._clock)),
                )
                operation = cast(int, cursor.lastrowid)
            connection.executemany(
                f"INSERT INTO entries (operation, sequence, status, {_IMAGE_COLUMNS}) "
                f"VALUES (?, ?, 'pending', {', '.join('?' * 11)})",
                [(operation, sequence, *_columns(image)) for sequence, image in enumerate(images, first)],
            )
        return operation, [
            Entry(self, operation, number, image, "pending") for number, image in enumerate(images, first)
        ]

    def _require(self, operation: int) -> None:
        if not self._database.query("SELECT 1 FROM operations WHERE id = ?", (operation,)):
            raise StoreError(f"the journal has no operation {operation}; `ibkeys journal` lists them")


def _columns(image: Image) -> tuple[object, ...]:
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
        image.key_ref,
    )
