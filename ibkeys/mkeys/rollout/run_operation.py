"""The operation of a run: a run is one operation of the journal, however often it is resumed."""

from __future__ import annotations

from pathlib import Path

from ibkeys.store.journal import Journal, Operation, OperationRecord
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import Run, RunOperation, Runs
from ibkeys.store.origin import Origin


def find_operation(journal: Journal, run: Run) -> OperationRecord | None:
    """Return the operation of *run*; None where this *journal* does not have it. Raises StoreError."""
    return run.find_operation(journal.list_operations(), journal.identity())


def awaited_operation(journal: Path | None, run: Run) -> OperationRecord | None:
    """Return the operation of *run* if it is rolled back unless somebody confirms it; else None. Raises StoreError."""
    with Journal.read(journal) as stored:
        found = find_operation(stored, run)
    return found if found is not None and found.goes_back else None


def is_noted_open(journal: Path | None, run: Run) -> bool:
    """Whether the journal has the operation of *run* as interrupted, as one that had failures, or as half undone.
    Raises StoreError."""
    with Journal.read(journal) as stored:
        found = find_operation(stored, run)
    return found is not None and (found.state in ("open", "failed") or is_half_undone(found))


def is_half_undone(record: OperationRecord) -> bool:
    """Whether the undo of an operation was begun and has not ended."""
    return record.being_undone and record.state != "undone"


def operation_again(journal: Journal, run: Run, origin: Origin, goes_back: bool) -> Operation | None:
    """Return the operation of an earlier *run*, open again, or with *goes_back* the undo of it; where the *journal*
    does not have it, None, or the undo of one that stands for it. Nobody has to confirm it any more. Raises
    StoreError."""
    found = find_operation(journal, run)
    if found is None and not goes_back:
        return None
    if found is not None and not goes_back:
        return journal.reopen(found.id, origin, "confirmed")
    with journal.in_one_transaction():
        number = journal.begin_operation(run.command, origin) if found is None else found.id
        undo = journal.undo_of(number, origin)
        journal.set_stage(number, "confirmed")
    return undo


def end_earlier(journal: Journal, but: int | None) -> None:
    """Note that no run of M_Keys but that of operation *but* goes on or back any more. Raises StoreError."""
    for each in journal.list_operations():
        if not each.is_of_keys or each.undoes is not None or each.id == but:
            continue
        if is_half_undone(each):
            journal.end_undos(each.id)
            journal.set_state(each.id, "undone")
        elif each.state in ("open", "failed"):
            journal.set_state(each.id, "done")


def note_operation(store: KeyStore, run: int, operation: Operation) -> None:
    """Put *operation* on disk as that of a run; of an undo the one that it undoes is. Raises StoreError."""
    number = operation.put_on_disk() if operation.undoes is None else operation.undoes
    Runs(store).note_operation(run, RunOperation(operation.journal.identity(), number))
