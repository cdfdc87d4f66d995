"""The hosts whose OpenSMs are examined: this one, and others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ibkeys.errors import HostNotReached
from ibkeys.host.host_files import THIS_HOST
from ibkeys.managers.elsewhere.access import Access, open_files
from ibkeys.managers.instance import NO_ENTRY, HostEntry
from ibkeys.managers.report import HostReport, report_not_reached, report_on_host


@dataclass(frozen=True, slots=True)
class SmHost:
    """A host on which OpenSMs are examined. ``access``: how the host is reached; None for this host. ``entry``: its
    entry in ``sm.toml``."""

    access: Access | None = None
    entry: HostEntry = NO_ENTRY

    @property
    def name(self) -> str:
        """The host's name as the user gave it; "" for this one."""
        return self.access.name if self.access is not None else ""


def report_on_hosts(hosts: Iterable[SmHost], socket: str = "") -> list[HostReport]:
    """Return a report on the OpenSMs of each of *hosts*, in order. *socket*: the socket of the simulator whose subnet
    is meant, "" for a real subnet.

    If another host cannot be reached, its report has the reason. On a simulated host, raises UsageError for another
    name of that host.
    """
    reports = []
    for host in hosts:
        if host.access is None:
            reports.append(report_on_host(THIS_HOST, host.entry, socket))
            continue
        try:
            with open_files(host.access) as files:
                reports.append(report_on_host(files, host.entry, socket))
        except HostNotReached as error:
            reports.append(report_not_reached(error))
    return reports
