"""Reading a host's files: natively, and by the shell program that other hosts run. One suite for both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import HostNotReached
from ibkeys.host.host_files import THIS_HOST, HostFiles
from ibkeys.managers.elsewhere import answer_limits, conversation, remote
from ibkeys.managers.elsewhere.channel import Channel, ChannelBroken
from ibkeys.managers.elsewhere.remote import READY, RemoteFiles, program
from tests.sample import in_soak

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
SHELLS = [shell for shell in ("/bin/sh", "/bin/dash", "/bin/bash") if shutil.which(shell)]


@pytest.fixture(params=["natively", *map(in_soak, SHELLS[:1]), *SHELLS[1:]])
def host(request: pytest.FixtureRequest) -> Iterator[HostFiles]:
    if request.param == "natively":
        yield THIS_HOST
        return
    with RemoteFiles("there", [request.param, "-s"], ENVIRONMENT) as found:
        yield found


@pytest.mark.parametrize("data", [b"", b"m_key 0x5\n", bytes(range(256)) * 20, b".\n! absent\n"])
def test_contents(host: HostFiles, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    assert host.read(tmp_path / "file", 1 << 20) == data


@pytest.mark.parametrize(
    "name", ["with blank", " leading", "trailing ", "-dash", "quo'te\"$(x)`y`", "back\\slash", "*"]
)
def test_any_name_is_a_name_and_nothing_else(host: HostFiles, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert host.read(tmp_path / name, 10) == b"x"
    assert host.stat(tmp_path / name).size == 1
    assert name in host.names(tmp_path)


def test_status(host: HostFiles, tmp_path: Path) -> None:
    file = tmp_path / "inner" / "file"
    file.parent.mkdir(mode=0o750)
    file.write_bytes(b"abc")
    file.chmod(0o640)
    os.utime(file, ns=(1_600_000_000_123_456_789,) * 2)
    (tmp_path / "link").symlink_to(file)
    for path in (file, tmp_path / "link"):
        ours, theirs = THIS_HOST.stat(path), host.stat(path)
        assert (theirs.mode, theirs.uid, theirs.gid, theirs.size) == (0o640, os.geteuid(), os.getegid(), 3)
        assert (theirs.identity, theirs.parents) == (ours.identity, ours.parents)
        assert theirs.written == pytest.approx(1_600_000_000.123456789, abs=1e-6)
        assert theirs.changed == pytest.approx(ours.changed, abs=1e-6)
    assert host.stat(tmp_path).identity == THIS_HOST.stat(tmp_path).identity
    assert host.stat(Path("/")).parents == ()


def test_links_and_names(host: HostFiles, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a b\nc")
    (tmp_path / "dir").mkdir()
    assert host.link(tmp_path / "link") == "a b\nc"
    assert host.names(tmp_path) == ["dir", "link"]
    assert host.names(tmp_path / "dir") == []


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda host, folder: host.read(folder / "nothing", 10), FileNotFoundError),
        (lambda host, folder: host.stat(folder / "nothing"), FileNotFoundError),
        (lambda host, folder: host.link(folder / "nothing"), FileNotFoundError),
        (lambda host, folder: host.names(folder / "nothing"), FileNotFoundError),
        (lambda host, folder: host.read(folder, 10), OSError),
        (lambda host, folder: host.read(folder / "fifo", 10), OSError),
        (lambda host, folder: host.read(folder / "long", 10), OSError),
        (lambda host, folder: host.link(folder / "long"), OSError),
        (lambda host, folder: host.read(folder / "no\nname", 10), OSError),
    ],
)
def test_what_cannot_be_read_is_an_error_as_the_system_has_it(
    host: HostFiles, tmp_path: Path, ask: Callable[[HostFiles, Path], object], error: type[OSError]
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "long").write_bytes(b"x" * 11)
    with pytest.raises(error):
        ask(host, tmp_path)
    assert host.read(tmp_path / "long", 11) == b"x" * 11, "the next question is answered"


def test_time_and_user(host: HostFiles) -> None:
    ours, theirs = THIS_HOST.clock(), host.clock()
    assert abs((ours.now - ours.uptime) - (theirs.now - theirs.uptime)) < 0.1, "the moment of boot"
    assert host.own_user() == os.geteuid()


def test_processes(host: HostFiles, tmp_path: Path) -> None:
    for pid, name in (("10", "opensm"), ("11", "vi"), ("12", "opensm")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{name}\n")
        (tmp_path / pid / "cmdline").write_text(f"/usr/sbin/{name}\0")
    assert host.processes(tmp_path, "opensm") == [10, 12]
    assert host.processes(tmp_path / "nothing", "opensm") == []


def test_the_program_has_one_job_and_changes_nothing() -> None:
    """Who reads it before it runs on his hosts finds no command that writes, and no other file."""
    text = "\n".join(line.partition("# ")[0] for line in program().splitlines())
    for word in ("rm", "mv", "cp", "tee", "kill", "chmod", "mkdir", "touch", "eval", "curl"):
        assert word not in text.split()
    assert ">>" not in text
    assert len(program()) < 4096


# --- a host that is none ----------------------------------------------------------------------------------------------


LISTEN = f'echo {READY.decode()}; while IFS= read -r line && [ "$line" != done ]; do :; done; read -r question'
"""What a program does up to the first question: the last line of its own text is passed over."""


def broken(answer: str) -> RemoteFiles:
    """A host whose program says *answer* whatever it is asked."""
    return RemoteFiles("evil", ["/bin/sh", "-c", f"{LISTEN}; printf '%s' '{answer}'; cat >/dev/null"], ENVIRONMENT)


@pytest.mark.parametrize(
    ("answer", "ask"),
    [
        (" zz\n.\n", lambda host: host.read(Path("/x"), 10)),
        (" 00\nwhat\n", lambda host: host.read(Path("/x"), 10)),
        (" 1 2 3\n.\n", lambda host: host.stat(Path("/x"))),
        (" 81ed 0 0 3 1 2 99999999999999999999 1 a:00|b:00\n.\n", lambda host: host.stat(Path("/x"))),
        (" 81ed 0 0 3 1 2 1 1 x\n.\n", lambda host: host.stat(Path("/x"))),
        (".\n", lambda host: host.clock()),
        (" a b\n.\n", lambda host: host.clock()),
        (" x\n.\n", lambda host: host.own_user()),
        (" /proc/x/comm\n.\n", lambda host: host.processes(Path("/proc"), "opensm")),
    ],
)
def test_an_answer_that_makes_no_sense_ends_the_conversation(answer: str, ask: Callable[[RemoteFiles], object]) -> None:
    with broken(answer) as host, pytest.raises((HostNotReached, OSError)) as caught:
        ask(host)
    assert isinstance(caught.value, HostNotReached) or "answer" in str(caught.value)


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = ["/bin/sh", "-c", f"{LISTEN}; while :; do echo ' 00000000000000000000000'; done"]
    with RemoteFiles("evil", endless, ENVIRONMENT) as host, pytest.raises(HostNotReached, match="too long"):
        host.read(Path("/x"), 10)


def test_a_host_that_is_silent_or_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(conversation, "START_SECONDS", 0.05)
    with pytest.raises(HostNotReached, match="no answer in time"):
        RemoteFiles("deaf", ["/bin/sh", "-c", "cat >/dev/null"], ENVIRONMENT)
    monkeypatch.setattr(conversation, "START_SECONDS", 10.0)
    with pytest.raises(HostNotReached, match=r"host gone: it ended.*: Permission denied"):
        RemoteFiles("gone", ["/bin/sh", "-c", "echo 'Permission denied (publickey).' >&2"], ENVIRONMENT)
    with pytest.raises(HostNotReached, match="cannot be started: No such file"):
        RemoteFiles("none", ["/no/such/program"], ENVIRONMENT)
    with broken("") as host, pytest.raises(HostNotReached, match="no answer in time"):
        host.own_user()


def test_what_a_login_shell_says_first_is_passed_over() -> None:
    command = ["/bin/sh", "-c", "echo Welcome; echo ' 00'; exec /bin/sh -s"]
    with RemoteFiles("there", command, ENVIRONMENT) as host:
        assert host.own_user() == os.geteuid()


FORGED = "g\n.\n 66 6f 72 67 65 64\n.\n"


def test_the_name_of_a_directory_forges_no_answer(host: HostFiles, tmp_path: Path) -> None:
    """A link to a directory whose name reads like the end of this answer and all of the next one."""
    (tmp_path / FORGED / "in").mkdir(parents=True)
    (tmp_path / FORGED / "in" / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / FORGED / "in" / "file")
    (tmp_path / "real").write_bytes(b"real")
    fact = host.stat(tmp_path / "link")
    assert fact.parents == THIS_HOST.stat(tmp_path / "link").parents
    assert host.read(tmp_path / "real", 10) == b"real"


def test_what_is_said_before_a_question_ends_the_conversation() -> None:
    with broken(" 00\n.\n 01\n.\n") as host:
        assert host.read(Path("/x"), 10) == b"\0"
        with pytest.raises(HostNotReached, match="before any request"):
            host.read(Path("/x"), 10)


def test_a_host_that_was_given_up_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its late answer would be taken for that to the next question."""
    late = ["/bin/sh", "-c", f"{LISTEN}; read -r second; echo ' 1'; echo .; cat >/dev/null"]
    with RemoteFiles("slow", late, ENVIRONMENT) as host:
        with monkeypatch.context() as patched:
            patched.setattr(conversation, "ANSWER_SECONDS", 0.05)
            with pytest.raises(HostNotReached, match="no answer in time"):
                host.own_user()
        with pytest.raises(HostNotReached, match="given up earlier"):
            host.own_user()


def test_a_host_that_does_not_read_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "program", lambda: "x" * (1 << 20))
    monkeypatch.setattr(conversation, "START_SECONDS", 0.05)
    with pytest.raises(HostNotReached, match="does not read"):
        RemoteFiles("deaf", ["/bin/sh", "-c", "exec tail -f /dev/null"], ENVIRONMENT)


def test_a_long_name_is_not_asked_for(tmp_path: Path) -> None:
    with RemoteFiles("there", ["/bin/sh", "-s"], ENVIRONMENT) as host:
        with pytest.raises(OSError, match="cannot be asked for"):
            host.read(Path("/" + "x" * 4096), 10)
        assert host.own_user() == os.geteuid()


def test_the_deadline_holds_though_the_host_goes_on_talking() -> None:
    times = iter(range(1000))
    endless = ["/bin/sh", "-c", "while :; do printf 00000000; done"]
    with Channel(endless, ENVIRONMENT, lambda: next(times)) as channel, pytest.raises(ChannelBroken, match="in time"):
        channel.lines(20, 1 << 40, 1 << 40, lambda line: True)


def test_short_lines_are_counted() -> None:
    endless = ["/bin/sh", "-c", "while :; do echo ' '; done"]
    with Channel(endless, ENVIRONMENT) as channel, pytest.raises(ChannelBroken, match="too long"):
        channel.lines(60, 1 << 40, 1000, lambda line: False)


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [
        ("HOST_SECONDS", 0.0, "seconds altogether"),
        ("HOST_BYTES", -1, "MiB altogether"),
        ("MOST_PROCESSES", 1, "more than 1"),
    ],
)
def test_what_one_host_may_cost_is_bounded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str, value: float, words: str
) -> None:
    for pid in ("10", "12"):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text("opensm\n")
    monkeypatch.setattr(answer_limits if hasattr(answer_limits, limit) else remote, limit, value)
    with RemoteFiles("greedy", ["/bin/sh", "-s"], ENVIRONMENT) as host, pytest.raises(HostNotReached, match=words):
        host.processes(tmp_path, "opensm")


def test_why_ssh_ended_is_said_and_not_how_that_was_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "program", lambda: "x" * (1 << 20))
    command = ["/bin/sh", "-c", "exec <&-; echo 'Permission denied (publickey).' >&2"]
    with pytest.raises(HostNotReached, match=r"host gone: it ended: Permission denied"):
        RemoteFiles("gone", command, ENVIRONMENT)


@given(st.binary(max_size=300))
def test_whatever_a_host_says_is_an_answer_or_one_error(said: bytes) -> None:
    text = "".join(f"\\{byte:03o}" for byte in said)
    command = ["/bin/sh", "-c", f"{LISTEN}; printf '{text}\\n.\\n'"]
    for ask in (lambda host: host.read(Path("/x"), 100), lambda host: host.stat(Path("/x"))):
        try:
            with RemoteFiles("evil", command, ENVIRONMENT) as host:
                ask(host)
        except (HostNotReached, OSError):
            continue
