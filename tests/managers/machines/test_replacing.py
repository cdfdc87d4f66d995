"""A file of an SM's host is replaced whole or not at all, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.errors import FileChanged, FileError
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.machines.other_host import OtherHost
from ibkeys.managers.machines.writer import CHUNK
from ibkeys.store.journal import FileImage, Journal
from tests.managers.machines.there import NEW, OLD, There, names, put
from tests.owners import give_away
from tests.store.journaled import recorded


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)), b"! failed\n.\n", b"y" * (CHUNK + 1), b"\0" * CHUNK])
def test_every_byte_arrives(machine: Machine, journal: Journal, file: Path, data: bytes) -> None:
    entry = put(machine, journal, file, data)
    assert file.read_bytes() == data
    image = FileImage(str(file), OLD, data, 0o640, os.getuid(), os.getgid(), host=machine.name)
    assert (entry.image, names(file.parent)) == (image, [file.name])


def test_owner_mode_and_attributes_stay_and_the_time_is_new(machine: Machine, journal: Journal, file: Path) -> None:
    give_away(file)
    os.setxattr(file, "user.note", b"a\0b")
    os.utime(file, ns=(7, 7))
    before = file.stat()
    put(machine, journal, file, NEW)
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.getxattr(file, "user.note") == b"a\0b"
    assert after.st_ino != before.st_ino
    assert after.st_mtime_ns > 7


def test_a_read_only_file_keeps_its_mode(machine: Machine, journal: Journal, file: Path) -> None:
    file.chmod(0o444)
    put(machine, journal, file, NEW)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (NEW, 0o444)


def test_a_file_is_made_and_removed(machine: Machine, journal: Journal, file: Path) -> None:
    path = file.with_name("other.conf")
    put(machine, journal, path, NEW, 0o604)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode), path.stat().st_nlink) == (NEW, 0o604, 1)
    put(machine, journal, path, None)
    assert names(file.parent) == [file.name]
    put(machine, journal, path, None)


def written(file: Path) -> None:
    file.write_bytes(b"theirs\n" * 99)


def swapped(file: Path) -> None:
    other = file.with_name("other")
    shutil.copy2(file, other)
    other.rename(file)


def same_size(file: Path) -> None:
    status = file.stat()
    file.write_bytes(OLD.replace(b"o", b"0"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def linked(file: Path) -> None:
    file.rename(file.with_name("real"))
    file.symlink_to("real")


CHANGED, GONE = "another user or program changed it", "another user or program changed it|cannot be examined"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (written, CHANGED),
        (swapped, CHANGED),
        (same_size, CHANGED),
        (lambda file: file.chmod(0o600), CHANGED),
        (linked, GONE),
        (os.unlink, GONE),
    ],
)
@pytest.mark.parametrize("data", [NEW, None])
def test_what_somebody_else_did_meanwhile_stays(
    machine: Machine, journal: Journal, file: Path, change: Callable[[Path], None], words: str, data: bytes | None
) -> None:
    seen = machine.look(file)
    change(file)
    theirs = file.read_bytes() if file.exists() else None
    with journal.operation("apply") as operation:
        with pytest.raises(FileChanged if words == CHANGED else FileError, match=words):
            machine.replace(operation, seen, data)
        entries = [] if operation.id is None else journal.files(operation.id)
        assert [entry.status for entry in entries] == ["failed"] * len(entries)
        assert entries or words == GONE
    assert (file.read_bytes() if file.exists() else None) == theirs
    assert not [name for name in names(file.parent) if "ibkeys" in name]


def test_a_file_that_came_meanwhile_stays(machine: Machine, journal: Journal, file: Path) -> None:
    path = file.with_name("new")
    seen = machine.look(path)
    path.write_bytes(b"theirs")
    with journal.operation("apply") as operation, pytest.raises(FileChanged):
        machine.replace(operation, seen, NEW)
    assert (path.read_bytes(), names(file.parent)) == (b"theirs", ["new", file.name])


def test_what_hinders_is_found_before_anything_is_written(machine: Machine, journal: Journal, file: Path) -> None:
    os.link(file, file.with_name("other"))
    with journal.operation("apply") as operation, pytest.raises(FileError, match="hard links"):
        machine.replace(operation, machine.look(file), NEW)
    assert operation.id is None


def test_a_file_that_is_too_long_for_a_host_is_not_begun(host: OtherHost, journal: Journal, file: Path) -> None:
    with journal.operation("apply") as operation, pytest.raises(FileError, match="more than 32 MiB"):
        host.replace(operation, host.look(file), b"x" * (32 << 20) + b"x")
    assert operation.id is None


@pytest.mark.parametrize("tool", ["mv", "cp", "base64", "sha256sum", "touch"])
def test_a_command_that_fails_leaves_the_old_file(there: There, journal: Journal, file: Path, tool: str) -> None:
    with there.machine() as host, journal.operation("apply") as operation:
        seen = host.look(file)
        there.tool(tool, f"echo '{tool}: No space left on device' >&2; exit 1")
        with pytest.raises(FileError) as caught:
            host.replace(operation, seen, NEW)
        assert not caught.value.is_replaced
        assert str(caught.value).startswith(f"sm2: {file}: cannot be replaced: ")
        assert str(caught.value).endswith("it is unchanged")
        assert (file.read_bytes(), names(file.parent)) == (OLD, [file.name])


def test_a_signal_at_the_end_leaves_nothing_beside(there: There, file: Path) -> None:
    at_its_end = "\nclear() {"
    assert there.plain.count(at_its_end) == 1
    there.plain = there.plain.replace(at_its_end, f"{at_its_end} kill -s TERM $$\n")
    with there.machine() as host:
        host.writer.ask("begin", "0" * 16, path=file)
        assert len(names(file.parent)) == 2
    assert names(file.parent) == [file.name]


def test_a_folder_that_is_not_synced_is_told(there: There, journal: Journal, file: Path) -> None:
    there.tool("sync", f'[ "$2" != {file.parent} ] || {{ echo no >&2; exit 1; }}')
    with there.machine() as host, journal.operation("apply") as operation:
        with pytest.raises(FileError, match="the change was made") as caught:
            host.replace(operation, host.look(file), NEW)
        assert caught.value.is_replaced
        assert operation.id is not None
        assert [entry.status for entry in journal.files(operation.id)] == ["pending"]
    assert file.read_bytes() == NEW


def test_a_copy_that_lost_its_mode_does_not_get_into_place(there: There, journal: Journal, file: Path) -> None:
    there.tool("cp", 'chmod 0644 "$5"')
    with there.machine() as host, journal.operation("apply") as operation:
        seen = host.look(file)
        with pytest.raises(FileError, match="cannot be given owner, mode, ACL or label"):
            host.replace(operation, seen, NEW)
    assert (file.read_bytes(), names(file.parent)) == (OLD, [file.name])


# --- what is left -----------------------------------------------------------------------------------------------------


def test_left_overs_of_runs_that_ended_go_and_nothing_else(host: OtherHost, journal: Journal, file: Path) -> None:
    entry = put(host, journal, file, NEW)
    gone, alive, digits = 99_999_999, os.getpid(), "0123456789abcdef"
    made = {
        f".{file.name}.ibkeys-{gone}-{digits}.part": b"half",
        f".{file.name}.ibkeys-{gone}-{digits}": OLD,
        f".{file.name}.ibkeys-{gone}-{digits[::-1]}": b"theirs",
        f".{file.name}.ibkeys-{alive}-{digits}.part": b"at work",
        f".{file.name}.ibkeys-{gone}-{digits}0": OLD,
        f".{file.name}.ibkeys-{gone}-{digits}.bak": OLD,
        f".x{file.name}.ibkeys-{gone}-{digits}.part": OLD,
    }
    for name, data in made.items():
        file.with_name(name).write_bytes(data)
    everything = list(made)
    left = host.clean_up(recorded([entry, entry]))
    assert sorted(left.removed) == sorted(file.with_name(name) for name in everything[:2])
    assert left.foreign == (file.with_name(everything[2]),)
    assert names(file.parent) == sorted([file.name, *everything[2:]])


def test_a_folder_that_is_not_there_has_nothing_left_over(host: OtherHost, journal: Journal, file: Path) -> None:
    with journal.operation("apply") as operation:
        entry = operation.record_file(FileImage(str(file.parent / "none" / "x"), OLD, NEW, host="sm2"))
        assert host.clean_up(recorded([entry])).removed == ()
