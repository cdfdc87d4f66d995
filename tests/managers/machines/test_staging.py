"""A new file waits beside the old one until it is put in place, or leaves nothing behind; on both kinds of hosts."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ibkeys.errors import FileChanged, FileError
from ibkeys.host.replacing.conversions import FileConversions
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.managers.machines.machine import Machine
from ibkeys.store.journal import Journal, RunningOperation
from tests.managers.machines.there import NEW, OLD, There, cutting, names
from tests.owners import give_away

HIDDEN = FileConversions(lambda data: data.upper(), lambda data: data.lower())


def test_it_takes_its_place_when_it_is_put(machine: Machine, journal: Journal, file: Path) -> None:
    give_away(file)
    before = file.stat()
    with journal.operation("test") as operation, machine.stage(operation, machine.look(file), NEW) as staged:
        assert file.read_bytes() == OLD
        [beside] = [each for each in file.parent.iterdir() if each != file]
        status = beside.stat()
        assert beside.read_bytes() == NEW
        assert (status.st_mode, status.st_uid, status.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        assert (staged.entry.status, staged.entry.image.before, staged.entry.image.host) == (
            "pending",
            OLD,
            machine.name,
        )
        staged.put()
        assert file.read_bytes() == NEW
    assert names(file.parent) == [file.name]
    assert staged.entry.status == "pending"


def test_what_is_not_put_is_gone_and_has_failed(machine: Machine, journal: Journal, file: Path) -> None:
    before = file.stat()
    with journal.operation("test") as operation:
        with machine.stage(operation, machine.look(file), NEW) as staged:
            pass
        with pytest.raises(KeyError), machine.stage(operation, machine.look(file), NEW):
            raise KeyError
    after = file.stat()
    assert (after.st_ino, after.st_mtime_ns, file.read_bytes()) == (before.st_ino, before.st_mtime_ns, OLD)
    assert names(file.parent) == [file.name]
    assert staged.entry.status == "failed"
    with machine.stage(operation, machine.look(file), NEW) as again:
        again.put()
    assert file.read_bytes() == NEW


def test_rights_are_taken_away_and_keys_stay_out_of_the_journal(machine: Machine, journal: Journal, file: Path) -> None:
    seen = machine.look(file)
    with journal.operation("test") as operation:
        with machine.stage(operation, seen, NEW, conversions=HIDDEN, rights=0o600) as staged:
            staged.put()
        with (
            pytest.raises(FileError, match="would give more rights"),
            machine.stage(operation, machine.look(file), OLD, rights=0o644),
        ):
            pass
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (staged.entry.image.before, staged.entry.image.after) == (OLD.upper(), NEW.upper())


def edit_and_put(machine: Machine, operation: RunningOperation, seen: SeenFile, theirs: bytes) -> None:
    """Let somebody else write the file while the new one waits."""
    with machine.stage(operation, seen, NEW) as staged:
        seen.path.write_bytes(theirs)
        staged.put()


@pytest.mark.parametrize("moment", ["before", "waiting"])
def test_somebody_elses_edit_is_not_lost(machine: Machine, journal: Journal, file: Path, moment: str) -> None:
    theirs = b"theirs\n"
    seen = machine.look(file)
    if moment == "before":
        file.write_bytes(theirs)
    with journal.operation("test") as operation, pytest.raises(FileChanged, match="another user or program changed it"):
        edit_and_put(machine, operation, seen, theirs)
    assert file.read_bytes() == theirs
    assert names(file.parent) == [file.name]
    [entry] = journal.files(1)
    assert entry.status == "failed"


def test_two_files_may_wait_on_this_host_and_one_on_another(machine: Machine, journal: Journal, file: Path) -> None:
    other = file.with_name("other.conf")
    other.write_bytes(OLD)
    with journal.operation("test") as operation, machine.stage(operation, machine.look(file), NEW) as first:
        if machine.name:
            with (
                pytest.raises(FileError, match="only one file of that host can wait"),
                machine.stage(operation, machine.look(other), NEW),
            ):
                pass
        else:
            with machine.stage(operation, machine.look(other), NEW) as second:
                second.put()
        first.put()
    assert [file.read_bytes(), other.read_bytes()] == [NEW, OLD if machine.name else NEW]
    assert names(file.parent) == sorted([file.name, other.name])


@pytest.mark.parametrize("whole", [True, False])
def test_a_connection_that_is_cut_anywhere_leaves_the_old_or_the_new_file(
    tmp_path: Path, journal: Journal, file: Path, whole: bool
) -> None:
    there = There(tmp_path / "there")
    found = set()
    for number in range(1, 100):
        file.write_bytes(OLD)
        try:
            with there.machine(cutting(number, whole)) as host, journal.operation("test") as operation:
                with host.stage(operation, host.look(file), NEW * 1000) as staged:
                    staged.put()
                break
        except ConnectionResetError:
            pass
        now = file.read_bytes()
        found.add(now)
        assert names(file.parent) == [file.name]
        if operation.id is not None:
            assert now == OLD or journal.files(operation.id)[0].status == "pending"
    assert number > 5
    assert found == ({OLD, NEW * 1000} if whole else {OLD})
