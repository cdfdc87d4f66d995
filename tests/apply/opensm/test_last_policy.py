"""The last change of the policy in force, by the journal: what the master's file is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.apply.opensm.last_policy import LastChange, last_change
from ibkeys.apply.opensm.policy_files import digest_of
from ibkeys.host.replacing.file_to_replace import FoundFile, Metadata, SeenFile
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.store.journal import FileImage, Journal, RunningOperation
from ibkeys.store.origin import Origin
from tests.apply.opensm.madeup import POLICY

FIRST, SECOND, OTHER = (f"0x{0x2C903000A1000 + number:016x}" for number in (1, 2, 9))


@pytest.fixture
def journal() -> Iterator[Journal]:
    with Journal(None) as journal:
        yield journal


def origin(*guids: str) -> Origin:
    return Origin("root", "head1", managers={guid: f"port of {guid}" for guid in guids})


def write(operation: RunningOperation, host: str, before: bytes, after: bytes) -> int:
    """Let an operation replace the master's file on *host*, and end; return its number."""
    with operation:
        operation.record_file(FileImage(str(POLICY), before, after, 0o644, 0, 0, {}, host)).done()
        number = operation.put_on_disk()
    return number


def change(journal: Journal, host: str, before: bytes, after: bytes, *guids: str) -> int:
    """Let a partition-add change the policy at the master on *host*, which found the SMs *guids*."""
    return write(journal.operation("partition-add", origin(*guids)), host, before, after)


def undo(journal: Journal, operation: int, host: str, before: bytes, after: bytes, *guids: str) -> int:
    return write(journal.undo_of(operation, origin(*guids)), host, before, after)


def last(journal: Journal, *present: str) -> LastChange:
    found = last_change(journal, present)
    assert found is not None
    return found


def why_older(found: LastChange, data: bytes) -> str:
    """Return why a master's file with *data*, written long after every change, is older than *found*."""
    seen = SeenFile(POLICY, FoundFile(data, Metadata(0o644, 0, 0), 1, 1, 1, 2**62))
    return found.why_older(OpensmFile(cast(Any, SimpleNamespace(name="")), POLICY, seen))


def test_a_change_and_its_undo_at_a_master_with_an_older_policy_count_as_nothing(journal: Journal) -> None:
    number = change(journal, "sm1", b"old", b"new", FIRST, SECOND)
    tried = change(journal, "sm2", b"old", b"tried", FIRST, SECOND)
    undo(journal, tried, "sm2", b"tried", b"old", FIRST, SECOND)
    found = last(journal, FIRST, SECOND)
    assert (found.operation.id, found.digest) == (number, digest_of(b"new"))
    assert f"has a policy from before operation {number} " in why_older(found, b"old")
    assert why_older(found, b"tried") != ""
    assert why_older(found, b"new") == ""


def test_a_change_that_is_made_again_is_the_last_one(journal: Journal) -> None:
    change(journal, "sm1", b"old", b"new", FIRST)
    number = change(journal, "sm1", b"new", b"newer", FIRST)
    undone = undo(journal, number, "sm1", b"newer", b"new", FIRST)
    assert (last(journal, FIRST).operation.id, last(journal, FIRST).digest) == (undone, digest_of(b"new"))
    assert why_older(last(journal, FIRST), b"newer") != ""
    again = undo(journal, undone, "sm1", b"new", b"newer", FIRST)
    assert (last(journal, FIRST).operation.id, last(journal, FIRST).digest) == (again, digest_of(b"newer"))
    assert why_older(last(journal, FIRST), b"new") != ""


def test_the_undo_of_the_only_change_makes_its_policy_the_older_one(journal: Journal) -> None:
    number = change(journal, "sm1", b"old", b"new", FIRST)
    undo(journal, number, "sm1", b"new", b"old", FIRST)
    assert why_older(last(journal, FIRST), b"new") != ""
    assert why_older(last(journal, FIRST), b"old") == ""


def test_a_change_at_the_former_master_counts_while_that_one_is_away(journal: Journal) -> None:
    """The SM that is master now was off when the change was made, but an earlier operation found both."""
    change(journal, "sm1", b"oldest", b"old", FIRST, SECOND)
    number = change(journal, "sm1", b"old", b"new", FIRST)
    assert last(journal, SECOND).operation.id == number
    assert f"has a policy from before operation {number} " in why_older(last(journal, SECOND), b"old")
    assert last_change(journal, [OTHER]) is None
