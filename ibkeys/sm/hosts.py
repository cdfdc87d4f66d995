"""The hosts whose OpenSMs are examined: this one, and others through ssh."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ibkeys.errors import HostNotReached
from ibkeys.host.host_files import THIS_HOST, HostFiles
from ibkeys.sm.elsewhere.remote import RemoteFiles
from ibkeys.sm.elsewhere.ssh import SshHost, environment
from ibkeys.sm.instance import NOTHING_NAMED, Named
from ibkeys.sm.report import HostReport, look_at_host, not_reached


@dataclass(frozen=True, slots=True)
class SmHost:
    """One host. ``ssh``: how it is reached; None for this one. ``named``: what the user says about the OpenSM there."""

    ssh: SshHost | None = None
    named: Named = NOTHING_NAMED

    @property
    def name(self) -> str:
        """The host's name as the user gave it; "" for this one."""
        return self.ssh.name if self.ssh is not None else ""


@contextmanager
def open_host(host: SmHost) -> Iterator[HostFiles]:
    """Open a host's files for reading. Raises HostNotReached."""
    if host.ssh is None:
        yield THIS_HOST
        return
    with RemoteFiles(host.ssh.name, host.ssh.command(), environment()) as files:
        yield files


def look_at_hosts(hosts: Iterable[SmHost], socket: str = "") -> list[HostReport]:
    """Return what OpenSMs run on *hosts*, one host after the other. *socket*: of the simulator whose subnet is meant.

    Raises nothing: a host that cannot be reached is in its report, with the reason.
    """
    reports = []
    for host in hosts:
        try:
            with open_host(host) as files:
                reports.append(look_at_host(files, host.named, socket))
        except HostNotReached as error:
            reports.append(not_reached(error))
    return reports
