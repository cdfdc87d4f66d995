"""Files in the journal: the former bytes are on disk before a file is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import EncodeError, StoreError
from ibkeys.store.journal import FileImage, Journal

POLICY = FileImage(
    "/etc/opensm/partitions.conf", b"Default=0x7fff : ALL ;\n", b"Default=0x7fff : ALL=full ;\n", 0o640, 0, 7
)


def test_the_former_bytes_are_on_disk_before_the_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal, journal.operation("apply") as operation:
        entry = operation.record_file(POLICY)
        [kept] = Journal(path, create=False).files(1)
        assert (kept.image, kept.status) == (POLICY, "pending")
        assert Journal(path, create=False).find(1).unproven == 1
        entry.done()
    [record] = Journal(path).list_operations()
    assert (record.state, record.unproven, record.ports) == ("done", 0, 0)


def test_an_operation_with_a_file_that_was_not_proven_is_not_done() -> None:
    journal = Journal(None)
    with journal.operation("apply") as operation:
        operation.record_file(POLICY).done()
        operation.record_file(FileImage("/a", None, b"")).failed()
    assert journal.find(1).state == "failed"
    assert [(entry.sequence, entry.status) for entry in journal.files(1)] == [(0, "done"), (1, "failed")]


@given(
    st.binary() | st.none(),
    st.binary() | st.none(),
    st.dictionaries(st.text(min_size=1), st.binary()),
    st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=("Cs",))),
)
def test_everything_of_a_file_survives(
    before: bytes | None, after: bytes | None, attributes: dict[str, bytes], name: str
) -> None:
    image = FileImage(f"/{name}", before, after, None if before is None else 0o600, 0, 0xFFFFFFFE, attributes, "sm-2")
    journal = Journal(None)
    with journal.operation("apply") as operation:
        operation.record_file(image)
    [entry] = journal.files(1)
    assert entry.image == image


def test_a_path_that_is_not_absolute_is_refused() -> None:
    with pytest.raises(EncodeError, match="absolute"):
        FileImage("partitions.conf", None, b"")


@pytest.mark.parametrize("attributes", ["", "[]", '{"a": 1}', '{"a": "zz"}'])
def test_damaged_attributes_are_damage_of_the_journal(attributes: str) -> None:
    journal = Journal(None)
    with journal.operation("apply") as operation:
        operation.record_file(POLICY)
    with journal.database.transaction() as connection:
        connection.execute("UPDATE files SET attributes = ?", (attributes,))
    with pytest.raises(StoreError, match="damaged"):
        journal.files(1)


def test_a_journal_without_the_table_reads_as_one_without_files(tmp_path: Path) -> None:
    stores = Path(__file__).parents[1] / "data" / "stores" / "70c34ae"
    old = tmp_path / "journal.db"
    old.write_bytes(next(stores.rglob("journal.db")).read_bytes())
    old.chmod(0o600)
    with Journal.read(old) as journal:
        [first, *_] = journal.list_operations()
        assert journal.files(first.id) == []


def test_the_replacements_of_a_file_come_newest_first_and_are_read_one_by_one() -> None:
    journal = Journal(None)
    closed, key_file = FileImage(POLICY.path, None, None, 0o600, 0, 0), FileImage("/k", b"secret", b"none", host="sm-2")
    for images in ([POLICY, key_file], [closed], [POLICY, POLICY]):
        with journal.operation("apply") as operation:
            for image in images:
                operation.record_file(image).done()
    found = journal.replacements(POLICY.key)
    assert [(entry.operation, entry.sequence) for entry in (next(found), next(found))] == [(3, 1), (3, 0)]
    journal.database.execute("UPDATE files SET attributes = '?' WHERE operation = 1", ())
    with pytest.raises(StoreError, match="damaged"):
        next(found)
    assert sorted(journal.replaced_files()) == [POLICY.key, key_file.key]
    assert journal.replaced_files(b"secret") == journal.replaced_files(b"none") == [key_file.key]
    assert journal.replaced_files(b"public") == []


def test_the_long_values_of_a_row_are_last_so_that_others_are_read_without_them() -> None:
    journal = Journal(None)
    for table, long in (("plans", ["document"]), ("files", ["before", "after"])):
        assert [name for _, name, *_ in journal.database.query(f"PRAGMA table_info({table})")][-len(long) :] == long


def test_the_replacements_of_a_file_in_a_damaged_journal_are_refused() -> None:
    journal = Journal(None)
    with journal.operation("apply") as operation:
        for _ in range(2):
            operation.record_file(POLICY).done()
    journal.database.execute("UPDATE files SET sequence = 'x' WHERE sequence = 1")
    with pytest.raises(StoreError, match="damaged"):
        list(journal.replacements(POLICY.key))
