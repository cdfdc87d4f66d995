"""A made-up host with OpenSMs: its files, modes and times are what a test says. Nothing of this machine is read."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import HostTime
from ibkeys.simulated_host import SimulatedHost

BOOTED = 1_000_000.0
STARTED = BOOTED + 500
"""When each OpenSM of a made-up host started, unless the test says otherwise."""
KEY = "0xfeedc0dedeadbea7"


@dataclass(slots=True)
class Entry:
    """A file (*data*) or directory (None)."""

    data: bytes | None
    mode: int
    changed: float
    uid: int
    number: int
    refused: bool = False


@dataclass(slots=True)
class MadeUpHost:
    """A `HostFiles` out of a table. Paths that others put above a file are made with mode 0755, before any start."""

    name: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    simulated_host: SimulatedHost | None = None

    def __post_init__(self) -> None:
        self.folder("/")

    # --- making it up ------------------------------------------------------------------------------------------------

    def folder(self, path: str, mode: int = 0o755, changed: float = BOOTED) -> None:
        self.entries[path] = Entry(None, mode, changed, 0, len(self.entries))

    def file(
        self, path: str, text: str | bytes = "", mode: int = 0o644, changed: float = BOOTED, refused: bool = False
    ) -> None:
        for parent in list(Path(path).parents)[::-1]:
            if str(parent) not in self.entries:
                self.folder(str(parent))
        data = text.encode() if isinstance(text, str) else text
        self.entries[path] = Entry(data, mode, changed, 0, len(self.entries), refused)

    def opensm(
        self,
        pid: int,
        *arguments: str,
        environment: dict[str, str] | None = None,
        started: float = STARTED,
        umask: str = "0022",
        unit: str = "",
        output: str = "/dev/null",
        cwd: str = "/",
        is_ours: bool = True,
        program: str | None = "/usr/sbin/opensm",
        mounts: str = "mnt:[1]",
    ) -> None:
        """Let an OpenSM run. *is_ours* False: this user may not look at its environment and links. *program*: what it
        runs, None where that cannot be told. *mounts*: its mount namespace; the host has mnt:[1]."""
        proc = f"/proc/{pid}"
        self.file(f"{proc}/cmdline", "".join(f"{word}\0" for word in ("/usr/sbin/opensm", *arguments)))
        self.file(f"{proc}/status", f"Name:\topensm\nUmask:\t{umask}\nUid:\t0\t0\t0\t0\n")
        ticks = int((started - BOOTED) * 100)
        self.file(f"{proc}/stat", f"{pid} (opensm) S {' '.join('0' for _ in range(18))} {ticks} 0 0")
        self.file(f"{proc}/cgroup", f"0::/system.slice/{unit}\n" if unit else "0::/user.slice/session-1.scope\n")
        words = (f"{name}={value}\0" for name, value in (environment or {}).items())
        self.file(f"{proc}/environ", "".join(words), refused=not is_ours)
        if is_ours:
            self.links |= {f"{proc}/cwd": cwd, f"{proc}/root": "/", f"{proc}/fd/1": output, f"{proc}/ns/mnt": mounts}
            self.links["/proc/self/ns/mnt"] = "mnt:[1]"
            if program is not None:
                self.links[f"{proc}/exe"] = program

    # --- HostFiles ---------------------------------------------------------------------------------------------------

    def read(self, path: Path, limit: int) -> bytes:
        entry = self._entry(path)
        if entry.data is None:
            raise IsADirectoryError(errno.EISDIR, "is a directory, not a regular file")
        if entry.refused:
            raise PermissionError(errno.EACCES, "Permission denied")
        if len(entry.data) > limit:
            raise OSError(errno.EFBIG, "too large")
        return entry.data

    def stat(self, path: Path) -> FileFact:
        entry = self._entry(path)
        parents = tuple(
            (parent, self.entries[str(parent)].mode, self.entries[str(parent)].uid)
            for parent in path.parents
            if str(parent) in self.entries
        )
        when = datetime.fromtimestamp(entry.changed, UTC)
        size = len(entry.data or b"")
        identity = (1, entry.number)
        return FileFact(path, entry.mode, entry.uid, 0, when, parents, entry.changed, entry.changed, size, identity)

    def link(self, path: Path) -> str:
        if str(path) not in self.links:
            raise PermissionError(errno.EACCES, "Permission denied")
        return self.links[str(path)]

    def names(self, path: Path) -> list[str]:
        self._entry(path)
        return sorted({Path(each).name for each in self.entries if Path(each).parent == path and each != "/"})

    def processes(self, proc: Path, program: str) -> list[int]:
        return [int(name) for name in self.names(proc) if name.isdecimal()] if str(proc) in self.entries else []

    def clock(self) -> HostTime:
        return HostTime(BOOTED + 1000, 1000, 0.01)

    def own_user(self) -> int:
        return 0

    def _entry(self, path: Path) -> Entry:
        text = os.path.normpath(self.links.get(str(path), str(path)))
        if text not in self.entries:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return self.entries[text]
