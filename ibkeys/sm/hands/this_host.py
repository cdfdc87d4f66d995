"""This host's hands: files by `ibkeys.host.replacing`, and a signal that no other process can get."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import HostRefused
from ibkeys.host.host_files import THIS_HOST, HostFiles
from ibkeys.host.opensm_process import OpensmProcess, started_at
from ibkeys.host.replacing import replace as replacing
from ibkeys.host.replacing.hindrances import hindrance
from ibkeys.host.replacing.replace import LeftOvers
from ibkeys.host.replacing.seen import SeenFile, look
from ibkeys.sm.hands.other_root import refuse_other_root
from ibkeys.sm.hands.sm_hands import RemoteGuard
from ibkeys.store.journal import FileEntry, Operation

SYSTEMCTL_SECONDS: Final = 30.0
_TOOLS: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_UNIT: Final = re.compile(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*\.service")


def is_unit(name: str | None) -> bool:
    """Return whether *name* can be that of a service: nothing that systemctl would take for an option or a pattern."""
    return name is not None and _UNIT.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class ThisHost:
    """The hands on this host: an `SmHands`. ``tools``: the environment of systemctl."""

    tools: dict[str, str]
    proc: Path = Path("/proc")

    @property
    def name(self) -> str:
        """The name of this host: ""."""
        return self.files.name

    @property
    def files(self) -> HostFiles:
        """Its files, for reading."""
        return THIS_HOST

    def look(self, path: Path) -> SeenFile:
        """Return what is where *path* leads. Raises FileError, FileChanged."""
        seen = look(path)
        refuse_other_root(self.files, path, seen.path)
        return seen

    def hindrance(self, seen: SeenFile) -> str | None:
        """Return why a file cannot be replaced, None when nothing is known to stand in the way. Raises FileError."""
        return hindrance(seen)

    def replace(self, operation: Operation, seen: SeenFile, data: bytes | None, mode: int = 0o644) -> FileEntry:
        """Let *data* take the place of a file. Raises FileChanged, FileError, StoreError, EncodeError."""
        return replacing.replace(operation, seen, data, mode=mode)

    def clean_up(self, entries: Iterable[FileEntry]) -> LeftOvers:
        """Remove what runs that were cut off left beside the files of this host. Raises FileError."""
        return replacing.clean_up(entry for entry in entries if not entry.image.host)

    def may_signal(self, process: OpensmProcess) -> str | None:
        """Return why this user may not tell *process* to read its policy, None if it may."""
        try:
            with self._held(process) as descriptor:
                signal.pidfd_send_signal(descriptor, 0)
        except HostRefused as error:
            return str(error)
        except OSError as error:
            return str(_refused(process, error))
        return None

    def signal(self, process: OpensmProcess) -> None:
        """Send SIGHUP to this very process. Raises HostRefused."""
        try:
            with self._held(process) as descriptor:
                if not self._signal_by_systemd(process):
                    signal.pidfd_send_signal(descriptor, signal.SIGHUP)
        except OSError as error:
            raise _refused(process, error) from None

    def guard(self, seconds: float) -> RemoteGuard | None:
        """None: who goes back on this host is `ibkeys.apply.guardian`."""
        return None

    def confirm_guard(self, token: str) -> bool:
        """False: there is none on this host."""
        return False

    @contextmanager
    def _held(self, process: OpensmProcess) -> Iterator[int]:
        """Give a descriptor that means this very process, whatever gets its ID later. Raises HostRefused, OSError."""
        if process.ticks is None:
            raise HostRefused(f"process {process.pid}: nobody knows when it started, so it may be another one now", "")
        descriptor = os.pidfd_open(process.pid)
        try:
            # In this order: while the descriptor is open, no other process means the same; before, one could.
            if started_at(_stat(self.proc / str(process.pid))) != process.ticks:
                raise HostRefused(f"process {process.pid}: is not the OpenSM any more that was looked at", "")
            yield descriptor
        finally:
            os.close(descriptor)

    def _signal_by_systemd(self, process: OpensmProcess) -> bool:
        """Let systemd send the signal where *process* is the main process of its unit; False where it is not."""
        unit = process.unit
        if unit is None or not is_unit(unit):
            return False
        main = self._systemctl("show", "--property=MainPID", "--", unit)
        if main is None or main.strip() != f"MainPID={process.pid}":
            return False
        return self._systemctl("kill", "--signal=HUP", "--kill-who=main", "--", unit) is not None

    def _systemctl(self, *words: str) -> str | None:
        """Return what systemctl says, None where it says no or is not there."""
        try:
            done = subprocess.run(
                ["systemctl", "--no-ask-password", *words],
                env=self.tools,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=SYSTEMCTL_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode("utf-8", "replace")


THIS: Final = ThisHost(_TOOLS)


def _stat(folder: Path) -> str:
    return files.read_text(folder / "stat", files.SETTINGS, "replace")


def _refused(process: OpensmProcess, error: OSError) -> HostRefused:
    if isinstance(error, ProcessLookupError | FileNotFoundError):
        return HostRefused(f"process {process.pid}: runs no more", "")
    if isinstance(error, PermissionError):
        return HostRefused(f"process {process.pid}: may not be signalled by this user (UID {os.geteuid()})", "")
    return HostRefused(f"process {process.pid}: cannot be signalled: {error.strerror or error}", "")
