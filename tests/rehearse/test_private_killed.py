"""kill -9 of the command at each step of `ibkeys.rehearse.private`: no process, mount or file is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.ibsim import RUN_TIMEOUT, ibkeys_environment
from tests.sample import sampled

DRIVER = """
import mmap, os, subprocess, sys
from ibkeys.rehearse import private

at, ready, go = map(int, sys.argv[1:])
count = mmap.mmap(-1, 8)  # shared by all processes of the rehearsal

def step():
    number = int.from_bytes(count[:8]) + 1
    count[:8] = number.to_bytes(8)
    if number == at:
        os.write(ready, b"x")
        os.read(go, 1)  # until the test has killed the first process

def stopping(function):
    def around(*args, **named):
        step()
        result = function(*args, **named)
        step()
        return result
    return around

for owner, names in (
    (private, ("call", "mount", "die_with_parent", "_answer", "_work")),
    (os, ("fork", "pipe", "setsid", "waitpid")),
):
    for name in names:
        setattr(owner, name, stopping(getattr(owner, name)))

def work(folder):
    (folder / "file").write_text("x")
    subprocess.Popen(["sleep", "1000"], pass_fds=(ready,))
    step()
    return "done"

assert private.run_privately(work) == "done"
"""
STEPS = range(1, 140)
"""More than there are on a host with 40 mounts; beyond its last step the driver ends by itself."""


def state() -> tuple[str, list[str]]:
    return Path("/proc/self/mountinfo").read_text(), [os.listdir(each) for each in ("/mnt", "/media")]  # type: ignore[return-value]


@pytest.mark.parametrize("step", sampled(STEPS, [2, 9, 14]))
def test_a_kill_at_a_step_leaves_nothing(step: int, tmp_path: Path) -> None:
    ready, ready_there = os.pipe()
    go_there, go = os.pipe()
    before = state()
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(step), str(ready_there), str(go_there)],
        env={**ibkeys_environment(), "TMPDIR": str(tmp_path)},
        pass_fds=(ready_there, go_there),
    )
    os.close(ready_there)
    os.close(go_there)
    with os.fdopen(ready, "rb") as told:
        is_reached = told.read(1) == b"x"
        if is_reached:
            process.send_signal(signal.SIGKILL)
        status = process.wait(RUN_TIMEOUT)
        os.close(go)
        assert told.read() == b"", "every process that had it has ended"
    assert status == (-signal.SIGKILL if is_reached else 0)
    assert state() == before
    assert os.listdir(tmp_path) == []
