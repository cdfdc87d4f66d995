"""Replacing a file with the journal: before it is written, and what a run finds beside."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.errors import FileChanged, FileError
from ibkeys.host.replacing import putting
from ibkeys.host.replacing.conversions import LINES, NO_BYTES, NOT_KEPT, WIDTH, WITHOUT_KEYS, difference
from ibkeys.host.replacing.file_to_replace import look
from ibkeys.host.replacing.images import known_bytes
from ibkeys.host.replacing.names import is_new_name, is_unfinished, new_name, unfinished_name
from ibkeys.host.replacing.new_file import create
from ibkeys.host.replacing.replace import clean_up, record, replace
from ibkeys.store.journal import FileEntry, FileImage, Journal, RunningOperation
from tests.host.replacing.helpers import NEW, OLD, THEIRS, WITH_KEYS, names
from tests.store.journaled import recorded


@pytest.fixture
def operation() -> RunningOperation:
    return Journal(None).operation("apply")


def stored(operation: RunningOperation) -> list[FileEntry]:
    return [] if operation.id is None else operation.journal.files(operation.id)


def test_the_former_file_is_in_the_journal_when_the_new_one_is_begun(
    file: Path, operation: RunningOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.setxattr(file, "user.note", b"kept")
    seen: list[FileEntry] = []
    real = putting.new_file.create

    def creating(*arguments: Any) -> int:
        seen.extend(stored(operation))
        return real(*arguments)

    monkeypatch.setattr(putting.new_file, "create", creating)
    entry = replace(operation, look(file), NEW)
    [kept] = seen
    assert kept.image == FileImage(str(file), OLD, NEW, 0o640, os.getuid(), file.stat().st_gid, {"user.note": b"kept"})
    assert (entry.image, entry.status) == (kept.image, "pending")
    assert file.read_bytes() == NEW


def test_what_hinders_is_found_before_the_journal_is_written(file: Path, operation: RunningOperation) -> None:
    os.link(file, file.with_name("other"))
    with pytest.raises(FileError, match="2 names"):
        replace(operation, look(file), NEW)
    assert operation.id is None


def test_a_file_that_was_not_replaced_has_a_failed_entry(file: Path, operation: RunningOperation) -> None:
    seen = look(file)
    file.write_bytes(THEIRS)
    with pytest.raises(FileChanged):
        replace(operation, seen, NEW)
    assert [entry.status for entry in stored(operation)] == ["failed"]
    assert file.read_bytes() == THEIRS


def test_a_file_that_was_replaced_before_something_failed_stays_pending(
    file: Path, operation: RunningOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync
    calls: list[int] = []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(FileError) as caught:
        replace(operation, look(file), NEW)
    assert caught.value.is_replaced
    assert [entry.status for entry in stored(operation)] == ["pending"]
    assert file.read_bytes() == NEW


def test_through_a_link_the_real_file_is_replaced_and_the_link_stays(file: Path, operation: RunningOperation) -> None:
    link = file.with_name("link")
    link.symlink_to("policy")
    entry = replace(operation, look(link), NEW)
    assert (link.is_symlink(), file.read_bytes(), entry.image.path) == (True, NEW, str(file))


# --- files with keys --------------------------------------------------------------------------------------------------


def test_no_key_is_in_the_journal_and_what_it_keeps_gives_the_file_again(
    file: Path, operation: RunningOperation
) -> None:
    file.write_bytes(b"m_key 0xfeed\nlog 1\n")
    entry = replace(operation, look(file), b"m_key 0xfeed\nlog 2\n", conversions=WITH_KEYS)
    assert (entry.image.before, entry.image.after) == (b"m_key key:7\nlog 1\n", b"m_key key:7\nlog 2\n")
    assert file.read_bytes() == b"m_key 0xfeed\nlog 2\n"
    assert known_bytes(entry.image, WITH_KEYS) == {b"m_key 0xfeed\nlog 1\n", b"m_key 0xfeed\nlog 2\n"}


def test_a_file_whose_keys_the_journal_could_not_give_back_is_not_replaced(
    file: Path, operation: RunningOperation
) -> None:
    file.write_bytes(b"m_key 0xfeed\n# key:7 is a comment\n")
    with pytest.raises(FileError, match="could not restore it"):
        record(operation, look(file), NEW, WITH_KEYS)
    assert operation.id is None


def test_a_file_that_is_nothing_but_keys_is_never_given_back(file: Path, operation: RunningOperation) -> None:
    entry = replace(operation, look(file), NEW, conversions=NOT_KEPT)
    assert (entry.image.before, entry.image.after, file.read_bytes()) == (NO_BYTES, NO_BYTES, NEW)
    removed = replace(operation, look(file), None, conversions=NOT_KEPT)
    for each in (entry, removed):
        for conversions in (NOT_KEPT, WITHOUT_KEYS):
            assert known_bytes(each.image, conversions) == set()


def test_of_a_file_that_is_nothing_but_keys_no_difference_is_shown() -> None:
    assert difference(OLD, NEW, NOT_KEPT) == "they differ only in masked values or line ends"


def test_a_difference_shows_no_key() -> None:
    shown = difference(b"m_key 0xfeed\nlog 2\n", b"m_key 0xbeef\nlog 3\n", WITH_KEYS)
    assert "+log 3" in shown
    assert "***" in shown
    assert not re.search("feed|beef", shown)


def test_files_that_differ_in_keys_only_say_so() -> None:
    assert "masked values" in difference(b"m_key 0xfeed\n", b"m_key 0xbeef\n", WITH_KEYS)
    assert difference(OLD, OLD, WITHOUT_KEYS) == ""


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_a_difference_is_bounded_printable_and_there_when_something_differs(left: bytes, right: bytes) -> None:
    shown = difference(left, right, WITHOUT_KEYS)
    assert bool(shown) == (left != right)
    assert all(line.isprintable() and len(line) <= WIDTH + 1 for line in shown.split("\n"))


def test_a_difference_of_large_files_is_short() -> None:
    left = b"".join(b"line %d\n" % number for number in range(100_000))
    shown = difference(left, left.replace(b"5", b"x" * 500), WITHOUT_KEYS).split("\n")
    assert (len(shown), shown[-1]) == (LINES + 1, "… and more lines")
    [only] = [line for line in difference(left, left + b"end\n", WITHOUT_KEYS).split("\n") if line[:1] == "+"][1:]
    assert only == "+end"


# --- what is found beside ---------------------------------------------------------------------------------------------


@given(st.text(min_size=1).filter(lambda name: "/" not in name))
@settings(max_examples=50)
def test_names_beside_are_known_as_such_for_their_file_only(name: str) -> None:
    beside = new_name(name)
    assert is_new_name(beside, name)
    assert is_unfinished(unfinished_name(beside), name)
    assert not is_unfinished(beside, name)
    assert not is_new_name(unfinished_name(beside), name)
    assert not is_new_name(beside, f"{name}x")
    assert not is_new_name(name, name)


def test_what_is_found_beside_is_removed_only_if_it_is_known(file: Path, operation: RunningOperation) -> None:
    entry = replace(operation, look(file), NEW)
    known = [file.with_name(new_name("policy")) for _ in range(2)]
    for path, data in zip(known, (OLD, NEW), strict=True):
        path.write_bytes(data)
    part = file.with_name(unfinished_name(new_name("policy")))
    part.write_bytes(b"Def")
    foreign = file.with_name(new_name("policy"))
    foreign.write_bytes(THEIRS)
    link = file.with_name(new_name("policy"))
    link.symlink_to("policy")
    file.with_name(new_name("another")).write_bytes(OLD)
    left = clean_up(recorded([entry, entry]))
    assert set(left.removed) == {*known, part}
    assert set(left.foreign) == {foreign, link}
    assert len(names(file.parent)) == 4
    assert (file.read_bytes(), foreign.read_bytes()) == (NEW, THEIRS)


def test_the_images_of_a_file_are_read_only_to_compare_them(file: Path) -> None:
    def read() -> list[FileImage]:
        raise AssertionError("read without need")

    part = file.with_name(unfinished_name(new_name("policy")))
    part.write_bytes(b"Def")
    assert clean_up({file: read}).removed == (part,)
    file.with_name(new_name("policy")).write_bytes(OLD)
    with pytest.raises(AssertionError, match="without need"):
        clean_up({file: read})


def test_what_another_run_is_writing_is_left_alone(file: Path, operation: RunningOperation) -> None:
    entry = replace(operation, look(file), NEW)
    part = unfinished_name(new_name("policy"))
    folder = os.open(file.parent, os.O_RDONLY)
    descriptor = create(folder, part)
    assert clean_up(recorded([entry])).removed == ()
    os.close(descriptor)
    assert clean_up(recorded([entry])).removed == (file.with_name(part),)
    os.close(folder)


def test_a_folder_that_is_gone_has_nothing_left_over(operation: RunningOperation) -> None:
    assert clean_up(recorded([operation.record_file(FileImage("/no/such/folder/file", OLD, NEW))])).removed == ()


def test_a_left_over_that_cannot_be_removed_is_an_error(
    file: Path, operation: RunningOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = replace(operation, look(file), NEW)
    file.with_name(new_name("policy")).write_bytes(OLD)

    def unlink(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(FileError, match="cannot be cleaned up: Read-only"):
        clean_up(recorded([entry]))
