"""The copy of a fabric on which a rehearsal is made: a served subnet, and the programs on one of its hosts."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from ibkeys.closing import Closing
from ibkeys.mad import offsets as at
from ibkeys.mad.const import Method
from ibkeys.own_program import own_program
from ibkeys.rehearse.timeline import TableWatch
from ibkeys.sim.nodes import SimNode
from ibkeys.sim.server.outbox import PassedMad
from ibkeys.sim.server.server import Server
from ibkeys.sim.subnet import Subnet

_NAME: Final = "rehearsal"
"""The socket name. No other program sees the socket, which is in a network namespace of its own."""
_PAUSE: Final = 0.05


class EndedCommand(NamedTuple):
    """A command on the copy that has ended. ``code``: its exit status; ``output``, ``errors``: what it wrote;
    ``seconds``: how long it ran."""

    code: int
    output: str
    errors: str
    seconds: float


class Twin(Closing):
    """Serves *subnet* in a thread, and runs programs on *host*. *folder*: a private folder for all files.

    ``last_mad``: when a program last sent a MAD, on the clock of `time.monotonic`. ``sets``: how many Sets were sent.
    ``tables``: notes changes of tables; None: they are not noted. ``planned_fault``: a function to call once, in the
    thread of the server, when ``tables`` has noted so many changes; None: no fault, or it has happened.
    """

    def __init__(self, subnet: Subnet, host: SimNode, folder: Path) -> None:
        self.subnet, self.host, self.folder = subnet, host, folder
        self.last_mad = 0.0
        self.sets = 0
        self.tables: TableWatch | None = None
        self.planned_fault: tuple[int, Callable[[], None]] | None = None
        self._running: subprocess.Popen[str] | None = None
        self._server = Server(subnet, _NAME, watch=self._watch, folder=str(folder / "hosts"))
        self._thread = threading.Thread(target=self._server.serve, daemon=True)
        self._thread.start()

    def run(self, words: Sequence[str]) -> EndedCommand:
        """Run a command on the host, and wait for its end."""
        started = time.monotonic()
        with subprocess.Popen(
            self._on_host(self.host, words),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as self._running:
            output, errors = self._running.communicate()
        return EndedCommand(self._running.returncode, output, errors, time.monotonic() - started)

    def kill_command(self) -> None:
        """Kill the program that `run` waits for. May be called from another thread."""
        if self._running is not None:
            kill_program(self._running)

    def start(self, host: SimNode, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a program on *host* and return while it runs. *environment*: variables to add. Its output is discarded,
        because OpenSM prints its keys."""
        return subprocess.Popen(
            self._on_host(host, words),
            env={**self._environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait_until_quiet(self, seconds: float, longest: float) -> bool:
        """Wait until no program has sent a MAD for *seconds*, at most *longest*; return whether it is so."""
        end = time.monotonic() + longest
        while time.monotonic() - self.last_mad < seconds:
            if time.monotonic() > end:
                return False
            time.sleep(_PAUSE)
        return True

    def close(self) -> None:
        """End the server. Programs that still run lose their fabric."""
        self._server.stop()
        self._thread.join()
        self._server.close()

    def _on_host(self, host: SimNode, words: Sequence[str]) -> list[str]:
        return [*own_program(), "sim", "run", f"--socket={_NAME}", f"--host={host.node_id}", "--", *words]

    def _environment(self) -> dict[str, str]:
        """Return the environment of the programs: of this host only the search paths and the language, and nothing that
        names a key file, a store or a fabric."""
        kept = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
        }

    def _watch(self, passed: PassedMad) -> None:
        now = time.monotonic()
        if self.tables is not None:
            self.tables.look(now)
            if self.planned_fault is not None and len(self.tables.writes) >= self.planned_fault[0]:
                _, happen = self.planned_fault
                self.planned_fault = None
                happen()
        if passed.out:
            self.last_mad = now
            self.sets += passed.mad[at.METHOD] == Method.SET


def kill_program(process: subprocess.Popen[Any]) -> None:
    """Kill the program that *process*, an ``ibkeys sim run``, has started."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # It has ended.
                if f"\nPPid:\t{process.pid}\n" in (entry / "status").read_text("utf-8", "replace"):
                    os.kill(int(entry.name), signal.SIGKILL)
