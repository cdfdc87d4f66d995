"""Opening a host for changes: this one, or another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ibkeys.managers.elsewhere.access import open_files
from ibkeys.managers.elsewhere.conversation import Conversation
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.machines.other_host import OWN_SESSION, OtherHost
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.machines.writer import READY, HostWriter, program


@contextmanager
def open_machine(host: SmHost) -> Iterator[Machine]:
    """Connect to a host, this one or another, and yield it; the connection ends at the end of the block. Raises
    HostNotReached; on a simulated host, UsageError if *host* is another name of that host."""
    access = host.access
    if access is None:
        yield THIS
        return
    with (
        open_files(access, OWN_SESSION) as reader,
        Conversation(access.name, access.command(), access.environment(), program(), READY, OWN_SESSION) as talk,
    ):
        yield OtherHost(reader, HostWriter(talk))
