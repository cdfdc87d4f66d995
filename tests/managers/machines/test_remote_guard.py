"""Who goes back on another host when no user confirms: by itself, once, and only over what was written by ibkeys."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.errors import HostNotReached, HostRefused
from ibkeys.managers.machines import remote_guard, writer
from ibkeys.managers.machines.other_host import OtherHost
from ibkeys.managers.machines.remote_guard import RemoteGuard
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.store.journal import Journal
from tests.managers.machines.conftest import SHELLS
from tests.managers.machines.there import Held, There, heard, opensm
from tests.sample import SOAK, in_soak

PROGRAM = writer.program()
OLD, NEW, NEWER, THEIRS = b"old\n\0" * 20_000, b"new\n", b"newer\n", b"theirs\n"


@pytest.fixture(params=[SHELLS[0], *map(in_soak, SHELLS[1:])])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> There:
    there = There(tmp_path / "there", request.param)
    there.plain = there.plain.replace("/bin/sh ", f"{request.param} ")
    return there


@pytest.fixture(autouse=True)
def _the_program_of_the_test(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "program", there.program)
    monkeypatch.setattr("ibkeys.managers.machines.other_host.folder_hindrance", lambda *_: None)


@pytest.fixture(autouse=True)
def _old(file: Path) -> None:
    file.write_bytes(OLD)


def began(host: OtherHost, file: Path, process: OpensmProcess, seconds: float) -> tuple[RemoteGuard, Held]:
    guard = host.guard(seconds)
    assert guard.start(host.look(file), process) == guard.token
    return guard, Held(guard.pid)


def put(host: OtherHost, journal: Journal, file: Path, data: bytes | None) -> None:
    with journal.operation("apply") as operation:
        host.replace(operation, host.look(file), data)


def wrote(
    host: OtherHost, journal: Journal, file: Path, process: OpensmProcess, seconds: float
) -> tuple[RemoteGuard, Held]:
    """Write `NEW` under a guard that goes back after so many *seconds*."""
    guard, held = began(host, file, process, seconds)
    guard.announce(NEW)
    put(host, journal, file, NEW)
    return guard, held


def nobody_confirms(host: OtherHost, journal: Journal, file: Path, process: OpensmProcess) -> None:
    """Write `NEW` under a guard, and wait until that has gone back."""
    guard, held = wrote(host, journal, file, process, 0)
    guard.start_time_limit()
    held.ended()


def is_clean(there: There, file: Path) -> bool:
    return list(there.rooms.iterdir()) == [] and len(list(file.parent.iterdir())) <= 1


def test_when_the_time_is_over_the_former_file_is_there_and_opensm_knows(
    there: There, file: Path, journal: Journal
) -> None:
    with opensm() as (process, running), there.machine() as host:
        guard, held = began(host, file, process, 0)
        for text in (NEW, NEWER):
            guard.announce(text)
            put(host, journal, file, text)
            guard.keep_alive()
        guard.start_time_limit()
        held.ended()
        assert (file.read_bytes(), file.stat().st_mode & 0o777) == (OLD, 0o640)
        assert heard(running) == b"hup\n"
        assert is_clean(there, file)
        assert not guard.confirm(), "it is too late"
        assert not guard.end()
        with pytest.raises(HostRefused, match="not there any more"):
            guard.start_time_limit()
        with pytest.raises(HostRefused, match="not there any more"):
            guard.announce(NEW)


def open_pipes(host: OtherHost) -> set[str]:
    """Return the tokens of the guards whose pipes the program on the host holds open."""
    host.users()  # it has finished the question before
    pid = host.writer.conversation.channel.process.pid
    open_files = [each.readlink() for each in Path(f"/proc/{pid}/fd").iterdir()]
    return {each.parent.name for each in open_files if each.name == "cut"}


def test_each_of_several_guards_on_a_host_hears_its_own_words(there: There, file: Path, journal: Journal) -> None:
    others = [file.with_name(name) for name in ("second.conf", "third.conf")]
    for each in others:
        each.write_bytes(OLD)
    with opensm() as (process, _), there.machine() as host:
        (first, first_held), (second, second_held), (third, third_held) = (
            wrote(host, journal, each, process, 0) for each in (file, *others)
        )
        assert open_pipes(host) == {first.token, second.token, third.token}
        with pytest.raises(HostRefused, match="no guard can be started: three guards"):
            host.guard(0).start(host.look(file), process)
        first.start_time_limit()
        first_held.ended()
        assert open_pipes(host) == {second.token, third.token}
        assert second.confirm()
        second_held.ended()
        third.start_time_limit()
        third_held.ended()
        assert open_pipes(host) == set()
    assert [each.read_bytes() for each in (file, *others)] == [OLD, NEW, OLD]


def test_nobody_else_can_look_into_its_directory(there: There, file: Path) -> None:
    with opensm() as (process, _), there.machine() as host:
        guard, held = began(host, file, process, 1000)
        [room] = there.rooms.iterdir()
        assert (room.name, room.stat().st_mode & 0o777) == (guard.token, 0o700)
        assert all(not each.stat().st_mode & 0o077 for each in room.iterdir())
        assert guard.end()
        held.ended()


@pytest.mark.parametrize("way", ["confirm", "end", "another connection"])
@pytest.mark.parametrize("is_waiting", [True, False])
def test_who_confirms_in_time_keeps_what_was_written(
    there: There, file: Path, journal: Journal, way: str, is_waiting: bool
) -> None:
    with opensm() as (process, _), there.machine() as host:
        guard, held = wrote(host, journal, file, process, 1000)
        if is_waiting:
            guard.start_time_limit()
        if way == "another connection":
            with there.machine() as other:
                assert other.confirm_guard(guard.token)
                assert not other.confirm_guard(guard.token), "it is done"
            assert not guard.confirm()
        else:
            assert getattr(guard, way)()
        assert is_clean(there, file)
        if is_waiting or way != "another connection":
            held.ended()
        assert file.read_bytes() == NEW
    if not is_waiting and way == "another connection":
        held.ended()
        assert file.read_bytes() == NEW


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_connection_that_dies_without_a_word_is_gone_back_from(
    there: There, file: Path, journal: Journal, is_waiting: bool
) -> None:
    with opensm() as (process, running):
        with there.machine() as host:
            guard, held = wrote(host, journal, file, process, 1 if is_waiting else 0)
            if is_waiting:
                guard.start_time_limit()
            host.writer.conversation.channel.process.kill()
        held.ended()
        assert file.read_bytes() == OLD
        assert heard(running) == b"hup\n"
        assert is_clean(there, file)


def test_a_network_so_dead_that_nobody_notices_is_gone_back_from(there: There, file: Path, journal: Journal) -> None:
    over = there.tools / "over"
    until = f"until [ -e {over} ]; do sleep 0.05; done; exit 124"
    there.tool("timeout", f'if [ "$1" = {remote_guard.QUIET_SECONDS} ]; then {until}; fi; shift; exec "$@"')
    with opensm() as (process, running), there.machine() as host:
        guard, held = wrote(host, journal, file, process, 0)
        over.touch()
        held.ended()
        assert file.read_bytes() == OLD
        assert heard(running) == b"hup\n"
        with pytest.raises(HostRefused):
            guard.start_time_limit()


@pytest.mark.parametrize(
    ("change", "left", "hears"),
    [
        (lambda file: file.write_bytes(THEIRS), THEIRS, False),
        (lambda file: file.unlink(), None, False),
        (lambda file: file.write_bytes(OLD), OLD, True),
    ],
)
def test_what_is_not_ours_stays_as_it_is(
    there: There, file: Path, journal: Journal, change: Callable[[Path], object], left: bytes | None, hears: bool
) -> None:
    log = there.tools / "log"
    there.tool("logger", f'printf "%s\\n" "$*" >>{log}')
    with opensm() as (process, running), there.machine() as host:
        guard, held = wrote(host, journal, file, process, 0)
        change(file)
        inode = file.stat().st_ino if file.exists() else None
        guard.start_time_limit()
        held.ended()
        assert (file.read_bytes() if file.exists() else None) == left
        assert (file.stat().st_ino if file.exists() else None) == inode
        said = "is the former one" if hears else "another user or program changed"
        assert said in log.read_text()
        if hears:
            assert heard(running) == b"hup\n", "whoever gave it back may have died before telling OpenSM"
        assert is_clean(there, file)


def test_where_nothing_was_written_nothing_is_done(there: There, file: Path) -> None:
    there.tool("logger", f"touch {there.tools}/log")
    with opensm() as (process, _), there.machine() as host:
        _, held = began(host, file, process, 0)
    held.ended()
    assert (file.read_bytes(), (there.tools / "log").exists()) == (OLD, False)
    assert is_clean(there, file)


def test_a_file_that_was_not_there_is_removed_again(there: There, file: Path, journal: Journal) -> None:
    file.unlink()
    with opensm() as (process, running), there.machine() as host:
        nobody_confirms(host, journal, file, process)
        assert not file.exists()
        assert heard(running) == b"hup\n"


def test_a_file_that_lost_rights_does_not_get_them_back(there: There, file: Path, journal: Journal) -> None:
    with opensm() as (process, _), there.machine() as host, journal.operation("apply") as operation:
        guard, held = began(host, file, process, 0)
        guard.announce(NEW)
        host.replace(operation, host.look(file), NEW, rights=0o600)
        guard.start_time_limit()
        held.ended()
        assert (file.read_bytes(), file.stat().st_mode & 0o777) == (OLD, 0o600)


@pytest.mark.parametrize("name", ["with blank", "-dash", "quo'te\"$(x)`y`", "back\\slash", "*"])
def test_any_name_is_given_back(there: There, file: Path, journal: Journal, name: str) -> None:
    path = file.rename(file.with_name(name))
    with opensm() as (process, _), there.machine() as host:
        nobody_confirms(host, journal, path, process)
        assert path.read_bytes() == OLD


@pytest.mark.parametrize(("comm", "is_told"), [("opensm", True), ("vi", False)])
def test_an_opensm_that_was_started_again_is_told_through_its_unit(
    there: There, file: Path, journal: Journal, comm: str, is_told: bool
) -> None:
    log = there.tools / "log"
    with opensm() as (process, running):
        there.tool("systemctl", f'echo "$2" >>{log}; [ "$2" != show ] || echo MainPID={running.pid}')
        there.tool("cat", f'case $1 in /proc/*/comm) echo {comm} ;; *) exec /bin/cat "$@" ;; esac')
        assert process.ticks is not None
        gone = replace(process, ticks=process.ticks - 1, unit="opensm.service")
        with there.machine() as host:
            nobody_confirms(host, journal, file, gone)
    assert log.read_text().split() == (["show", "kill"] if is_told else ["show"])


def test_a_file_system_that_is_full_is_tried_again(there: There, file: Path, journal: Journal) -> None:
    """The first attempts fail; its own `sleep` passes the time at once."""
    with opensm() as (process, _), there.machine() as host:
        guard, held = wrote(host, journal, file, process, 0)
        tries = there.tools / "tries"
        there.tool("sleep", "exit 0")
        there.tool("mv", f'echo >>{tries}; [ "$(wc -l <{tries})" -gt 5 ] && exec /bin/mv "$@"; exit 1')
        guard.start_time_limit()
        held.ended()
    assert (file.read_bytes(), len(tries.read_text())) == (OLD, 6)
    assert is_clean(there, file)


def test_a_host_without_what_it_needs_starts_none(there: There, file: Path) -> None:
    with opensm() as (process, _), there.machine() as host:
        there.tool("mktemp", "echo 'mktemp: No space left on device' >&2; exit 1")
        with pytest.raises(HostRefused, match="no guard can be started: mktemp: No space left"):
            host.guard(1).start(host.look(file), process)
        assert process.ticks is not None
        with pytest.raises(HostRefused, match="its start time is not known"):
            host.guard(1).start(host.look(file), replace(process, ticks=None))


def test_what_was_not_begun_cannot_be_told(there: There, file: Path) -> None:
    with opensm() as (process, _), there.machine() as host:
        guard = host.guard(1000)
        assert (guard.token, guard.end(), guard.confirm()) == ("", False, False)
        for say in (guard.start_time_limit, guard.keep_alive, lambda: guard.announce(NEW)):
            with pytest.raises(HostRefused, match="was not started"):
                say()
        guard.start(host.look(file), process)
        with pytest.raises(HostRefused, match="already running"):
            guard.start(host.look(file), process)
        assert guard.end()


@pytest.mark.parametrize(
    "token", ["", "x", "../etc", "ibkeys-guard-", "ibkeys-guard-../../x", "ibkeys-guard-a b c d e"]
)
def test_what_is_no_token_is_not_sent_there(there: There, token: str) -> None:
    with there.machine() as host, pytest.raises(HostRefused, match="is not a guard"):
        host.confirm_guard(token)


def test_a_link_is_no_guard(there: There, tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    (there.rooms / "ibkeys-guard-aaaaaaaaaa").symlink_to(tmp_path / "else")
    with there.machine() as host:
        assert not host.confirm_guard("ibkeys-guard-aaaaaaaaaa")
        assert not host.confirm_guard("ibkeys-guard-bbbbbbbbbb")
    assert list((tmp_path / "else").iterdir()) == []


def test_a_confirmation_whose_answer_was_lost_can_be_asked_for_again(there: There, file: Path) -> None:
    there.tool("rm", "kill -9 0")
    there.tool("sleep", "kill -9 $PPID")  # the guard dies, or it might clear up before the second attempt
    with opensm() as (process, _):
        with there.machine() as host:
            guard, held = began(host, file, process, 1000)
            guard.announce(NEW)
            guard.start_time_limit()
            held.ended()
            with pytest.raises(HostNotReached):
                guard.confirm()
        (there.tools / "rm").unlink()
        with there.machine() as host:
            assert host.confirm_guard(guard.token)
    assert is_clean(there, file)


def test_both_sides_have_the_same_longest_silence() -> None:
    assert f"QUIET={remote_guard.QUIET_SECONDS}\n" in PROGRAM


STEPS = ("cat", "cp", "mv", "sync", "rm", "sha256sum", "touch", "stat", "od", "grep", "ln")


def test_a_guard_that_is_killed_anywhere_leaves_the_new_or_the_former_file(
    there: There, file: Path, journal: Journal
) -> None:
    count, last = there.tools / "count", there.tools / "last"
    found = set()
    for step in STEPS:
        real = shutil.which(step, path="/usr/bin:/bin")
        there.tool(
            step,
            f'[ -e {last} ] || exec {real} "$@"; echo >>{count}; '
            f'[ "$(wc -l <{count})" -lt "$(/bin/cat {last})" ] || kill -9 0; exec {real} "$@"',
        )
    with opensm() as (process, _):
        for number in range(1, 100, 1 if SOAK else 5):
            last.unlink(missing_ok=True)
            file.write_bytes(OLD)
            with there.machine() as host:
                guard, held = wrote(host, journal, file, process, 0)
                count.write_text("")
                last.write_text(str(number))
            held.ended()
            found.add(file.read_bytes())
            last.unlink()
            room = there.rooms / guard.token
            if not room.exists():
                break
            shutil.rmtree(room)
            for left in file.parent.glob(".*"):
                assert left.name.endswith(".part")
                left.unlink()
    assert number > 8
    assert found == {OLD, NEW}
