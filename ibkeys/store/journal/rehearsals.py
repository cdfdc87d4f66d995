"""The notes of rehearsals in the journal: which plan was tried on a copy of the fabric, and how that ended."""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import Final

from ibkeys.store.journal.journal import Journal
from ibkeys.store.journal.records import OpensmOrigin, OperationRecord, RehearsalRecord, RehearsalVerdict
from ibkeys.store.origin import this_process

_COLUMNS: Final = ", ".join(each.name for each in fields(RehearsalRecord))


def note_rehearsal(
    journal: Journal, plan: str, verdict: RehearsalVerdict, snapshot: str, opensm: OpensmOrigin, program: str
) -> RehearsalRecord:
    """Write the note of a rehearsal that ended now to disk, and return it. The arguments are as in `RehearsalRecord`.
    Raises StoreError."""
    by = this_process()
    record = RehearsalRecord(plan, verdict, journal.now(), snapshot, opensm, program, by.user, by.host)
    journal.database.insert_all("rehearsals", _COLUMNS, [astuple(record)])
    return record


def last_rehearsal(journal: Journal, plan: str, until: str | None = None) -> RehearsalRecord | None:
    """Return the last rehearsal of the plan with the digest *plan*; with *until*, the last that had ended by then. The
    time is as the journal writes it. None if there was none. Raises StoreError."""
    query = f"SELECT {_COLUMNS} FROM rehearsals WHERE plan = ? ORDER BY number DESC"
    found = (RehearsalRecord(*row) for row in journal.database.query(query, (plan,), of="rehearsals"))
    return next((each for each in found if until is None or each.made <= until), None)


def rehearsal_before(journal: Journal, operation: OperationRecord) -> RehearsalRecord | None:
    """Return the last rehearsal of the plan of *operation* that ended before it started; None if there was none, or for
    an operation without a plan. Raises StoreError."""
    digest = journal.options_of(operation.id).get("digest")
    return None if digest is None else last_rehearsal(journal, str(digest), operation.started)
