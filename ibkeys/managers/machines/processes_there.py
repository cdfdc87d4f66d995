"""The OpenSMs of another host: a process is named by its ID and its start, which the program there compares."""

from __future__ import annotations

from ibkeys.errors import HostRefused
from ibkeys.managers.machines.systemd import is_unit
from ibkeys.managers.machines.writer import NOTHING, HostWriter, WriterRefused
from ibkeys.managers.opensm.process import OpensmProcess


class ProcessesThere:
    """The control of the OpenSMs of the host ``name``.

    Every method raises HostNotReached, and HostRefused for a process that is not the one that was examined.
    """

    name: str
    writer: HostWriter

    def may_signal(self, process: OpensmProcess) -> str | None:
        """Return why this user may not signal *process*, None if it may."""
        try:
            self._tell("may_hup", process)
        except HostRefused as error:
            return str(error)
        return None

    def signal(self, process: OpensmProcess) -> None:
        """Send SIGHUP. If systemd does not send it, the program there does."""
        self._tell("hup", process)

    def stop(self, process: OpensmProcess) -> None:
        """Let systemd stop the process, or send SIGTERM. If systemd refuses, nothing is sent: it might start the
        process again."""
        self._tell("stop", process)

    def can_start(self, process: OpensmProcess) -> bool:
        """Return whether the process is the main process of its unit."""
        return bool(self._tell("has_unit", process))

    def start_unit(self, unit: str) -> None:
        """Start a unit of systemd on the host."""
        if not is_unit(unit):
            raise HostRefused(f"{self.name}: {unit!r} is not a valid name of a service", self.name)
        try:
            self.writer.ask("start", unit)
        except WriterRefused as no:
            raise HostRefused(f"{self.name}: {no.reason or f'systemctl start {unit}: {no.kind}'}", self.name) from None

    def words(self, process: OpensmProcess) -> tuple[str, str, str]:
        """Return the words that identify this process to the program there: ID, start, unit."""
        if process.ticks is None:
            raise HostRefused(
                f"{self.name}: process {process.pid}: its start time is not known, so it may be a different process "
                "now",
                self.name,
            )
        unit = process.unit if process.unit is not None and is_unit(process.unit) else NOTHING
        return str(process.pid), str(process.ticks), unit

    def _tell(self, question: str, process: OpensmProcess) -> list[str]:
        try:
            return self.writer.ask(question, *self.words(process))
        except WriterRefused as no:
            reason = no.reason or "cannot be signalled"
            raise HostRefused(f"{self.name}: process {process.pid}: {reason}", self.name) from None
