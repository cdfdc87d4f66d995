"""Real programs on our own simulated subnet: ``ibkeys sim serve`` with the interface of `tests.integration.ibsim`."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from ibkeys.sim.server.steer_socket import ask
from tests.integration.ibsim import Ibsim, Library, start_ibkeys


class Served(Ibsim):
    """A running ``ibkeys sim serve`` with its own sockets and its own folder; the rest is as `Ibsim` has it.

    *extra*: further options of ``sim serve``. By default as ibsim has it: its port GUIDs, links in Initialize.
    *library*: the one by which programs attach; libumad2sim is for tests that compare with it, or are about ibsim's
    protocol.
    """

    def __init__(
        self,
        netfile: str | Path,
        *,
        sim_host: str | None = None,
        port_guids: Literal["file", "ibsim"] = "ibsim",
        links: Literal["initialize", "active"] = "initialize",
        extra: Sequence[str] = (),
        library: Library = "own",
    ) -> None:
        super().__init__(netfile, sim_host=sim_host, limits=())
        self.umad_library = library
        self.options = ["--port-guids", port_guids, "--links", links, *extra]

    def __enter__(self) -> Self:
        words = ["sim", "serve", "--socket", self.socket_name, *self.options, str(self.netfile)]
        self.program = start_ibkeys(words, self.folder)
        return self.when_ready("ibkeys sim serve")

    def says_ready(self, line: str) -> bool:
        return line == "ready\n"

    @property
    def is_running(self) -> bool:
        """Whether the server is there."""
        return self.program is not None and self.program.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self.program is not None
        return self.program.pid

    def begin(self, command: Sequence[str | Path], stderr: int = subprocess.STDOUT) -> subprocess.Popen[str]:
        """Start a program on this fabric as `run` does; what it says comes through pipes, by default through one."""
        return subprocess.Popen(
            self.arguments(command),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def command(self, line: str) -> None:
        """Steer the server, such as ``link H-1[1] down``."""
        self.steer(line)

    def steer(self, line: str) -> str:
        """Steer the server and return its answer; an AssertionError when it says no."""
        answer = ask(self.socket_name, line, timeout=180.0)
        assert answer.outcome == "ok", f"{line}: {answer}"
        return answer.text

    def counts(self) -> dict[str, int]:
        """Return the server's counts."""
        pairs = (line.partition(": ") for line in self.steer("counts").splitlines())
        return {name: int(value) for name, _, value in pairs}
