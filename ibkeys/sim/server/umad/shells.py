"""Shells that the server starts on hosts of its fabric, for ibkeys on another host of the fabric.

A confined process cannot enter the mount namespace of another host, but the server can start a process there. The shell
has the standard descriptors of the program that requested it, and is confined like every program on a simulated host.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ibkeys.sim.server.credentials import user_of_stream
from ibkeys.sim.server.loop import Loop
from ibkeys.sim.server.umad import wire

StartShell = Callable[[str, Sequence[int]], subprocess.Popen[bytes]]
"""A function that starts a shell in a session of its own. Arguments: the name of the host, and the three standard
descriptors of the shell. Raises OSError."""
STREAMS: Final = 3
MOST_SHELLS: Final = 64
_PATIENCE: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Shell:
    process: subprocess.Popen[bytes]
    descriptor: int
    asking: socket.socket


@dataclass(eq=False, repr=False)
class Shells:
    """The running shells. ``start``: starts a shell; None: every shell is refused."""

    loop: Loop
    start: StartShell | None
    _running: dict[int, _Shell] = field(default_factory=dict)

    def open(self, asking: socket.socket, host: str, streams: Sequence[int]) -> None:
        """Start a shell on *host* for the program at the other end of *asking*, or refuse it."""
        why_not = self._why_not(asking, streams)
        if self.start is None or why_not:
            refuse(asking, why_not or "it starts no shells")
            return
        try:
            process = self.start(host, streams)
        except OSError as error:
            refuse(asking, f"no shell can be started on {host}: {error.strerror}")
            return
        shell = _Shell(process, os.pidfd_open(process.pid), asking)
        self._running[shell.descriptor] = shell
        self.loop.register(shell.descriptor, partial(self._ended, shell))
        with suppress(OSError):  # an OSError: the program has ended, so its shell will end too
            asking.send(wire.answer())

    def _why_not(self, asking: socket.socket, streams: Sequence[int]) -> str:
        if user_of_stream(asking) != os.geteuid():
            return "it belongs to another user, so no host of it can be reached from another one"
        if len(streams) != STREAMS:
            return "standard descriptors are missing"
        return f"{MOST_SHELLS} shells run, which is the most" if len(self._running) >= MOST_SHELLS else ""

    def _ended(self, shell: _Shell, events: int) -> None:
        shell.process.wait()
        self.loop.unregister(shell.descriptor)
        self._close(shell)

    def _close(self, shell: _Shell) -> None:
        del self._running[shell.descriptor]
        os.close(shell.descriptor)
        shell.asking.close()

    def close(self) -> None:
        """End all shells by SIGTERM; kill those that do not end within `_PATIENCE` seconds each."""
        for shell in list(self._running.values()):
            shell.process.terminate()
        for shell in list(self._running.values()):
            try:
                shell.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                shell.process.kill()
                shell.process.wait()
            self._close(shell)


def refuse(asking: socket.socket, why: str) -> None:
    """Send the reason *why* the program at the other end gets no answer, and close the connection."""
    with suppress(OSError):
        asking.send(wire.refusal(f"the simulated fabric refuses: {why}"))
    asking.close()
