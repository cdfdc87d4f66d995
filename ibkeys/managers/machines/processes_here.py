"""The OpenSM processes of this host. Signals go to exactly the process that was examined, never to one that reuses its
ID."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ibkeys import files
from ibkeys.closing import closing_descriptor
from ibkeys.errors import HostRefused
from ibkeys.managers.machines.systemd import is_unit, systemctl, unit_of
from ibkeys.managers.opensm.process import OpensmProcess, started_at


@dataclass(frozen=True, slots=True)
class ProcessesHere:
    """The control of the OpenSMs of this host. ``tools``: the environment of systemctl; ``proc``: the folder of
    processes.

    Every method raises HostRefused for a process that is not the one that was examined.
    """

    tools: Mapping[str, str]
    proc: Path = Path("/proc")

    def may_signal(self, process: OpensmProcess) -> str | None:
        """Return why this user may not signal *process* to read its files, None if the user may. Nothing is sent."""
        try:
            with self._held(process) as descriptor:
                signal.pidfd_send_signal(descriptor, 0)
        except HostRefused as error:
            return str(error)
        return None

    def signal(self, process: OpensmProcess) -> None:
        """Send SIGHUP to exactly this process: its ID and the moment it started must be those that were read.

        If it is the main process of its systemd unit, systemd sends it; if systemd fails, this process sends it. Raises
        HostRefused if the process has ended, if the moment is not known, or if this user may not signal it.
        """
        with self._held(process) as descriptor:
            unit = unit_of(process, self.tools)
            with suppress(HostRefused):
                if unit is not None:
                    systemctl(self.tools, "kill", "--signal=HUP", "--kill-who=main", unit=unit)
                    return
            signal.pidfd_send_signal(descriptor, signal.SIGHUP)

    def stop(self, process: OpensmProcess) -> None:
        """Begin to stop exactly this process, by systemd if it is the main process of its unit, else by SIGTERM.

        It may run on for a while, or not end at all: call `is_running`. Raises HostRefused as `signal`, and with
        systemctl's message if that refused; then nothing was sent, because systemd might start the process again.
        """
        with self._held(process) as descriptor:
            unit = unit_of(process, self.tools)
            if unit is None:
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            else:
                systemctl(self.tools, "stop", "--no-block", unit=unit)

    def can_start(self, process: OpensmProcess) -> bool:
        """Return whether *process* is the main process of its unit, so that `start_unit` would start it again.

        Call this before the process is stopped. Raises HostRefused if it is no longer the process that was examined.
        """
        with self._held(process):
            return unit_of(process, self.tools) is not None

    def start_unit(self, unit: str) -> None:
        """Start a service of systemd; one that is active stays as it is.

        Whether its process works can be checked only later. Raises HostRefused with systemctl's message, and for a text
        that is not the name of a service.
        """
        if not is_unit(unit):
            raise HostRefused(f"{unit!r} is not a valid name of a service", "")
        systemctl(self.tools, "start", unit=unit)

    @contextmanager
    def _held(self, process: OpensmProcess) -> Iterator[int]:
        """Yield a pidfd of exactly this process. Raises HostRefused if another process has its ID now."""
        if process.ticks is None:
            raise HostRefused(
                f"process {process.pid}: its start time is not known, so it may be a different process now", ""
            )
        try:
            with closing_descriptor(os.pidfd_open(process.pid)) as descriptor:
                # Open first, then compare the start time: an open pidfd never refers to a later process with the same
                # ID.
                status = files.read_text(self.proc / str(process.pid) / "stat", files.SETTINGS, "replace")
                if started_at(status) != process.ticks:
                    raise HostRefused(f"process {process.pid}: is no longer the OpenSM that was examined", "")
                yield descriptor
        except OSError as error:
            raise _refused(process, error) from None


def _refused(process: OpensmProcess, error: OSError) -> HostRefused:
    if isinstance(error, ProcessLookupError | FileNotFoundError):
        return HostRefused(f"process {process.pid}: no longer runs", "")
    if isinstance(error, PermissionError):
        return HostRefused(f"process {process.pid}: may not be signalled by this user (UID {os.geteuid()})", "")
    return HostRefused(f"process {process.pid}: cannot be signalled: {error.strerror or error}", "")
