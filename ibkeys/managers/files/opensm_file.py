"""A file of OpenSM on a host as it was last read, an options file or a policy, and replacing it."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ibkeys.errors import FileChanged, FileError, FileFormatError
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.looked_up import SeenFile
from ibkeys.managers.instance import Role
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.opensm.edit import NewValue, with_options
from ibkeys.managers.site import Running
from ibkeys.store.journal import FileEntry, RunningOperation


class NotSeenByOpensm(FileError):
    """A file was replaced, but a running OpenSM does not have the new file in its file system; the former contents are
    restored."""


FileKey = tuple[str, str]
"""The name of a host, "" for this one, and a path there."""


@dataclass(slots=True)
class OpensmFile:
    """One file. ``path``: its name on its host; ``seen``: its state when it was last read; ``holds_keys``: only its
    owner may read it, and the OpenSM whose user ID is ``user``; ``opensms``: the running ones that read it, at
    ``places`` in their own file systems.
    """

    machine: Machine
    path: Path
    seen: SeenFile
    holds_keys: bool = False
    user: int = 0
    opensms: list[Running] = field(default_factory=list)
    places: list[Path] = field(default_factory=list)

    @classmethod
    def at(cls, machine: Machine, path: Path, user: int | None = None) -> Self:
        """Read a file that no running OpenSM has to have. *user*: the user ID of the OpenSM that reads it, where it
        holds keys. Raises FileError, FileChanged, HostNotReached."""
        return cls(machine, path, machine.look(path), user is not None, user or 0)

    @classmethod
    def of(cls, running: Running, role: Role, holds_keys: bool) -> Self:
        """Read a file that an OpenSM reads. Raises the errors of `Running.place_of` and `Running.read_user`, and
        FileChanged."""
        path, place = running.place_of(role)
        user = running.read_user() if holds_keys else 0
        return cls(running.machine, path, running.machine.look(path), holds_keys, user, [running], [place])

    def require(self) -> Self:
        """Return the file itself. Raises FileError if it does not exist any more."""
        if self.seen.data is None:
            raise FileError(f"{self.path}: no longer exists")
        return self

    @property
    def name(self) -> str:
        """The path of the real file, with its host."""
        return f"{self.seen.path} on {self.machine.name}" if self.machine.name else str(self.seen.path)

    @property
    def key(self) -> FileKey:
        """Host and real path: the key of the file in the journal."""
        return self.machine.name, str(self.seen.path)

    @property
    def data(self) -> bytes:
        """The contents of the file; empty where there is no file."""
        return self.seen.data or b""

    # --- its rights ---------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether users other than the owner of the file may read or write it."""
        return self.seen.found is not None and bool(self.seen.found.metadata.mode & (stat.S_IRWXG | stat.S_IRWXO))

    @property
    def rights(self) -> int | None:
        """The permission bits that a file with keys gets: the owner's, if its OpenSM can still read it then.

        None: the bits stay as they are. There is no file, or it holds no keys, or only its owner has access already, or
        its OpenSM runs as neither the owner nor root.
        """
        if not self.holds_keys or self.seen.found is None or not self.is_open:
            return None
        metadata = self.seen.found.metadata
        return metadata.mode & stat.S_IRWXU if self.user in (0, metadata.uid) else None

    @property
    def why_it_stays_open(self) -> str:
        """A note for the user if others than its owner can still read or write it, else ""."""
        if not self.is_open or self.rights is not None:
            return ""
        assert self.seen.found is not None  # it is open
        metadata = self.seen.found.metadata
        return (
            f"{self.name} holds keys and keeps its mode, {metadata.mode:04o}: it belongs to UID {metadata.uid}, and "
            f"its OpenSM, which has to read it, runs as UID {self.user}: chown {self.user} and chmod 0600"
        )

    # --- replacing it -------------------------------------------------------------------------------------------------

    def put(
        self, operation: RunningOperation, new: bytes | None, conversions: FileConversions = WITHOUT_KEYS
    ) -> FileEntry | None:
        """Replace the file by *new*, or remove it for None. Return None if it holds *new* already: two OpenSMs of one
        host may share one options file, and two hosts one folder.

        *contents*: which bytes of it the journal keeps. Raises FileChanged if another program changed it,
        NotSeenByOpensm if an OpenSM does not have the new file in its file system, FileFormatError for a key that the
        journal could not restore, and FileError, HostNotReached, StoreError.
        """
        former = self.seen
        if former.data == new:
            return None
        if self.holds_keys and (now := self.machine.look(self.path)).data == new:
            self.seen = now
            for problem in self.not_seeing(new):
                raise NotSeenByOpensm(problem)
            return None
        entry = self.machine.replace(operation, former, new, conversions=conversions, rights=self.rights)
        self.look_at(new)
        for problem in self.not_seeing(new):
            self.restore(operation, former.data, entry, conversions)
            raise NotSeenByOpensm(f"{problem}; the former file is restored")
        return entry

    def restore(
        self,
        operation: RunningOperation,
        former: bytes | None,
        entry: FileEntry,
        conversions: FileConversions = WITHOUT_KEYS,
    ) -> None:
        """Restore the *former* contents, and record that the change of *entry* failed. Raises as `put`."""
        self.machine.replace(operation, self.seen, former, conversions=conversions).failed()
        entry.failed()
        self.seen = self.machine.look(self.path)

    def look_at(self, new: bytes | None) -> None:
        """Read the file after it was replaced by *new*. Raises FileChanged if it holds something else."""
        self.seen = self.machine.look(self.path)
        if self.seen.data != new:
            raise FileChanged(f"{self.name}: another user or program changed it right after ibkeys did")

    def not_seeing(self, new: bytes | None) -> Iterable[str]:
        """Yield, in words, each OpenSM that does not read the file as *new*: its mounts may still have the old file.
        For a file that was removed no OpenSM is checked."""
        for running, place in zip(self.opensms, self.places, strict=True):
            if new is None or place == self.path:
                continue
            why = "it has its own mount namespace"
            try:
                if self.machine.files.read(place, len(new) + 1) == new:
                    continue
            except OSError:
                if not self.machine.is_running(running.instance.process):
                    why = "it no longer runs, or was restarted"
            yield f"{self.name}: {running.instance.name} does not see the new file: {why}"

    def with_options(self, values: Mapping[str, NewValue]) -> bytes:
        """Return an options file with *values* as explicit lines; every other byte stays. Raises FileFormatError."""
        try:
            return with_options(self.data, values)
        except FileFormatError as error:
            raise FileFormatError(error.fault, self.name) from None

    def verify(self, otherwise: str) -> None:
        """Raise FileChanged if another program changed the file. *otherwise*: the step that was not done because of
        that, in words."""
        if self.machine.look(self.path) != self.seen:
            raise FileChanged(f"{self.name}: another user or program changed it in the meantime; {otherwise}")


def merged(files: Iterable[OpensmFile]) -> list[OpensmFile]:
    """Return each file once, with all OpenSMs that read it.

    The order is that in which each occurs last, so that the master's file stays the last one. A file is closed to all
    but its owner only if all of these OpenSMs can still read it then.
    """
    found: dict[FileKey, OpensmFile] = {}
    for file in files:
        known = found.pop(file.key, None)
        if known is not None:
            file.opensms, file.places = [*known.opensms, *file.opensms], [*known.places, *file.places]
            owner = file.seen.found.metadata.uid if file.seen.found is not None else None
            file.user = next((user for user in (known.user, file.user) if user not in (0, owner)), file.user)
        found[file.key] = file
    return list(found.values())
