"""The OpenSM processes of another host. The program there compares the ID and the start time of a process before it
signals the process."""

from __future__ import annotations

from ibkeys.errors import HostRefused
from ibkeys.managers.machines.systemd import is_unit
from ibkeys.managers.machines.writer import NOTHING, HostWriter, WriterRefused
from ibkeys.managers.opensm.process import OpensmProcess


class RemoteProcesses:
    """Signals, stops and starts the OpenSMs of the host ``name``. `LocalProcesses` has the full documentation of each
    method. Every method but `identify` raises HostNotReached, and every method but `may_signal` raises HostRefused.
    """

    name: str
    writer: HostWriter

    def may_signal(self, process: OpensmProcess) -> str | None:
        """Return the reason why *process* cannot be signalled, None if it can."""
        try:
            self._ask_about("may_hup", process)
        except HostRefused as error:
            return str(error)
        return None

    def signal(self, process: OpensmProcess) -> None:
        """Send SIGHUP to *process*. If systemd fails, the program on the host sends it."""
        self._ask_about("hup", process)

    def stop(self, process: OpensmProcess) -> None:
        """Begin to stop *process*: by systemd if it is the main process of its unit, else by SIGTERM."""
        self._ask_about("stop", process)

    def can_start(self, process: OpensmProcess) -> bool:
        """Return whether *process* is the main process of its systemd unit."""
        return bool(self._ask_about("has_unit", process))

    def start_unit(self, unit: str) -> None:
        """Start a service of systemd on the host."""
        if not is_unit(unit):
            raise HostRefused(f"{self.name}: {unit!r} is not a valid name of a service", self.name)
        try:
            self.writer.ask("start", unit)
        except WriterRefused as refusal:
            raise HostRefused(
                f"{self.name}: {refusal.reason or f'systemctl start {unit}: {refusal.kind}'}", self.name
            ) from None

    def identify(self, process: OpensmProcess) -> tuple[str, str, str]:
        """Return the words by which the program on the host identifies *process*: its ID, its start time in ticks, and
        its unit. Raises HostRefused if the start time is not known."""
        if process.ticks is None:
            raise HostRefused(
                f"{self.name}: process {process.pid}: its start time is not known, so it may be a different process "
                "now",
                self.name,
            )
        unit = process.unit if process.unit is not None and is_unit(process.unit) else NOTHING
        return str(process.pid), str(process.ticks), unit

    def _ask_about(self, question: str, process: OpensmProcess) -> list[str]:
        try:
            return self.writer.ask(question, *self.identify(process))
        except WriterRefused as refusal:
            reason = refusal.reason or "cannot be signalled"
            raise HostRefused(f"{self.name}: process {process.pid}: {reason}", self.name) from None
