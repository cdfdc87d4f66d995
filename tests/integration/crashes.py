"""``ibkeys`` on a served fabric that dies at one of its points: a system call that writes, a rename, a signal."""

from __future__ import annotations

import atexit
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from ibkeys.mad.const import Method
from ibkeys.sim.server.outbox import PassedMad
from tests.crashpoints.shim import compiled
from tests.integration.forkserver import Forked, ForkServer
from tests.integration.ibsim import Ibsim, ibkeys_environment, tool

DRIVER = Path(__file__).with_name("crash_driver.py")
_DRIVE = "import sys; from tests.integration import crash_driver; crash_driver.run(*sys.argv[1:])"


def compiled_shim(folder: Path) -> str:
    """Return LD_PRELOAD with the shim below libumad2sim: what goes to the fabric is no point."""
    found = re.search(r"^sim_so=(\S+)", Path(tool("ibsim-run")).read_text(), re.MULTILINE)
    assert found, "ibsim-run does not say where libumad2sim is"
    return f"{found[1]}:{compiled(folder)}"


def crash_command(
    served: Ibsim, stores: Path, words: Sequence[str | Path | int], mode: str, point: int | str = 0
) -> list[str]:
    """Return the command line of ibkeys with journal and key store in *stores*.

    *mode*: ``off``, ``count``, or ``kill``: it dies at *point*, a number or a moment of crash_driver.py.
    """
    return [sys.executable, str(DRIVER), *_arguments(served, stores, words, mode, point)]


def _arguments(
    served: Ibsim, stores: Path, words: Sequence[str | Path | int], mode: str, point: int | str
) -> list[str]:
    stores.mkdir(exist_ok=True)
    _points(served).unlink(missing_ok=True)
    return [str(word) for word in (mode, point, _points(served), stores, *words)]


def crash_environment(served: Ibsim, preloaded: str) -> dict[str, str]:
    """Return the environment of `crash_command`. *preloaded*: see `compiled_shim`.

    The command is on libumad2sim whatever the others are on: our library sends by the system calls that are points.
    """
    return {**served.environment_for("umad2sim"), "LD_PRELOAD": preloaded}


def points_passed(served: Ibsim) -> int:
    """Return how many points the last command passed that counted them, 0 where it was killed."""
    return len(kinds_passed(served))


def kinds_passed(served: Ibsim) -> list[str]:
    """Return the kind of each point that the last command passed; see crash_driver.py."""
    return _points(served).read_text().splitlines() if _points(served).exists() else []


def points_in(served: Ibsim, files: Collection[str]) -> list[int]:
    """Return the points of the last command that counted them to which lines of one of these *files* of ibkeys have
    led."""
    return [number for number, kind in enumerate(kinds_passed(served)) if any(file in kind for file in files)]


def points_around(served: Ibsim, files: Collection[str], but: str) -> list[int]:
    """Return the points that `points_in` returns, and what the runner of steps does right before and after them: the
    points next to them that lead through it, and to no line of the file *but*."""
    kinds, found = kinds_passed(served), set(points_in(served, files))
    by_runner = {number for number, kind in enumerate(kinds) if "change/runner.py" in kind and but not in kind}
    for row in (range(len(kinds)), range(len(kinds) - 1, -1, -1)):
        for before, number in pairwise(row):
            if before in found and number in by_runner:
                found.add(number)
    return sorted(found)


def every_point(points: int, part: int, parts: int) -> range:
    """Return the points that fall to one of so many *parts*: those of all parts are all *points*, each once. There are
    a few more than were counted, for a command has not always equally many."""
    return range(part, points + points // 50, parts)


def run_to_a_point(
    served: Ibsim,
    preloaded: str,
    stores: Path,
    words: Sequence[str | Path | int],
    mode: str = "off",
    point: int | str = 0,
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run ibkeys by a fork server; return how it ended and how many points it passed. *stores*, *mode*, *point*: see
    `crash_command`."""
    arguments = _arguments(served, stores, words, mode, point)
    server, environment = _server_for(served, preloaded)
    return server.run(_DRIVE, arguments, environment, str(served.folder), timeout=300), points_passed(served)


def start_to_a_point(
    served: Ibsim,
    preloaded: str,
    stores: Path,
    words: Sequence[str | Path | int],
    mode: str = "off",
    point: int | str = 0,
) -> Forked:
    """Start ibkeys by a fork server. *stores*, *mode*, *point*: see `crash_command`."""
    arguments = _arguments(served, stores, words, mode, point)
    server, environment = _server_for(served, preloaded)
    return server.start(arguments, environment, str(served.folder), _DRIVE)


def _server_for(served: Ibsim, preloaded: str) -> tuple[ForkServer, dict[str, str]]:
    """Return the fork server for commands on a fabric, and their environment."""
    environment = crash_environment(served, preloaded)
    server = _fork_server(preloaded)
    assert server.fits(environment)
    return server, environment


@cache
def _fork_server(preloaded: str) -> ForkServer:
    """Return the fork server for commands that have the shim; it is started with the first of them."""
    server = ForkServer({**ibkeys_environment(), "LD_PRELOAD": preloaded})
    atexit.register(server.close)
    return server


def _points(served: Ibsim) -> Path:
    return served.folder / "points"


class SetCount:
    """Counts the Sets that leave for the fabric, all of them OpenSM's, and lets it die at one of them."""

    def __init__(self, process: subprocess.Popen[str] | None = None, at: int = 0) -> None:
        self.passed, self._process, self._at = 0, process, at

    def __call__(self, seen: PassedMad) -> None:
        if seen.out and seen.mad[3] == Method.SET:
            if self.passed == self._at and self._process is not None:
                os.kill(self._process.pid, signal.SIGKILL)
            self.passed += 1
