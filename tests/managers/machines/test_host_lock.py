"""The lock beside an OpenSM's options file, on both kinds of hosts: taken, held, stale, and what else may lie there."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

from ibkeys.errors import FileError, HostNotReached
from ibkeys.host.host_lock import LONGEST, FoundLock, find_lock, lock_file
from ibkeys.host.lock_holder import LockHolder, holder_in_words
from ibkeys.managers.machines.machine import Machine, TakenLock
from ibkeys.store.journal import Journal
from tests.managers.machines.there import NEW, Here, There, names, opensm, put
from tests.store.journaled import recorded

MINE = LockHolder("root", "a", "apply", "2026-11-26T12:01:05Z", 123, "0" * 32).line()
THEIRS = LockHolder("bert", "b", "harden", "2026-11-26T12:02:00Z", 124, "1" * 32).line()


def taken(machine: Machine, path: Path, text: bytes = MINE, over: bytes | None = None) -> TakenLock:
    lock = machine.take_lock(path, text, over)
    assert lock is not None
    assert not isinstance(lock, FoundLock)
    return lock


def test_a_lock_lies_beside_while_it_is_held(machine: Machine, file: Path) -> None:
    lock = taken(machine, file)
    beside = lock_file(file)
    assert names(file.parent) == sorted([beside.name, file.name])
    assert (beside.read_bytes(), beside.stat().st_mode & 0o7777) == (MINE, 0o600)
    assert find_lock(file) == FoundLock(MINE, True)
    lock.release()
    assert names(file.parent) == [file.name]
    taken(machine, file, THEIRS).release()


def test_who_comes_second_is_told_who_holds_it(side: Here | There, file: Path) -> None:
    with side.machine() as first, side.machine() as second, Here(file.parent.parent / "here").machine() as here:
        lock = taken(first, file)
        for each in (second, here):
            for over in (None, MINE):
                assert each.take_lock(file, THEIRS, over) == FoundLock(MINE, True)
        lock.release()
        taken(second, file, THEIRS)
        assert first.take_lock(file, MINE) == FoundLock(THEIRS, True)
        assert here.take_lock(file, MINE) == FoundLock(THEIRS, True)


def test_one_that_this_host_holds_is_held_for_the_other(there: There, file: Path, tmp_path: Path) -> None:
    with Here(tmp_path / "here").machine() as here, there.machine() as host:
        lock = taken(here, file)
        assert host.take_lock(file, THEIRS) == FoundLock(MINE, True)
        lock.release()
        taken(host, file, THEIRS).release()


def test_a_stale_one_is_taken_over_where_it_is_the_one_that_was_seen(machine: Machine, file: Path) -> None:
    lock_file(file).write_bytes(THEIRS)
    assert machine.take_lock(file, MINE) == FoundLock(THEIRS, False)
    assert machine.take_lock(file, MINE, MINE) == FoundLock(THEIRS, False)
    assert lock_file(file).read_bytes() == THEIRS
    lock = taken(machine, file, MINE, THEIRS)
    assert find_lock(file) == FoundLock(MINE, True)
    lock.release()
    assert find_lock(file) is None


def test_the_end_of_the_connection_frees_it_and_leaves_the_file(there: There, file: Path) -> None:
    with there.machine() as host:
        taken(host, file)
        assert find_lock(file) == FoundLock(MINE, True)
    assert find_lock(file) == FoundLock(MINE, False)
    assert names(file.parent) == sorted([lock_file(file).name, file.name])


@pytest.mark.parametrize("when", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_killed_leaves_it_stale(there: There, file: Path, when: signal.Signals) -> None:
    with there.machine() as host:
        lock = taken(host, file)
        process = host.writer.conversation.channel.process
        process.send_signal(when)
        process.wait()
        assert find_lock(file) == FoundLock(MINE, False)
        with pytest.raises(HostNotReached):
            lock.release()


def test_a_process_that_is_killed_leaves_it_stale(file: Path) -> None:
    code = (
        "import sys, os, signal; from pathlib import Path; from ibkeys.host.host_lock import take_lock\n"
        "take_lock(Path(sys.argv[1]), os.fsencode(sys.argv[2])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, file, MINE.decode()])
    assert done.returncode == -signal.SIGKILL
    assert find_lock(file) == FoundLock(MINE, False)


def test_a_guard_does_not_hold_it(there: There, file: Path, journal: Journal) -> None:
    with there.machine() as host, opensm() as (process, _):
        lock = taken(host, file)
        guard = host.guard(600)
        guard.start(host.look(file), process)
        writer = host.writer.conversation.channel.process
        writer.kill()
        writer.wait()
        assert find_lock(file) == FoundLock(MINE, False)
        with pytest.raises(HostNotReached):
            lock.release()
    with there.machine() as host:
        assert host.confirm_guard(guard.token)


def test_three_of_one_host_and_no_more(there: There, file: Path) -> None:
    paths = [file.with_name(f"opensm-{number}.conf") for number in range(4)]
    with there.machine() as host:
        locks = [taken(host, path) for path in paths[:3]]
        with pytest.raises(FileError, match=f"^sm2: {lock_file(paths[3])}: .*three locks"):
            host.take_lock(paths[3], MINE)
        locks[1].release()
        locks[1] = taken(host, paths[3])
        for lock in locks:
            lock.release()
    assert names(file.parent) == [file.name]


def test_files_are_replaced_and_cleaned_up_beside_it(machine: Machine, journal: Journal, file: Path) -> None:
    lock = taken(machine, file)
    entry = put(machine, journal, file, NEW)
    assert machine.clean_up(recorded([entry])) == type(machine.clean_up({}))()
    assert file.read_bytes() == NEW
    lock.release()
    assert names(file.parent) == [file.name]


def test_what_an_interrupted_one_left_beside_is_removed(machine: Machine, file: Path) -> None:
    left = file.with_name(f".{lock_file(file).name}.ibkeys-99999999-{'a' * 16}.part")
    other = file.with_name(f".{file.name}.ibkeys-99999999-{'a' * 16}.part")
    for each in (left, other):
        each.write_bytes(MINE)
    taken(machine, file).release()
    assert names(file.parent) == sorted([file.name, other.name])


@pytest.mark.parametrize("name", ["with blank.conf", "-dash", "quo'te\"$(x)`y`", "ü", "$(touch x)*"])
def test_any_name(machine: Machine, file: Path, name: str) -> None:
    path = file.with_name(name)
    lock = taken(machine, path)
    assert find_lock(path) == FoundLock(MINE, True)
    lock.release()
    assert names(file.parent) == [file.name]


# --- what else may lie there ------------------------------------------------------------------------------------------


def socket_at(path: Path) -> None:
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as made:  # the whole path may be too long for a socket
        made.bind(path.name)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda path: path.symlink_to(path.with_name("partitions.conf")), "a symbolic link"),
        (lambda path: path.symlink_to("/no/such/file"), "a symbolic link"),
        (os.mkfifo, "a FIFO"),
        (Path.mkdir, "a directory"),
        (socket_at, "a socket"),
    ],
)
def test_what_is_not_a_file_is_refused(machine: Machine, file: Path, make: Callable[[Path], None], what: str) -> None:
    make(lock_file(file))
    before = names(file.parent), file.read_bytes()
    at_host = f"{machine.name}: " if machine.name else ""
    words = "is not a regular file" if machine.name else what
    for over in (None, MINE):
        with pytest.raises(FileError, match=f"^{at_host}{lock_file(file)}: .*{words}"):
            machine.take_lock(file, MINE, over)
    assert (names(file.parent), file.read_bytes()) == before


def test_a_large_one_is_read_up_to_a_limit(machine: Machine, file: Path) -> None:
    with lock_file(file).open("wb") as large:
        large.truncate(100 << 20)
    found = machine.take_lock(file, MINE)
    assert found == FoundLock(bytes(LONGEST), False)
    taken(machine, file, MINE, bytes(LONGEST)).release()


def test_a_hard_link_is_taken_over_without_writing_it(machine: Machine, file: Path) -> None:
    victim = file.with_name("victim")
    victim.write_bytes(THEIRS)
    os.link(victim, lock_file(file))
    taken(machine, file, MINE, THEIRS).release()
    assert victim.read_bytes() == THEIRS


@pytest.mark.parametrize(
    "text", [b"", b"\0\xff\x1b[2J\n", b"x" * 9000, MINE.replace(b"root", b"\x1b[31m"), MINE + MINE]
)
def test_any_text_is_shown_without_control_characters(machine: Machine, file: Path, text: bytes) -> None:
    lock_file(file).write_bytes(text)
    found = machine.take_lock(file, MINE)
    assert found == FoundLock(text[:LONGEST], False)
    assert LockHolder.read(text) is None
    words = holder_in_words(text)
    assert words.isprintable()
    assert len(words) < 200
    assert words.startswith("an unknown holder")


def test_one_that_somebody_put_in_its_place_stays(machine: Machine, file: Path) -> None:
    lock = taken(machine, file)
    lock_file(file).unlink()
    lock_file(file).write_bytes(THEIRS)
    lock.release()
    assert find_lock(file) == FoundLock(THEIRS, False)


def test_one_that_somebody_removed_is_released(machine: Machine, file: Path) -> None:
    lock = taken(machine, file)
    lock_file(file).unlink()
    lock.release()
    assert names(file.parent) == [file.name]


# --- where none can be made -------------------------------------------------------------------------------------------


def test_there_is_none_in_a_folder_that_is_not_there(machine: Machine, file: Path) -> None:
    for path in (file.parent / "no" / "opensm.conf", file / "opensm.conf"):
        assert machine.take_lock(path, MINE) is None
        assert find_lock(path) is None


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_there_is_none_in_a_folder_that_may_not_be_written(
    there: There, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, "no")

    there.plain = there.plain.replace('[ -w "$folder" ] && [ -x "$folder" ]; then return "$FREE"', "false; then return")
    monkeypatch.setattr("ibkeys.host.replacing.new_file.create", refuse)
    with there.machine() as host, Here(tmp_path / "here").machine() as here:
        for machine in (host, here):
            assert machine.take_lock(file, MINE) is None
            lock_file(file).write_bytes(THEIRS)
            assert machine.take_lock(file, MINE) == FoundLock(THEIRS, False), "what lies there is told all the same"
            lock_file(file).unlink()
    assert names(file.parent) == [file.name]


def test_a_host_without_flock_is_told(there: There, file: Path) -> None:
    there.tools.mkdir(exist_ok=True)
    there.plain = there.plain.replace("command -v flock", "command -v no-such-flock")
    with there.machine() as host, pytest.raises(FileError, match=r"^sm2: .*flock, of util-linux, is not there"):
        host.take_lock(file, MINE)
    assert names(file.parent) == [file.name]


@pytest.mark.parametrize("step", ["chmod", "ln", "sync", "base64"])
def test_a_step_that_fails_leaves_nothing(there: There, file: Path, step: str) -> None:
    there.tool(step, "echo no >&2; exit 1")
    with there.machine() as host:
        with pytest.raises(FileError, match=f"^sm2: {lock_file(file)}: the lock cannot be taken"):
            host.take_lock(file, MINE)
        (there.tools / step).unlink()
        taken(host, file).release()
    assert names(file.parent) == [file.name]


def test_a_line_says_who_and_since_when() -> None:
    holder = LockHolder("root (login\tanna)", "ä\n", "mkey-rotate", "2026-11-26T12:01:05Z", 7, "a" * 32)
    read = LockHolder.read(holder.line())
    assert read is not None
    assert (read.command, read.process, read.journal) == ("mkey-rotate", 7, "a" * 32)
    assert len(LockHolder("u" * 999, "h" * 999, "c" * 99, "2026-11-26T12:01:05Z", 7, "a" * 32).line()) < 300
    assert holder_in_words(MINE) == "root at a, by `apply` since 2026-11-26 12:01:05 UTC, process 123"


DYING = """
import os, sys, fcntl, signal
from pathlib import Path
from ibkeys.host.host_lock import take_lock
left = int(sys.argv[3])
def dying(call):
    def made(*given, **named):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*given, **named)
    return made
for place, name in ((os, "open"), (os, "write"), (os, "link"), (os, "unlink"), (os, "fsync"), (fcntl, "flock")):
    setattr(place, name, dying(getattr(place, name)))
take_lock(Path(sys.argv[1]), os.fsencode(sys.argv[2])).release()
"""


def test_whoever_dies_anywhere_in_it_leaves_what_the_next_one_clears(file: Path) -> None:
    found = set()
    for number in range(30):
        done = subprocess.run([sys.executable, "-c", DYING, file, MINE.decode(), str(number)], check=False)
        left = find_lock(file)
        assert left in (None, FoundLock(MINE, False)), "never one that is empty"
        found.add(left)
        with Here(file.parent.parent / str(number)).machine() as here:
            taken(here, file, THEIRS, MINE).release()
        assert names(file.parent) == [file.name]
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert number > 8
    assert found == {None, FoundLock(MINE, False)}
