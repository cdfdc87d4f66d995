"""The hands on another host: a file is replaced whole or not at all, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.errors import FileChanged, FileError, HostNotReached, HostRefused
from ibkeys.host.replacing.seen import look
from ibkeys.sm.elsewhere.conversation import Conversation
from ibkeys.sm.elsewhere.remote import RemoteFiles
from ibkeys.sm.elsewhere.ssh import SshHost
from ibkeys.sm.hands import opening
from ibkeys.sm.hands.ground import Ground, hindrance_of
from ibkeys.sm.hands.opening import open_hands
from ibkeys.sm.hands.other_host import OtherHost
from ibkeys.sm.hands.other_root import refuse_other_root
from ibkeys.sm.hands.sm_hands import SmHands
from ibkeys.sm.hands.this_host import THIS
from ibkeys.sm.hands.writer import CHUNK, READY, No, Writer, program
from ibkeys.sm.hosts import SmHost
from ibkeys.store.journal import FileEntry, FileImage, Journal
from tests.sm.hands.there import ENVIRONMENT, There, cutting, heard, opensm
from tests.sm.hosts import MadeUpHost

SHELLS = [shell for shell in ("/bin/dash", "/bin/bash") if shutil.which(shell)]
OLD, NEW = b"old\n" * 100, b"new\n" * 100
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="as root only")


@pytest.fixture(params=SHELLS)
def there(request: pytest.FixtureRequest, tmp_path: Path) -> There:
    return There(tmp_path / "there", request.param)


@pytest.fixture
def host(there: There) -> Iterator[OtherHost]:
    with there.hands() as hands:
        yield hands


@pytest.fixture(autouse=True)
def _old(file: Path) -> None:
    file.write_bytes(OLD)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def put(host: SmHands, journal: Journal, path: Path, data: bytes | None, mode: int = 0o644) -> FileEntry:
    with journal.operation("apply") as operation:
        entry = host.replace(operation, host.look(path), data, mode)
        entry.done()
    return entry


# --- looking ----------------------------------------------------------------------------------------------------------


def test_what_is_seen_is_what_this_host_would_see(host: OtherHost, file: Path) -> None:
    os.utime(file, ns=(1_600_000_000_000_000_007,) * 2)
    (file.parent / "link").symlink_to("partitions.conf")
    ours = look(file)
    assert ours.found is not None
    for path in (file, file.parent / "link", file.parent / ".." / "etc" / "link"):
        assert host.look(path) == replace(ours, found=replace(ours.found, metadata=host.look(file).found.metadata))  # type: ignore[union-attr]
    assert host.look(file.parent / "none").found is None


@pytest.mark.parametrize(
    "name", ["with blank", "-dash", "quo'te\"$(x)`y`", "back\\slash", "*", "a|b", "ü", "trailing "]
)
def test_any_name_is_a_name_and_nothing_else(host: OtherHost, journal: Journal, file: Path, name: str) -> None:
    path = file.parent / name / name
    path.parent.mkdir()
    path.write_bytes(OLD)
    put(host, journal, path, NEW)
    assert path.read_bytes() == NEW
    assert names(path.parent) == [name]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda file: file.symlink_to("none"), "a symbolic link to .*none, which is not there"),
        (lambda file: file.symlink_to(file.name), "in a circle"),
        (lambda file: file.mkdir(), "no regular file"),
        (os.mkfifo, "no regular file"),
    ],
)
def test_what_cannot_be_a_policy_is_refused(
    host: OtherHost, file: Path, make: Callable[[Path], None], words: str
) -> None:
    file.unlink()
    make(file)
    with pytest.raises(FileError, match=words):
        host.look(file)


def test_names_that_cannot_be_asked_for(host: OtherHost, file: Path) -> None:
    for path, words in (
        (Path("relative"), "relative to nothing"),
        (file.parent / "no" / "file", "is not there"),
        (file.parent / "new\nline", "cannot be asked for"),
    ):
        with pytest.raises(FileError, match=words):
            host.look(path)


@needs_root
def test_a_link_of_another_user_is_refused(host: OtherHost, file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    os.lchown(link, 65534, 65534)
    with pytest.raises(FileError, match=r"symbolic link of another user \(UID 65534\)"):
        host.look(link)


@needs_root
@pytest.mark.soak
@pytest.mark.parametrize("where", ["here", "there"])
def test_a_file_on_mounts_of_a_process_is_not_taken_for_one_of_the_host(
    host: OtherHost, file: Path, tmp_path: Path, where: str
) -> None:
    """/proc/PID/root reads like a link to /: the name leads to a file of the host, with the same path or none."""
    hands: SmHands = THIS if where == "here" else host
    plain = Path(f"/proc/{os.getpid()}/root") / str(file)[1:]
    assert hands.look(plain).path == file
    assert hands.look(plain.with_name("none")).path == file.with_name("none")
    script = f"mount -t tmpfs none {file.parent} && echo theirs >{file} && echo ready && exec cat"
    with subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        inside = Path(f"/proc/{process.pid}/root") / str(file)[1:]
        for path in (inside, inside.with_name("none")):
            with pytest.raises(FileError, match="on mounts of its own"):
                hands.look(path)
        assert process.stdin is not None
        process.stdin.close()
    assert file.read_bytes() == OLD


@pytest.mark.parametrize(("inside", "outside"), [("/etc/p", "/etc/p"), ("/etc/p", None), (None, None)])
def test_what_a_name_means_and_where_it_leads_are_compared(inside: str | None, outside: str | None) -> None:
    made_up, of_process = MadeUpHost("sm2"), Path("/proc/7") / "root" / "etc"
    for folder, path in ((str(of_process), inside), ("/etc", outside)):
        made_up.folder(folder)
        if path is not None:
            made_up.file(f"{folder}/p")
    with pytest.raises(FileError, match=rf"^sm2: {of_process}/p: lies in another root directory"):
        refuse_other_root(made_up, of_process / "p", Path("/etc/p"))
    refuse_other_root(made_up, Path("/etc/p"), Path("/etc/p"))


# --- what hinders -----------------------------------------------------------------------------------------------------


def test_a_plain_file_can_be_replaced_and_nothing_is_written_to_find_that_out(host: OtherHost, file: Path) -> None:
    before = file.parent.stat()
    assert host.hindrance(host.look(file)) is None
    assert host.hindrance(host.look(file.with_name("new"))) is None
    assert file.parent.stat().st_mtime_ns == before.st_mtime_ns
    os.link(file, file.with_name("other"))
    assert "2 names (hard links)" in str(host.hindrance(host.look(file)))
    assert "too long" in str(host.hindrance(host.look(file.with_name("n" * 230))))
    assert "no UTF-8" in str(host.hindrance(host.look(file.with_name(os.fsdecode(b"\xff")))))


GOOD = Ground(0o40755, 0, 1, True, "27", "27", "1 254:0 / / rw,relatime - ext4 /dev/vda rw", "----e---", "----e---")


@pytest.mark.parametrize(
    ("ground", "user", "reason"),
    [
        (GOOD, 0, None),
        (replace(GOOD, own_mount="28"), 0, "is a mount point itself"),
        (replace(GOOD, own_mount="", device=2), 0, "is a mount point itself"),
        (replace(GOOD, own_mount=""), 0, None),
        (replace(GOOD, system="1 0:9 / / rw - overlay overlay rw"), 0, "lies in an overlay"),
        (replace(GOOD, system="1 0:9 / / ro - ext4 x rw"), 0, "read-only file system"),
        (replace(GOOD, system="1 0:9 / / rw shared:1 - ext4 x ro,discard"), 0, "read-only file system"),
        (replace(GOOD, folder_flags="----i---"), 0, "no file may be replaced in /etc"),
        (replace(GOOD, flags="-----a--"), 0, "is marked as immutable or append-only"),
        (replace(GOOD, may_write=False), 5, "no file may be made in /etc by this user"),
        (GOOD, 5, "only root can make a file that belongs to another user"),
        (replace(GOOD, mode=0o41777), 5, "lets only that user replace it"),
    ],
)
def test_what_hinders(file: Path, ground: Ground, user: int, reason: str | None) -> None:
    seen = look(file)
    assert seen.found is not None
    metadata = replace(seen.found.metadata, uid=7 if user else 0)
    seen = replace(seen, path=Path("/etc/p"), found=replace(seen.found, device=1, metadata=metadata))
    answer = hindrance_of(seen, ground, user)
    assert (answer is None) if reason is None else (reason in str(answer))


@needs_root
@pytest.mark.soak
@pytest.mark.parametrize("marked", ["partitions.conf", "."])
def test_what_is_marked_as_immutable_is_refused(host: OtherHost, file: Path, marked: str) -> None:
    subprocess.run(["chattr", "+i", file.parent / marked], check=True)
    try:
        assert "immutable" in str(host.hindrance(host.look(file)))
    finally:
        subprocess.run(["chattr", "-i", file.parent / marked], check=True)


# --- replacing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)), b"! failed\n.\n", b"y" * (CHUNK + 1), b"\0" * CHUNK])
def test_every_byte_arrives(host: OtherHost, journal: Journal, file: Path, data: bytes) -> None:
    entry = put(host, journal, file, data)
    assert file.read_bytes() == data
    image = FileImage(str(file), OLD, data, 0o640, os.getuid(), os.getgid(), host="sm2")
    assert (entry.image, names(file.parent)) == (image, [file.name])


def test_owner_mode_and_attributes_stay_and_the_time_is_new(host: OtherHost, journal: Journal, file: Path) -> None:
    if os.geteuid() == 0:
        os.chown(file, 1, 2)
    os.setxattr(file, "user.note", b"a\0b")
    os.utime(file, ns=(7, 7))
    before = file.stat()
    put(host, journal, file, NEW)
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.getxattr(file, "user.note") == b"a\0b"
    assert after.st_ino != before.st_ino
    assert after.st_mtime_ns > 7


def test_a_read_only_file_keeps_its_mode(host: OtherHost, journal: Journal, file: Path) -> None:
    file.chmod(0o444)
    put(host, journal, file, NEW)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (NEW, 0o444)


def test_a_file_is_made_and_removed(host: OtherHost, journal: Journal, file: Path) -> None:
    path = file.with_name("other.conf")
    put(host, journal, path, NEW, 0o604)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode), path.stat().st_nlink) == (NEW, 0o604, 1)
    put(host, journal, path, None)
    assert names(file.parent) == [file.name]
    put(host, journal, path, None)


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


@pytest.mark.parametrize("change", [written, swapped, same_size, linked, os.unlink, lambda file: file.chmod(0o600)])
@pytest.mark.parametrize("data", [NEW, None])
def test_what_somebody_else_did_meanwhile_stays(
    host: OtherHost, journal: Journal, file: Path, change: Callable[[Path], None], data: bytes | None
) -> None:
    seen = host.look(file)
    change(file)
    theirs = file.read_bytes() if file.exists() else None
    with journal.operation("apply") as operation:
        with pytest.raises(FileChanged, match="somebody else changed it"):
            host.replace(operation, seen, data)
        assert operation.id is not None
        assert [entry.status for entry in journal.files(operation.id)] == ["failed"]
    assert (file.read_bytes() if file.exists() else None) == theirs
    assert not [name for name in names(file.parent) if "ibkeys" in name]


def test_a_file_that_came_meanwhile_stays(host: OtherHost, journal: Journal, file: Path) -> None:
    path = file.with_name("new")
    seen = host.look(path)
    path.write_bytes(b"theirs")
    with journal.operation("apply") as operation, pytest.raises(FileChanged):
        host.replace(operation, seen, NEW)
    assert (path.read_bytes(), names(file.parent)) == (b"theirs", ["new", file.name])


def test_what_hinders_is_found_before_anything_is_written(host: OtherHost, journal: Journal, file: Path) -> None:
    os.link(file, file.with_name("other"))
    with journal.operation("apply") as operation, pytest.raises(FileError, match="hard links"):
        host.replace(operation, host.look(file), NEW)
    assert operation.id is None
    with journal.operation("apply") as operation, pytest.raises(FileError, match="more than 32 MiB"):
        host.replace(operation, host.look(file), b"x" * (32 << 20) + b"x")


@pytest.mark.parametrize("tool", ["mv", "cp", "base64", "sha256sum", "touch"])
def test_a_command_that_fails_leaves_the_old_file(there: There, journal: Journal, file: Path, tool: str) -> None:
    with there.hands() as host, journal.operation("apply") as operation:
        seen = host.look(file)
        there.tool(tool, f"echo '{tool}: No space left on device' >&2; exit 1")
        with pytest.raises(FileError) as caught:
            host.replace(operation, seen, NEW)
        assert not caught.value.is_replaced
        assert str(caught.value).startswith(f"sm2: {file}: cannot be replaced: ")
        assert str(caught.value).endswith("it is as it was")
    assert (file.read_bytes(), names(file.parent)) == (OLD, [file.name])


def test_a_folder_that_is_not_synced_is_told(there: There, journal: Journal, file: Path) -> None:
    there.tool("sync", f'[ "$2" != {file.parent} ] || {{ echo no >&2; exit 1; }}')
    with there.hands() as host, journal.operation("apply") as operation:
        with pytest.raises(FileError, match="the change is made all the same") as caught:
            host.replace(operation, host.look(file), NEW)
        assert caught.value.is_replaced
        assert operation.id is not None
        assert [entry.status for entry in journal.files(operation.id)] == ["pending"]
    assert file.read_bytes() == NEW


def test_a_copy_that_lost_its_mode_does_not_get_into_place(there: There, journal: Journal, file: Path) -> None:
    there.tool("cp", 'chmod 0644 "$5"')
    with there.hands() as host, journal.operation("apply") as operation:
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
    left = host.clean_up([entry, entry])
    assert sorted(left.removed) == sorted(file.with_name(name) for name in everything[:2])
    assert left.foreign == (file.with_name(everything[2]),)
    assert names(file.parent) == sorted([file.name, *everything[2:]])


def test_entries_of_other_hosts_are_left_out(host: OtherHost, journal: Journal, file: Path) -> None:
    left = file.with_name(f".{file.name}.ibkeys-99999999-{'a' * 16}.part")
    left.touch()
    with journal.operation("apply") as operation:
        entry = operation.record_file(FileImage(str(file), OLD, NEW, host="sm3"))
        assert host.clean_up([entry]).removed == ()
        entry = operation.record_file(FileImage(str(file.parent / "none" / "x"), OLD, NEW, host="sm2"))
        assert host.clean_up([entry]).removed == ()


# --- OpenSM -----------------------------------------------------------------------------------------------------------


def test_the_process_that_was_seen_gets_the_signal_and_no_other(host: OtherHost) -> None:
    with opensm() as (right, process):
        assert host.may_signal(right) is None
        assert right.ticks is not None
        for wrong, words in (
            (replace(right, ticks=right.ticks + 1), "is not the OpenSM any more"),
            (replace(right, ticks=None), "nobody knows when it started"),
        ):
            assert words in str(host.may_signal(wrong))
            with pytest.raises(HostRefused, match=words) as caught:
                host.signal(wrong)
            assert caught.value.host == "sm2"
        host.signal(right)
        assert heard(process) == b"hup\n", "the first one that it heard"
    with pytest.raises(HostRefused, match="is not the OpenSM any more"):
        host.signal(right)


UNIT = r"opensm@0x1\x2d2.service"


@pytest.mark.parametrize("main", ["own", "7"])
def test_systemd_sends_the_signal_to_the_main_process_of_a_unit(there: There, main: str) -> None:
    log = there.tools / "log"
    with opensm() as (right, process), there.hands() as host:
        pid = right.pid if main == "own" else main
        there.tool("systemctl", f'printf "%s\\n" "$*" >>{log}; [ "$2" != show ] || echo MainPID={pid}')
        host.signal(replace(right, unit=UNIT))
        said = log.read_text().splitlines()
        assert said[0] == f"--no-ask-password show --property=MainPID -- {UNIT}"
        if main == "own":
            assert said[1:] == [f"--no-ask-password kill --signal=HUP --kill-who=main -- {UNIT}"]
        else:
            assert (said[1:], heard(process)) == ([], b"hup\n")


@pytest.mark.parametrize("unit", ["-H.service", "a b.service", "*.service", "$(x).service"])
def test_what_is_no_unit_is_not_given_to_systemctl(there: There, unit: str) -> None:
    there.tool("systemctl", f"touch {there.tools}/called")
    with opensm() as (right, process), there.hands() as host:
        host.signal(replace(right, unit=unit))
        assert heard(process) == b"hup\n"
    assert not (there.tools / "called").exists()


# --- a connection that is cut -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("before", "after"), [(OLD, NEW * 1000), (None, NEW), (OLD, None)])
def test_a_connection_that_is_cut_anywhere_leaves_the_old_or_the_new_file(
    tmp_path: Path, journal: Journal, file: Path, whole: bool, before: bytes | None, after: bytes | None
) -> None:
    there = There(tmp_path / "there")
    found = set()
    for number in range(1, 100):
        file.unlink(missing_ok=True)
        if before is not None:
            file.write_bytes(before)
        try:
            with there.hands(cutting(number, whole)) as host, journal.operation("apply") as operation:
                host.replace(operation, host.look(file), after)
                break
        except ConnectionResetError:
            pass
        now = file.read_bytes() if file.exists() else None
        assert now in (before, after)
        found.add(now)
        assert set(names(file.parent)) <= {file.name}, "the program there ended, and took what was beside along"
    assert number > 4
    assert found == ({before, after} if whole else {before})


STEPS = ("cp", "mv", "sync", "ln", "rm", "stat", "sha256sum", "base64", "head", "touch", "chmod", "tr", "ls", "cut")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("before", "after"), [(OLD, NEW), (None, NEW), (OLD, None)])
def test_a_program_that_is_killed_anywhere_leaves_the_old_or_the_new_file(
    tmp_path: Path, journal: Journal, file: Path, when: str, before: bytes | None, after: bytes | None
) -> None:
    there = There(tmp_path / "there")
    count, last = there.tools / "count", there.tools / "last"
    for step in STEPS:
        real, die = shutil.which(step, path="/usr/bin:/bin"), f'[ "$n" -lt "$(/bin/cat {last})" ] || kill -9 0'
        counted = f"echo >>{count}; n=$(wc -l <{count})"
        there.tool(
            step,
            f'{counted}; {die}; exec {real} "$@"'
            if when == "before"
            else f'{counted}; {real} "$@"; s=$?; {die}; exit $s',
        )
    found, dirty = set(), 0
    for number in range(1, 200):
        file.unlink(missing_ok=True)
        if before is not None:
            file.write_bytes(before)
        count.write_text("")
        last.write_text(str(number))
        try:
            with there.hands() as host, journal.operation("apply") as operation:
                host.replace(operation, host.look(file), after)
                break
        except HostNotReached:
            pass
        now = file.read_bytes() if file.exists() else None
        assert now in (before, after)
        found.add(now)
        dirty += len(names(file.parent)) > 1
        last.write_text("9999")
        if operation.id is not None:
            entries = journal.files(operation.id)
            assert now == before or entries[0].status == "pending", "what may have been replaced is not failed"
            with there.hands() as host:
                assert host.clean_up(entries).foreign == ()
        assert set(names(file.parent)) <= {file.name}
    assert number > 8
    assert found == {before, after}
    assert dirty or after is None


# --- a host that lies -------------------------------------------------------------------------------------------------


LISTEN = f'echo {READY.decode()}; while IFS= read -r line && [ "$line" != done ]; do :; done; read -r question'


@pytest.mark.parametrize(
    ("answer", "ask"),
    [
        (" x\n.\n", lambda host: host.look(Path("/x/y"))),
        (".\n", lambda host: host.look(Path("/x/y"))),
        (" 0 -\nwhat\n", lambda host: host.look(Path("/x/y"))),
        ("! unheard of\n", lambda host: host.look(Path("/x/y"))),
        (".\n", lambda host: host.hindrance(look(Path("/etc/passwd")))),
        (" 1 2 3\n.\n", lambda host: host.hindrance(look(Path("/etc/passwd")))),
        (" /etc/passwd\n.\n", lambda host: host.guard(1).began(look(Path("/etc/passwd")), PROCESS)),
        (" ../../etc\n.\n", lambda host: host.guard(1).began(look(Path("/etc/passwd")), PROCESS)),
        (" ../../x\n.\n", lambda host: host.clean_up([ENTRY])),
        (f" 1-{'a' * 16}.part/../x {'0' * 64}\n.\n", lambda host: host.clean_up([ENTRY])),
        (f" 1-{'a' * 16} -\n.\n", lambda host: host.clean_up([ENTRY])),
    ],
)
def test_an_answer_that_makes_no_sense_ends_the_conversation(answer: str, ask: Callable[[OtherHost], object]) -> None:
    said = answer.replace("\n", "\\n")
    command = ["/bin/sh", "-c", f"{LISTEN}; printf '{said}'; cat >/dev/null"]
    with (
        RemoteFiles("evil", ["/bin/sh", "-s"], ENVIRONMENT) as reader,
        Conversation("evil", command, ENVIRONMENT, program(), READY) as talk,
        pytest.raises(HostNotReached),
    ):
        ask(OtherHost(reader, Writer(talk)))


with Journal(None) as _journal, _journal.operation("apply") as _operation:
    ENTRY = _operation.record_file(FileImage("/etc/x", None, None, host="evil"))
with opensm() as (PROCESS, _):
    pass


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_host_says_is_an_answer_or_one_error(said: bytes) -> None:
    text = "".join(f"\\{byte:03o}" for byte in said)
    command = ["/bin/sh", "-c", f"{LISTEN}; printf '{text}\\n.\\n'"]
    for question in ("seen", "real", "ground", "left"):
        with Conversation("evil", command, ENVIRONMENT, program(), READY) as talk:
            try:
                Writer(talk).ask(question, path=Path("/x"))
            except (HostNotReached, No):
                continue


def test_the_reason_of_a_host_is_short_and_on_one_line() -> None:
    command = ["/bin/sh", "-c", f"{LISTEN}; printf '! failed \\033[31m'; printf '%05000d\\n' 1; cat >/dev/null"]
    with Conversation("evil", command, ENVIRONMENT, program(), READY) as talk, pytest.raises(No) as caught:
        Writer(talk).ask("seen", path=Path("/x"))
    assert caught.value.reason.isprintable()
    assert len(caught.value.reason) == 300


def test_another_host_is_opened_by_ssh_in_a_session_of_its_own(
    there: There, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    class Local(SshHost):
        def command(self) -> list[str]:
            return there.command

    monkeypatch.setattr(opening, "program", there.program)
    with open_hands(SmHost(Local("sm2"))) as host:
        assert (host.name, host.files.name, host.look(file).data) == ("sm2", "sm2", OLD)
        assert isinstance(host, OtherHost)
        process = host._writer.conversation._channel._process
        assert os.getsid(process.pid) == process.pid, "an interrupt at the terminal does not reach it"
