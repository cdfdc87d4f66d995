"""The access to another host: by ssh, or from a simulated host by a shell on another host of the same fabric."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.host.host_files import simulated_host_of
from ibkeys.managers.elsewhere.channel import Channel
from ibkeys.managers.elsewhere.conversation import OpenChannel
from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.own_program import own_python
from ibkeys.simulated_host import SimulatedHost, own_simulated_host

_CLIENT: Final = "ibkeys.sim.hosted.shell_there"


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """The access to another host of the simulated fabric on which this process runs. ``name``: the host as the user
    named it; a ``USER@`` in it is ignored, because all programs of the fabric belong to one user. ``socket``: the name
    of the fabric's server.
    """

    name: str
    socket: str

    def command(self) -> list[str]:
        """Return the command that starts a shell on the host. The shell reads its program from standard input."""
        return [*own_python(), "-m", _CLIENT, self.socket, self.name.rpartition("@")[2]]

    def environment(self) -> dict[str, str]:
        """Return the environment for the command: that of this process. The shell on the host has the server's."""
        return dict(os.environ)


Access = SshHost | SimulatedNode


def access_to(name: str, sudo: bool = False, config: str | None = None) -> Access:
    """Return the access to the host *name*: by ssh, with *sudo* and *config* as in `SshHost`. If this process runs on a
    simulated host, *name* is another host of the same fabric, and *sudo* and *config* are ignored.

    Raises UsageError for an invalid name.
    """
    here = own_simulated_host()
    return SshHost(name, sudo, config) if here is None else SimulatedNode(name, here.socket)


@contextmanager
def open_files(access: Access, open_channel: OpenChannel = Channel) -> Iterator[RemoteFiles]:
    """Connect to another host, and yield its files for reading; the connection ends at the end of the block.

    Raises HostNotReached; from a simulated host, also if the other host is not of the same fabric, and UsageError if it
    is this host.
    """
    with RemoteFiles(access.name, access.command(), access.environment(), open_channel) as files:
        if isinstance(access, SimulatedNode):
            files.simulated_host = _verified(files, access)
        yield files


def _verified(files: RemoteFiles, access: SimulatedNode) -> SimulatedHost:
    """Return the simulated host on which the shell of *files* runs. Raises HostNotReached if it is not of the same
    fabric, UsageError if it is this host."""
    there = simulated_host_of(files, Path("/proc/self"))
    if there is None or there.socket != access.socket:
        files.end("it is not a host of the same simulated fabric")
    if there == own_simulated_host():
        raise UsageError(f"{access.name} is this host, which is always examined: omit it")
    return there
