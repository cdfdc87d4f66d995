"""The fork server of the tests: what it runs is as a process that was started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.forkserver import ForkServer
from tests.integration.ibsim import RUN_TIMEOUT, ibkeys, ibkeys_environment
from tests.integration.polling import wait_until

LOOK = """
import atexit, os, signal, sys
atexit.register(print, "the end")
print(__name__, sys.argv, repr(sys.path[0]), os.getcwd(), signal.getsignal(signal.SIGINT), repr(sys.stdin.read()))
print(sorted(os.environ.items()), sorted(os.listdir("/proc/self/fd")), sys.stdout.line_buffering, sys.stdout.encoding)
print("an error", file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with closing(ForkServer(ibkeys_environment())) as server:
        yield server


def run(server: ForkServer, code: str, *words: str, folder: Path, timeout: float = RUN_TIMEOUT, **more: str) -> str:
    done = server.run(code, words, {**ibkeys_environment(), **more}, str(folder), timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_is_as_one_that_was_started(server: ForkServer, tmp_path: Path) -> None:
    environment = {**ibkeys_environment(), "IBKEYS_DEVICE": "mlx5_0"}
    command = [sys.executable, "-c", LOOK, "a", "b c"]
    started = subprocess.run(
        command, env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    forked = server.run(LOOK, ("a", "b c"), environment, str(tmp_path), RUN_TIMEOUT)
    assert started.returncode == 7
    assert (forked.returncode, forked.stdout, forked.stderr) == (7, started.stdout, started.stderr)


def test_the_program_is_as_one_that_was_started(tmp_path: Path) -> None:
    for words in (("pkey-show", "--nonsense"), ("--help",)):
        started, forked = ibkeys(*words, cwd=tmp_path, stdin=subprocess.DEVNULL), ibkeys(*words, cwd=tmp_path)
        assert (forked.returncode, forked.stdout, forked.stderr) == (
            started.returncode,
            started.stdout,
            started.stderr,
        )


def test_several_at_once_do_not_wait_for_each_other(server: ForkServer, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(run, server, "print(open('fifo').read())", folder=tmp_path)
        run(server, "open('fifo', 'w').write('from another one')", folder=tmp_path)
        assert reading.result() == "from another one\n"


def test_one_that_does_not_end_is_killed(server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(
            server,
            "import os, signal; open('pid', 'w').write(str(os.getpid())); signal.pause()",
            folder=tmp_path,
            timeout=4,
        )
    number = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{number}").exists())


def test_what_python_reads_when_it_starts_is_not_changed_later(server: ForkServer) -> None:
    assert server.fits({**ibkeys_environment(), "IBKEYS_DEVICE": "mlx5_0"})
    for name in ("PYTHONHASHSEED", "LD_PRELOAD", "LC_ALL"):
        assert not server.fits({**ibkeys_environment(), name: "0"})
