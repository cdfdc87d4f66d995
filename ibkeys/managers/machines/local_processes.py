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
class LocalProcesses:
    """Signals, stops and starts the OpenSMs of this host. ``tools``: the environment of systemctl; ``proc``: the proc
    file system.
    """

    tools: Mapping[str, str]
    proc: Path = Path("/proc")

    def may_signal(self, process: OpensmProcess) -> str | None:
        """Return the reason why *process* cannot be signalled, None if it can. It is a reason, too, if another process
        has its ID now. No signal is sent."""
        try:
            with self._open_pidfd(process) as descriptor:
                signal.pidfd_send_signal(descriptor, 0)
        except HostRefused as error:
            return str(error)
        return None

    def signal(self, process: OpensmProcess) -> None:
        """Send SIGHUP to *process*, if the process with its ID has the same start time.

        If it is the main process of its systemd unit, systemd sends the signal; if systemd fails, this process sends
        it. Raises HostRefused if the process has ended, if its start time is not known, or if this user may not signal
        it.
        """
        with self._open_pidfd(process) as descriptor:
            unit = unit_of(process, self.tools)
            with suppress(HostRefused):
                if unit is not None:
                    systemctl(self.tools, "kill", "--signal=HUP", "--kill-who=main", unit=unit)
                    return
            signal.pidfd_send_signal(descriptor, signal.SIGHUP)

    def stop(self, process: OpensmProcess) -> None:
        """Begin to stop *process*: by systemd if it is the main process of its unit, else by SIGTERM.

        The process may run on for a while, or not end at all: call `is_running`. Raises HostRefused as `signal`. If
        systemctl refuses, HostRefused has its message, and no signal is sent, because systemd might start the process
        again.
        """
        with self._open_pidfd(process) as descriptor:
            unit = unit_of(process, self.tools)
            if unit is None:
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            else:
                systemctl(self.tools, "stop", "--no-block", unit=unit)

    def can_start(self, process: OpensmProcess) -> bool:
        """Return whether *process* is the main process of its systemd unit, so that `start_unit` would start it again.

        Call this before the process is stopped. Raises HostRefused if it has ended already, or its start time is not
        known.
        """
        with self._open_pidfd(process):
            return unit_of(process, self.tools) is not None

    def start_unit(self, unit: str) -> None:
        """Start a service of systemd; nothing happens if it is active. The result does not show whether the process of
        the service works.

        Raises HostRefused with systemctl's message, and for a *unit* that is not the name of a service.
        """
        if not is_unit(unit):
            raise HostRefused(f"{unit!r} is not a valid name of a service", "")
        systemctl(self.tools, "start", unit=unit)

    @contextmanager
    def _open_pidfd(self, process: OpensmProcess) -> Iterator[int]:
        """Yield a pidfd of *process*. Raises HostRefused if it has ended, if another process has its ID now, if its
        start time is not known, or if the block finds that it may not be signalled."""
        if process.ticks is None:
            raise HostRefused(
                f"process {process.pid}: its start time is not known, so it may be a different process now", ""
            )
        try:
            with closing_descriptor(os.pidfd_open(process.pid)) as descriptor:
                # The pidfd is opened before the start time is compared: it never refers to a later process with the
                # same ID.
                status = files.read_text(self.proc / str(process.pid) / "stat", files.SETTINGS, "replace")
                if started_at(status) != process.ticks:
                    raise HostRefused(f"process {process.pid}: is no longer the OpenSM that was examined", "")
                yield descriptor
        except OSError as error:
            raise _refusal_for(process, error) from None


def _refusal_for(process: OpensmProcess, error: OSError) -> HostRefused:
    if isinstance(error, ProcessLookupError | FileNotFoundError):
        return HostRefused(f"process {process.pid}: no longer runs", "")
    if isinstance(error, PermissionError):
        return HostRefused(f"process {process.pid}: may not be signalled by this user (UID {os.geteuid()})", "")
    return HostRefused(f"process {process.pid}: cannot be signalled: {error.strerror or error}", "")
