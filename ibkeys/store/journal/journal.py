"""The journal's file, and an operation that is recorded in the journal while the operation runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, cast

from ibkeys.errors import StoreError
from ibkeys.store.journal.entries import FileEntry, JournalEntry
from ibkeys.store.journal.listing import list_operations, relatives_of
from ibkeys.store.journal.records import (
    EntryStatus,
    FileImage,
    Image,
    OperationRecord,
    OperationState,
    PlanRecord,
    Stage,
    StepRecord,
    WantedValue,
    options_in,
)
from ibkeys.store.journal.schema import JOURNAL_SCHEMA
from ibkeys.store.journal.undoing import update_undone_states
from ibkeys.store.journal.wanted_values import values_in
from ibkeys.store.origin import Origin, this_process
from ibkeys.store.sqlite import Store, guid_number

UNDO: Final = "undo"
"""The command name of an operation that undoes another one."""


@dataclass(eq=False, repr=False)
class RunningOperation:
    """A changing command while it runs; made by `Journal.operation`, `Journal.begin`, `Journal.reopen`,
    `Journal.undo_of` or `Journal.rollback_of`.

    ``id`` is None until the first record, so that a command with nothing to change leaves no trace. At the end of the
    ``with`` block the operation becomes ``done``, or ``failed`` if an entry that this object recorded is not done or an
    exception was raised. An interrupt (KeyboardInterrupt, SystemExit) leaves the operation ``open``, as a crash does;
    it may be resumed or undone. The end of the block raises StoreError if the state cannot be written and no exception
    was raised before.

    ``resumable``: an exception leaves the operation ``open`` too. ``kept``: the options that are stored with its first
    record, None for none. ``first``: the number of the first attribute that this object records; 0 for a new operation.
    ``outcome``: the state at the end of the block without an exception, in place of ``done`` or ``failed``.
    ``keeps_state``: the end of the block does not change the state. ``undoes``: the number of the operation that this
    one undoes, None if it is no undo.
    """

    journal: Journal
    command: str
    origin: Origin
    id: int | None = None
    first: int = 0
    resumable: bool = False
    undoes: int | None = None
    kept: Mapping[str, Any] | None = None
    outcome: OperationState | None = field(default=None, init=False)
    keeps_state: bool = field(default=False, init=False)
    _entries: list[JournalEntry] = field(default_factory=list, init=False)
    _files: list[FileEntry] = field(default_factory=list, init=False)
    _step: str = field(default="", init=False)

    def record_all(
        self,
        images: Iterable[Image],
        done: Sequence[JournalEntry] = (),
        failed: Sequence[JournalEntry] = (),
        also: Callable[[], None] = lambda: None,
    ) -> list[JournalEntry]:
        """Write *images* to disk as pending entries, and return the entries. The Sets may be sent when this returns.

        The same transaction, with one sync, records that the earlier entries *done* and *failed* have that status. It
        begins with a call of *also*, which may write more to the journal. Raises StoreError.
        """
        images = list(images)
        entries: list[JournalEntry] = []
        operation = self.id
        with self.journal.in_one_transaction():
            also()
            if done:
                self.journal.set_status(done, "done")
            if failed:
                self.journal.set_status(failed, "failed")
            if images:
                if operation is None:
                    operation = self._begin()
                entries = self.journal.record(operation, self.first + len(self._entries), images)
        self.id = operation
        self._entries += entries
        return entries

    def record_file(self, image: FileImage) -> FileEntry:
        """Write the image of a file to disk, and return its entry. The file may be replaced when this returns. Raises
        StoreError."""
        with self.journal.in_one_transaction():
            operation = self.id
            if operation is None:
                operation = self._begin()
            entry = self.journal.record_file(operation, image)
        self.id = operation
        self._files.append(entry)
        return entry

    def put_on_disk(self) -> int:
        """Write the operation to disk if it is not there yet, make it ``resumable``, and return its number. Raises
        StoreError."""
        if self.id is None:
            with self.journal.in_one_transaction():
                operation = self._begin()
            self.id = operation
        self.resumable = True
        return self.id

    def begin_step(self, name: str) -> None:
        """Record that a step begins. If the operation is not in the journal yet, the step is written together with it.
        Raises StoreError."""
        self._step = name
        if self.id is not None:
            self.journal.begin_step(self.id, name)

    def end_step(self, status: EntryStatus) -> None:
        """Record the outcome of the step that was begun last, if any. If the operation is not in the journal yet,
        nothing is written. Raises StoreError."""
        if self.id is not None and self._step:
            self.journal.end_step(self.id, status)
        self._step = ""

    def _begin(self) -> int:
        operation = self.journal.begin_operation(self.command, self.origin)
        if self._step:
            self.journal.begin_step(operation, self._step)
        if self.kept is not None:
            self.journal.keep_options(operation, json.dumps(self.kept))
        return operation

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.id is None or self.keeps_state or (kind is not None and not issubclass(kind, Exception)):
            return
        if kind is not None and self.resumable:
            return
        statuses = {*(entry.status for entry in self._entries), *(entry.status for entry in self._files)}
        complete = kind is None and statuses <= {"done"}
        state: OperationState = "done" if complete else "failed"
        if kind is None and self.outcome is not None:
            state = self.outcome
        try:
            self.journal.set_state(self.id, state)
        except StoreError:
            if kind is None:  # else the user must see the exception of the block
                raise


class Journal(Store):
    """An open journal; see `Store` for the arguments.

    All methods raise StoreError. Synchronization: use in the thread that made it.
    """

    schema = JOURNAL_SCHEMA

    @classmethod
    def read(cls, path: Path | None) -> Self:
        """Open a journal for reading. The file is neither created nor changed nor migrated; a missing one reads as an
        empty journal."""
        return cls(path, create=False, upgrade=False)

    @property
    def in_words(self) -> str:
        """The journal with its path, for messages."""
        return f"the journal {self.path}" if self.path is not None else "the journal"

    def identity(self) -> str:
        """Return the random name of this journal: 32 hexadecimal digits, the same in its copies and backups."""
        rows = self.database.query("SELECT identity FROM identities", of="identities")
        if len(rows) != 1:
            raise StoreError("the journal is damaged: it has no identity, or several")
        return cast(str, rows[0][0])

    def operation(
        self,
        command: str,
        origin: Origin | None = None,
        kept: Mapping[str, Any] | None = None,
        resumable: bool = False,
    ) -> RunningOperation:
        """Return a new operation, to be used in a ``with`` statement. *command* is a name without arguments.

        *origin*: by default that of this process, without overrides and options. *kept*: the data with which the
        operation is resumed, written as JSON, without any key; None for an operation that cannot be resumed.
        *resumable*: whether an exception leaves the operation ``open``.
        """
        return RunningOperation(self, command, origin or this_process(), resumable=resumable, kept=kept)

    def begin(self, command: str, document: str, options: str, origin: Origin | None = None) -> RunningOperation:
        """Return a new operation that follows a plan, to be used in a ``with`` statement. It may be resumed.

        The operation is on disk when this returns, with the plan *document* and the *options*, both JSON without any
        key.
        """
        origin = origin or this_process()
        with self.in_one_transaction():
            operation = self.begin_operation(command, origin)
            self.keep_options(operation, options, document)
            self._set_running(operation)
        return RunningOperation(self, command, origin, operation, resumable=True)

    def await_confirmation(self, operation: int, options: str) -> None:
        """Record that *operation*, which follows no plan, has to be confirmed from now on. *options*: as in `begin`."""
        with self.in_one_transaction():
            self.keep_options(operation, options)
            self._set_running(operation)

    def keep_options(self, operation: int, options: str, document: str | None = None) -> None:
        """Store the *options* of *operation*, and the text of its plan if it follows one, in place of earlier ones."""
        self.database.execute(
            "INSERT OR REPLACE INTO plans (operation, document, options) VALUES (?, ?, ?)",
            (operation, document, options),
        )

    def _set_running(self, operation: int) -> None:
        self.database.execute("UPDATE operations SET stage = 'running' WHERE id = ?", (operation,))

    def reopen(self, operation: int, origin: Origin | None = None, stage: Stage = "running") -> RunningOperation:
        """Open an earlier operation again, and return it, to be used in a ``with`` statement. New entries follow the
        old.

        *stage*: the new stage; ignored for an operation that neither follows a plan nor had to be confirmed. *origin*:
        that of this start, as in `operation`. Raises StoreError for an unknown number.
        """
        origin = origin or this_process()
        with self.in_one_transaction():
            reopened = self._open_again(operation, origin, stage)
            self._note_start(operation, origin, self.now())
        return reopened

    def rollback_of(self, operation: int, origin: Origin | None = None) -> RunningOperation:
        """Open an operation again to roll it back, because it was not confirmed in time. Return it, to be used in a
        ``with`` statement. The rollback adds entries to it.

        No new start is recorded, so the guardian still takes the operation for the one that it guards. Raises
        StoreError for an unknown number.
        """
        return self._open_again(operation, origin or this_process(), "going-back")

    def _open_again(self, operation: int, origin: Origin, stage: Stage) -> RunningOperation:
        with self.in_one_transaction():
            self.set_state(operation, "open")
            self._set_stage_from_any(operation, stage)
        record = self.find(operation)
        return self._running_operation(record.command, operation, origin, record.undoes)

    def undo_of(self, operation: int, origin: Origin | None = None, stage: Stage = "going-back") -> RunningOperation:
        """Return an operation of its own that undoes *operation*, to be used in a ``with`` statement.

        If *operation* has an interrupted or failed undo, that is resumed, else a new one begins. The undo is on disk
        when this returns. If *operation* has a stage, it gets *stage*, so that it can no longer be confirmed. When the
        undo is ``done``, *operation* becomes ``undone``; if *operation* was an undo itself, the operation that it had
        undone gets its former state back. Raises StoreError for an unknown number.
        """
        origin = origin or this_process()
        self._check_exists(operation)
        undo = self.database.query(
            "SELECT max(id) FROM operations WHERE undoes = ? AND state IN ('open', 'failed')", (operation,)
        )[0][0]
        with self.in_one_transaction():
            self._set_stage_from_any(operation, stage)
            if undo is not None:
                self.database.execute("UPDATE operations SET state = 'open', finished = NULL WHERE id = ?", (undo,))
                self._note_start(undo, origin, self.now())
            else:
                undo = self.begin_operation(UNDO, origin, operation)
        return self._running_operation(UNDO, cast(int, undo), origin, operation)

    def _running_operation(self, command: str, operation: int, origin: Origin, undoes: int | None) -> RunningOperation:
        first = JournalEntry.next_number(self.database, operation)
        return RunningOperation(self, command, origin, operation, first, resumable=True, undoes=undoes)

    def relatives(self, operation: int) -> list[int]:
        """Return the other operations in the chains of undos of *operation*, in the order in which they began. They may
        have overwritten its values or restored them."""
        return relatives_of(self.database, operation)

    def plan_of(self, operation: int) -> PlanRecord | None:
        """Return the plan that an operation follows, None if the operation follows no plan."""
        query = "SELECT document, options FROM plans WHERE operation = ? AND document IS NOT NULL"
        rows = self.database.query(query, (operation,), of="plans")
        return PlanRecord(*rows[0]) if rows else None

    def options_of(self, operation: int) -> dict[str, Any]:
        """Return the options with which an operation was begun; {} if the journal has none, or if they are damaged."""
        rows = self.database.query("SELECT options FROM plans WHERE operation = ?", (operation,), of="plans")
        return options_in(rows[0][0]) if rows else {}

    def wanted_values(self, operation: int) -> list[WantedValue]:
        """Return the values that an operation is to set on single ports, in the order of change; an empty list if the
        journal has none. Raises StoreError if they are damaged."""
        found = values_in(self.options_of(operation))
        if found is None:
            raise StoreError(f"{self.in_words} is damaged: operation {operation} has impossible values to set")
        return found

    def managers(self) -> dict[int, dict[str, str]]:
        """Return the SMs that each operation found on its subnet when it was started: operation → port GUID → port.
        Operations that did not look for SMs are left out."""
        found: dict[int, dict[str, str]] = {}
        query = "SELECT operation, port_guid, port FROM managers ORDER BY operation, port_guid"
        for operation, port_guid, port in self.database.query(query, of="managers"):
            found.setdefault(operation, {})[port_guid] = port
        return found

    def kept(self, operation: int, name: str) -> frozenset[str]:
        """Return the texts in the list *name* of the options of an operation; empty if the options have no such
        list."""
        texts = self.options_of(operation).get(name)
        return frozenset(map(str, texts)) if isinstance(texts, list) else frozenset()

    def add_options(self, operation: int, added: Mapping[str, Any]) -> None:
        """Add *added*, JSON without any key, to the options of an operation with a plan. Do nothing without a plan.
        Raises StoreError if the options are damaged."""
        plan = self.plan_of(operation)
        if plan is None:
            return
        if not plan.kept and plan.options != "{}":
            raise StoreError(f"{self.in_words} is damaged: the options of operation {operation} cannot be read")
        options = json.dumps({**plan.kept, **added})
        self.database.execute("UPDATE plans SET options = ? WHERE operation = ?", (options, operation))

    def _set_stage_from_any(self, operation: int, stage: Stage) -> None:
        """Set the stage of an operation from any other stage, because a resume or undo is always allowed. Do nothing
        for an operation without a stage. A later confirmation or automatic rollback reads the new stage, and gives
        up."""
        self.database.execute("UPDATE operations SET stage = ? WHERE id = ? AND stage IS NOT NULL", (stage, operation))

    def move_stage(self, operation: int, old: Stage, new: Stage) -> bool:
        """Change the stage from *old* to *new*, and return whether the stage was *old*. Of several processes only one
        succeeds."""
        sql = "UPDATE operations SET stage = ? WHERE id = ? AND stage = ?"
        return self.database.execute(sql, (new, operation, old)).rowcount == 1

    def leave_stage(self, operation: int, old: Stage | None, new: Stage) -> None:
        """Change the stage from *old* to *new*. Do nothing for an operation without a stage (*old* None).

        Raises StoreError if another process has changed the stage in the meantime; that rolls the transaction of the
        caller back.
        """
        if old is not None and not self.move_stage(operation, old, new):
            stage = self.find(operation).stage
            if stage is not None:
                raise StoreError(
                    f"operation {operation}: another process changed its stage meanwhile, from {old} to {stage}"
                ).going_on("`ibkeys journal` shows its present state")

    def find(self, operation: int) -> OperationRecord:
        """Return the record of an operation. Raises StoreError for an unknown number."""
        self._check_exists(operation)
        return next(record for record in list_operations(self.database, operation) if record.id == operation)

    def list_operations(self) -> list[OperationRecord]:
        """Return all operations, the oldest first."""
        return list_operations(self.database)

    def entries(self, operation: int) -> list[JournalEntry]:
        """Return the entries of an operation in the order in which they were recorded. Raises StoreError for an unknown
        number."""
        self._check_exists(operation)
        return JournalEntry.all_of(self.database, operation)

    def key_names(self) -> set[str]:
        """Return the names in the key store of all keys that operations have set, or were about to set."""
        query = "SELECT key_name FROM entries UNION SELECT key_name FROM run_ports"
        return {name for (name,) in self.database.query(query) if name is not None}

    def nodes(self) -> dict[int, tuple[str, str]]:
        """Return (NodeDescription, node type) by port GUID, from the last operation that recorded a NodeDescription."""
        # With max() SQLite takes the other columns from the row that has the greatest value.
        rows = self.database.query(
            "SELECT port_guid, node_desc, node_type FROM (SELECT port_guid, node_desc, node_type, max(operation) "
            "FROM entries WHERE node_desc != '' GROUP BY port_guid)",
            of="entries",
        )
        return {guid_number(guid): (name, node_type) for guid, name, node_type in rows}

    def port_guids(self, operation: int) -> set[int]:
        """Return the port GUIDs of the ports that an operation wrote; for any port of a switch the GUID is that of port
        0."""
        query = "SELECT DISTINCT port_guid FROM entries WHERE operation = ?"
        return {guid_number(guid) for (guid,) in self.database.query(query, (operation,), of="entries")}

    def files(self, operation: int) -> list[FileEntry]:
        """Return the files of an operation in the order in which they were recorded. Raises StoreError for an unknown
        number."""
        self._check_exists(operation)
        return FileEntry.all_of(self.database, operation)

    def replaced_files(self, content: bytes | None = None) -> list[tuple[str, str]]:
        """Return host and path of each file that operations replaced; with *content* only of those that had it before
        or after a change. Files of which only the mode was changed are left out. Raises StoreError."""
        return FileEntry.keys(self.database, content)

    def replacements(self, key: tuple[str, str]) -> Iterator[FileEntry]:
        """Yield the entries of the replacements of the file *key* (host and path), the newest first.

        Each is read when the caller takes it: a journal may have thousands of them, each with all bytes of the file.
        Raises StoreError.
        """
        return FileEntry.of_file(self.database, key)

    def record(self, operation: int, first: int, images: Sequence[Image]) -> list[JournalEntry]:
        """Write *images* to disk as pending entries of *operation*, numbered from *first*, and return the entries."""
        return JournalEntry.record(self.database, operation, first, images)

    def record_file(self, operation: int, image: FileImage) -> FileEntry:
        """Write the image of a file to disk as a pending entry of *operation*, and return the entry."""
        with self.in_one_transaction():
            number = FileEntry.next_number(self.database, operation)
            return FileEntry.record(self.database, operation, number, [image])[0]

    def begin_step(self, operation: int, name: str) -> None:
        """Record that a step of *operation* begins."""
        [(number,)] = self.database.query("SELECT count(*) FROM steps WHERE operation = ?", (operation,))
        self.database.insert("steps", operation=operation, number=number, name=name, begun=self.now(), status="pending")

    def end_step(self, operation: int, status: EntryStatus) -> None:
        """Record the outcome of the step of *operation* that was begun last."""
        last = "(SELECT max(number) FROM steps WHERE operation = ?)"
        sql = f"UPDATE steps SET status = ? WHERE operation = ? AND number = {last}"
        self.database.execute(sql, (status, operation, operation))

    def steps(self, operation: int) -> list[StepRecord]:
        """Return the steps of an operation in the order in which they were begun. An operation of an earlier version,
        or one of single Sets, has none."""
        query = "SELECT name, begun, status FROM steps WHERE operation = ? ORDER BY number"
        return [StepRecord(*row) for row in self.database.query(query, (operation,), of="steps")]

    def set_state(self, operation: int, state: OperationState) -> None:
        """Set the state of an operation, and its time of finishing: the present time, none for ``open``.

        ``done`` also ends an interrupted or failed undo of the operation. If the operation is an undo, ``done`` also
        changes the states, but not the times, of the operations in its chain of undos: see `update_undone_states`.
        """
        self._check_exists(operation)
        finished = None if state == "open" else self.now()
        with self.in_one_transaction():
            self.database.execute(
                "UPDATE operations SET state = ?, finished = ? WHERE id = ?", (state, finished, operation)
            )
            if state == "done":
                self.end_undos(operation)
                update_undone_states(self.database, operation)

    def end_undos(self, operation: int) -> None:
        """Set interrupted and failed undos of *operation* to ``undone``, so that no command resumes them any more."""
        self.database.execute(
            "UPDATE operations SET state = 'undone' WHERE undoes = ? AND state IN ('open', 'failed')", (operation,)
        )

    def set_status(self, entries: Iterable[JournalEntry], status: EntryStatus) -> None:
        """Set the status of *entries* with one sync."""
        JournalEntry.set_status(self.database, entries, status)

    def begin_operation(self, command: str, origin: Origin, undoes: int | None = None) -> int:
        """Write a new, open operation to disk, and return its number. *undoes*: the operation that it undoes, if
        any."""
        started = self.now()
        with self.in_one_transaction():
            row = {"command": command, "state": "open", "started": started, "undoes": undoes}
            operation = self.database.insert("operations", **row)
            self._note_start(operation, origin, started)
        return operation

    def add_earlier(self, command: str, started: str, state: OperationState) -> int:
        """Write an operation of an earlier version to disk, without a start because its user is not known; return its
        number."""
        finished = None if state == "open" else started
        return self.database.insert("operations", command=command, state=state, started=started, finished=finished)

    def _note_start(self, operation: int, origin: Origin, started: str) -> None:
        [(number,)] = self.database.query("SELECT count(*) FROM starts WHERE operation = ?", (operation,))
        overrides, options = json.dumps(origin.overrides), json.dumps(origin.options)
        self.database.insert_all(
            "starts",
            "operation, number, started, user, host, overrides, options",
            [(operation, number, started, origin.user, origin.host, overrides, options)],
        )
        for port_guid, port in origin.managers.items():
            self.database.execute("INSERT OR REPLACE INTO managers VALUES (?, ?, ?)", (operation, port_guid, port))

    def _check_exists(self, operation: int) -> None:
        if not self.database.query("SELECT 1 FROM operations WHERE id = ?", (operation,)):
            raise StoreError(f"{self.in_words} has no operation {operation}; `ibkeys journal` lists them")
