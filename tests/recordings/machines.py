"""The hosts of made-up OpenSMs: this one, and others that are folders of it under a name of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibkeys.host.host_files import HostFiles, LocalFiles
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.host.replacing.staging import StagedFile
from ibkeys.managers.machines.this_host import ThisHost
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.store.journal import FileEntry, RunningOperation
from tests.smkeys.madeup import NamedOperation

TOKEN = "made-up-guard"


@dataclass(frozen=True, slots=True)
class NamedFiles(LocalFiles):
    """Files of this host under another host's name. ``pids``: the OpenSMs that run there."""

    pids: Callable[[], list[int]] = list

    def processes(self, proc: Path, program: str) -> list[int]:
        return self.pids()


@dataclass(frozen=True, slots=True)
class NamedHost(ThisHost):
    """A `Machine` over files of this host. ``note``: called with what its guard is told."""

    there: NamedFiles = NamedFiles()
    note: Callable[[str], None] = print

    @property
    def name(self) -> str:
        return self.there.name

    @property
    def files(self) -> HostFiles:
        return self.there

    def replace(self, operation: RunningOperation, seen: SeenFile, *words: Any, **options: Any) -> FileEntry:
        return ThisHost.replace(self._named(operation), seen, *words, **options)

    @contextmanager
    def stage(self, operation: RunningOperation, seen: SeenFile, data: bytes, **options: Any) -> Iterator[StagedFile]:
        with ThisHost.stage(self._named(operation), seen, data, **options) as staged:
            yield staged

    def guard(self, seconds: float) -> Any:
        return NamedGuard(self.note, seconds) if self.name else None

    def confirm_guard(self, token: str) -> bool:
        self.note(f"confirm {token}")
        return token == TOKEN

    def _named(self, operation: RunningOperation) -> Any:
        return NamedOperation(operation, self.name) if self.name else operation


class NamedGuard:
    """A guard on another host, which notes what it is told, and is always in time."""

    def __init__(self, note: Callable[[str], None], seconds: float) -> None:
        self._note, self._seconds = note, seconds
        self.token = ""

    def start(self, seen: SeenFile, process: OpensmProcess) -> str:
        self._note(f"began {seen.path}, process {process.pid}, {self._seconds:g} s")
        self.token = TOKEN
        return self.token

    def announce(self, data: bytes) -> None:
        self._note(f"written {len(data)} bytes")

    def keep_alive(self) -> None:
        """It has no time of its own."""

    def start_time_limit(self) -> None:
        self._note("waiting")

    def end(self) -> bool:
        self._note("over")
        return True

    def confirm(self) -> bool:
        self._note("confirm")
        return True
