"""Signalling, stopping and starting the OpenSMs of a host: the same for this host and others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from ibkeys.host.host_files import HostFiles
from ibkeys.host.opensm_process import OpensmProcess
from ibkeys.sm.machines.running import is_running


class Processes(Protocol):
    """The OpenSMs of one host. Every method but `may_signal` raises HostRefused for a process that is not the one that
    was seen, and those of another host raise HostNotReached."""

    def may_signal(self, process: OpensmProcess) -> str | None:
        """Return why this user may not signal *process*, None if it may."""

    def signal(self, process: OpensmProcess) -> None:
        """Send SIGHUP."""

    def stop(self, process: OpensmProcess) -> None:
        """Begin to end it."""

    def can_start(self, process: OpensmProcess) -> bool:
        """Return whether it is the main process of its unit."""

    def start_unit(self, unit: str) -> None:
        """Start a unit."""


class ProcessControl(ABC):
    """The part of the machine that speaks to OpenSMs: see `ibkeys.sm.machines.machine.Machine`."""

    __slots__ = ()

    @property
    @abstractmethod
    def files(self) -> HostFiles:
        """The files of the host, for reading."""

    @property
    @abstractmethod
    def processes(self) -> Processes:
        """The OpenSMs of the host."""

    def may_signal(self, process: OpensmProcess) -> str | None:
        """Return why this user may not tell *process* to read its files, None if it may. Raises HostNotReached."""
        return self.processes.may_signal(process)

    def signal(self, process: OpensmProcess) -> None:
        """Send SIGHUP to this very process. Raises HostRefused, HostNotReached."""
        self.processes.signal(process)

    def is_running(self, process: OpensmProcess) -> bool:
        """Return whether this very process runs. Raises HostNotReached."""
        return is_running(self.files, process)

    def stop(self, process: OpensmProcess) -> None:
        """Begin to end this very process. Raises HostRefused, HostNotReached."""
        self.processes.stop(process)

    def can_start(self, process: OpensmProcess) -> bool:
        """Return whether `start_unit` would start it again. Raises HostRefused, HostNotReached."""
        return self.processes.can_start(process)

    def start_unit(self, unit: str) -> None:
        """Start a unit of systemd. Raises HostRefused, HostNotReached."""
        self.processes.start_unit(unit)
