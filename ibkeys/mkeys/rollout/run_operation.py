"""The operation of a run: a run is one operation of the journal, however often it is resumed."""

from __future__ import annotations

from pathlib import Path

from ibkeys.store.journal import Journal, Operation, OperationRecord
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import Run, RunOperation, Runs
from ibkeys.store.origin import Origin


def find_operation(journal: Journal, run: Run) -> OperationRecord | None:
    """Return the operation of *run*; None where nothing of it was recorded, and where this *journal* does not have it.
    Raises StoreError."""
    if run.operation is None or run.operation.journal != journal.identity():
        return None
    return next((each for each in journal.list_operations() if each.id == run.operation.id), None)


def awaited_operation(journal: Path | None, run: Run) -> OperationRecord | None:
    """Return the operation of *run* if it is rolled back unless somebody confirms it; else None. Raises StoreError."""
    with Journal.read(journal) as stored:
        found = find_operation(stored, run)
    return found if found is not None and found.goes_back else None


def is_noted_open(journal: Path | None, run: Run) -> bool:
    """Whether the journal has the operation of *run* as interrupted, or as one that had failures. Raises StoreError."""
    with Journal.read(journal) as stored:
        found = find_operation(stored, run)
    return found is not None and found.state in ("open", "failed")


def operation_again(journal: Journal, run: Run, origin: Origin, goes_back: bool) -> Operation | None:
    """Return the operation of an earlier *run*, open again, or with *goes_back* the undo of it; None as in
    `find_operation`. Nobody has to confirm it any more. Raises StoreError."""
    found = find_operation(journal, run)
    if found is None:
        return None
    if not goes_back:
        return journal.reopen(found.id, origin, "confirmed")
    with journal.in_one_transaction():
        undo = journal.undo_of(found.id, origin)
        journal.set_stage(found.id, "confirmed")
    return undo


def note_operation(store: KeyStore, run: int, operation: Operation) -> None:
    """Put *operation* on disk as that of a run. Raises StoreError."""
    Runs(store).note_operation(run, RunOperation(operation.journal.identity(), operation.put_on_disk()))
