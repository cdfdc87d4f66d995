"""The notes of rehearsals in the journal: which plan was tried on a copy of the fabric, and how that ended."""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import Final

from ibkeys.store.journal.journal import Journal
from ibkeys.store.journal.records import OpensmOrigin, RehearsalRecord, RehearsalVerdict
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


def last_rehearsal(journal: Journal, plan: str) -> RehearsalRecord | None:
    """Return the last rehearsal of the plan with the digest *plan*; None if there was none. Raises StoreError."""
    rows = journal.database.query(
        f"SELECT {_COLUMNS} FROM rehearsals WHERE plan = ? ORDER BY number DESC LIMIT 1", (plan,), of="rehearsals"
    )
    return RehearsalRecord(*rows[0]) if rows else None
