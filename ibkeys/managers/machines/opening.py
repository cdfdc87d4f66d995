"""Opening a host for changes: this one, or another through ssh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ibkeys.managers.elsewhere.conversation import Conversation
from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.elsewhere.ssh import environment
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.machines.other_host import OWN_SESSION, OtherHost
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.machines.writer import READY, HostWriter, program


@contextmanager
def open_machine(host: SmHost) -> Iterator[Machine]:
    """Open a host for changes. Raises HostNotReached."""
    if host.ssh is None:
        yield THIS
        return
    name, command = host.ssh.name, host.ssh.command()
    with (
        RemoteFiles(name, command, environment(), OWN_SESSION) as reader,
        Conversation(name, command, environment(), program(), READY, OWN_SESSION) as talk,
    ):
        yield OtherHost(reader, HostWriter(talk))
