"""Notes of rehearsals in the journal, by the digest of the plan."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ibkeys.errors import StoreError
from ibkeys.store.journal import Journal
from ibkeys.store.journal.rehearsals import last_rehearsal, note_rehearsal
from tests.corpus import DATA
from tests.store.journaled import ticking

SNAPSHOT = "2026-11-20T08:00:00Z"


def test_the_last_rehearsal_of_each_plan_is_found() -> None:
    with Journal(None, clock=ticking()) as journal:
        assert last_rehearsal(journal, "one") is None
        note_rehearsal(journal, "one", "identical", SNAPSHOT, "running", "/usr/sbin/opensm")
        last = note_rehearsal(journal, "one", "differs", SNAPSHOT, "named", "/opt/opensm")
        other = note_rehearsal(journal, "two", "refused", SNAPSHOT, "installed", "opensm")
        assert last_rehearsal(journal, "one") == last
        assert (last.verdict, last.snapshot, last.opensm, last.program) == ("differs", SNAPSHOT, "named", "/opt/opensm")
        assert last.made
        assert last_rehearsal(journal, "two") == other
        assert journal.list_operations() == []


def test_a_journal_of_an_earlier_version_reads_as_without_rehearsals_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    shutil.copyfile(DATA / "stores" / "70c34ae" / "apply-cut-off" / "journal.db", path)
    path.chmod(0o600)
    before = path.read_bytes()
    with Journal.read(path) as journal:
        assert last_rehearsal(journal, "one") is None
    assert path.read_bytes() == before
    with Journal(path) as journal:
        operations = journal.list_operations()
        note_rehearsal(journal, "one", "identical", SNAPSHOT, "running", "opensm")
    with Journal.read(path) as journal:
        assert last_rehearsal(journal, "one") is not None
        assert journal.list_operations() == operations


@pytest.mark.parametrize("column", ["verdict", "made", "opensm"])
def test_a_note_with_an_impossible_value_is_damage(column: str) -> None:
    with Journal(None) as journal:
        note_rehearsal(journal, "one", "identical", SNAPSHOT, "running", "opensm")
        journal.database.execute("PRAGMA ignore_check_constraints = ON")
        journal.database.execute(f"UPDATE rehearsals SET {column} = 'x'")
        with pytest.raises(StoreError, match=f"{column} has an impossible value"):
            last_rehearsal(journal, "one")
