"""The hosts whose OpenSMs are examined: this one, and others through ssh."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ibkeys.errors import HostNotReached
from ibkeys.host.host_files import THIS_HOST
from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.elsewhere.ssh import SshHost, environment
from ibkeys.managers.instance import NO_ENTRY, HostEntry
from ibkeys.managers.report import HostReport, look_at_host, not_reached


@dataclass(frozen=True, slots=True)
class SmHost:
    """One host. ``ssh``: how it is reached; None for this one. ``entry``: its entry in ``sm.toml``."""

    ssh: SshHost | None = None
    entry: HostEntry = NO_ENTRY

    @property
    def name(self) -> str:
        """The host's name as the user gave it; "" for this one."""
        return self.ssh.name if self.ssh is not None else ""


def look_at_hosts(hosts: Iterable[SmHost], socket: str = "") -> list[HostReport]:
    """Return the OpenSMs that run on *hosts*, examined one host after the other. *socket*: that of the simulator whose
    subnet is meant.

    Raises nothing: a host that cannot be reached is in its report, with the reason.
    """
    reports = []
    for host in hosts:
        if host.ssh is None:
            reports.append(look_at_host(THIS_HOST, host.entry, socket))
            continue
        try:
            with RemoteFiles(host.ssh.name, host.ssh.command(), environment()) as files:
                reports.append(look_at_host(files, host.entry, socket))
        except HostNotReached as error:
            reports.append(not_reached(error))
    return reports
