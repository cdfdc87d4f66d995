"""Work that nobody sees and that leaves nothing, even if it is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ibkeys.errors import FileFormatError, HostRefused, IbkeysError, LimitReached, NoReply, Refused, UsageError
from ibkeys.rehearse.private import run_privately
from tests.integration.ibsim import RUN_TIMEOUT, ibkeys_environment
from tests.integration.simulated import AS_NOBODY, needs_root

SLEEPER = """
import os, subprocess, sys
from ibkeys.rehearse.private import run_privately
def work(folder):
    (folder / "file").write_text("x")
    words = ["sh", "-c", "sleep 1000; exit", sys.argv[1]]
    subprocess.Popen(words)
    os.write(1, b"ready\\n")
    subprocess.run(words)
run_privately(work)
"""
SHOWS_USER = """
import os
from ibkeys.rehearse.private import run_privately
print(run_privately(lambda folder: [os.getpid(), os.listdir(folder)]))
"""


def test_the_result_comes_back() -> None:
    assert run_privately(lambda folder: {"pid": os.getpid(), "files": os.listdir(folder)}) == {"pid": 1, "files": []}


@pytest.mark.parametrize(
    "error", [UsageError("no"), FileFormatError("no"), IbkeysError("no"), Refused("no", "adapters")]
)
def test_an_error_of_ibkeys_comes_back_with_its_type(error: IbkeysError) -> None:
    def work(folder: Path) -> None:
        raise error

    with pytest.raises(type(error), match=r"^no$") as caught:
        run_privately(work)
    assert getattr(caught.value, "interlock", None) == getattr(error, "interlock", None)


@pytest.mark.parametrize(
    ("error", "kind"), [(HostRefused("no", "sm2"), IbkeysError), (LimitReached("no", "o"), NoReply)]
)
def test_an_error_that_needs_more_than_a_message_comes_back_as_its_base(error: IbkeysError, kind: type) -> None:
    def work(folder: Path) -> None:
        raise error

    with pytest.raises(kind, match=r"^no$") as caught:
        run_privately(work)
    assert type(caught.value) is kind


def test_the_text_of_any_other_error_does_not_come_back() -> None:
    def work(folder: Path) -> None:
        raise ValueError("0x1234 may be a key")

    with pytest.raises(IbkeysError, match=r"internal error in the rehearsal \(ValueError at test_private.py:"):
        run_privately(work)


def test_only_the_private_folder_can_be_written_and_nothing_of_it_stays(tmp_path: Path) -> None:
    def work(folder: Path) -> list[str]:
        (folder / "file").write_text("x")
        refused = []
        for place in (tmp_path, Path.home(), Path("/tmp"), Path("/var/tmp"), Path("/etc")):
            try:
                (place / "left").write_text("x")
            except OSError as error:
                refused.append(error.strerror or "")
        return [str(folder), *refused]

    folder, *refused = run_privately(work)
    assert len(refused) == 5
    assert not (Path(folder) / "file").exists()
    assert not (tmp_path / "left").exists()


def test_two_do_not_meet() -> None:
    """Both have a process 1, the same folder and the same abstract socket."""

    def work(folder: Path) -> list[object]:
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(b"\0rehearsal:umad")
            (folder / "mine").write_text("x")
            inner = run_privately(lambda other: [os.getpid(), os.listdir(other), _bound()])
            return [os.listdir(folder), *inner]

    assert run_privately(work) == [["mine"], 1, [], True]


def _bound() -> bool:
    with socket.socket(socket.AF_UNIX) as again:
        again.bind(b"\0rehearsal:umad")
    return True


def running(mark: str) -> list[str]:
    found = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if mark in line]


def test_a_kill_leaves_no_process(tmp_path: Path) -> None:
    mark = f"{tmp_path}"
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, mark], stdout=subprocess.PIPE, env=ibkeys_environment(), text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "ready\n"
        assert len(running(mark)) > 2
        process.send_signal(signal.SIGKILL)
        process.wait(RUN_TIMEOUT)
        assert process.stdout.read() == ""  # All that had it have ended.
    deadline = time.monotonic() + RUN_TIMEOUT
    while running(mark):
        assert time.monotonic() < deadline, running(mark)


@needs_root
def test_another_user_needs_no_privilege(tmp_path: Path) -> None:
    done = subprocess.run(
        [*AS_NOBODY, sys.executable, "-c", SHOWS_USER],
        env=ibkeys_environment(),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[1, []]\n", done.stderr
