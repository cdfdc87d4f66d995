"""The operation of a run that has to be confirmed, as the journal has it."""

from __future__ import annotations

from pathlib import Path

from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.keys.runs import AwaitedOperation


def awaited_operation(journal: Path | None, awaited: AwaitedOperation | None) -> OperationRecord | None:
    """Return the operation of the *journal* that is rolled back unless somebody confirms it; None where nobody has to
    confirm it, and where this journal does not have it. Raises StoreError."""
    with Journal.read(journal) as stored:
        if awaited is None or awaited.journal != stored.identity():
            return None
        records = [each for each in stored.list_operations() if each.id == awaited.operation and each.goes_back]
    return records[0] if records else None


def await_nobody(journal: Journal, awaited: AwaitedOperation | None) -> None:
    """Note that nobody has to confirm the operation any more: its run goes on, goes back, or has ended. Raises
    StoreError."""
    if awaited is not None and awaited.journal == journal.identity():
        journal.set_stage(awaited.operation, "confirmed")
