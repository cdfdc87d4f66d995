"""An OpenSM options file on some host as last seen, and the permissions that it gets when it holds keys."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ibkeys.errors import FileChanged, FileError
from ibkeys.host.conf.references import key_references
from ibkeys.host.replacing.seen import SeenFile
from ibkeys.sm.machines.machine import Machine
from ibkeys.store.journal import FileEntry, Operation
from ibkeys.store.keys.keystore import KeyStore


@dataclass(slots=True)
class ConfFile:
    """One options file. ``path``: as its host has it; ``seen``: as it was last seen; ``user``: the user ID of the
    OpenSM that has to read it."""

    machine: Machine
    path: Path
    seen: SeenFile
    user: int

    @classmethod
    def at(cls, machine: Machine, path: Path, user: int) -> Self:
        """Look at an options file. Raises FileError, FileChanged, HostNotReached."""
        seen = machine.look(path)
        if seen.data is None:
            raise FileError(f"{path}: no longer exists")
        return cls(machine, path, seen, user)

    @property
    def name(self) -> str:
        """The real file, with its host."""
        return f"{self.seen.path} on {self.machine.name}" if self.machine.name else str(self.seen.path)

    @property
    def key(self) -> tuple[str, str]:
        """Host and real path: what the journal knows it by."""
        return self.machine.name, str(self.seen.path)

    @property
    def data(self) -> bytes:
        """Its contents."""
        return self.seen.data or b""

    @property
    def is_open(self) -> bool:
        """Whether users other than its owner may read or write it."""
        return self.seen.found is not None and bool(self.seen.found.metadata.mode & (stat.S_IRWXG | stat.S_IRWXO))

    @property
    def rights(self) -> int | None:
        """The permission bits that it gets: the owner's, as far as its OpenSM can still read it. None: as they are, for
        they are so already, or what else lets that OpenSM read the file is not known."""
        if self.seen.found is None or not self.is_open:
            return None
        metadata = self.seen.found.metadata
        return metadata.mode & stat.S_IRWXU if self.user in (0, metadata.uid) else None

    @property
    def why_it_stays_open(self) -> str:
        """A note for the user where others than its owner keep their rights on it, "" if nobody does."""
        if not self.is_open or self.rights is not None:
            return ""
        assert self.seen.found is not None  # it is open
        metadata = self.seen.found.metadata
        return (
            f"{self.name} holds keys and keeps its mode, {metadata.mode:04o}: it belongs to UID {metadata.uid}, and "
            f"its OpenSM, which has to read it, runs as UID {self.user}: chown {self.user} and chmod 0600"
        )

    def write(self, new: bytes, operation: Operation, store: KeyStore) -> FileEntry | None:
        """Replace its contents by *new*; None when they are equal already.

        The journal gets references to the key store in place of keys. Raises FileChanged if somebody else changed it,
        FileFormatError for a key that the journal could not restore, FileError, HostNotReached, StoreError.
        """
        if new == self.data or self._has_become(new):
            return None
        entry = self.machine.replace(operation, self.seen, new, contents=key_references(store), rights=self.rights)
        self.seen = self.machine.look(self.path)
        if self.seen.data != new:
            raise FileChanged(f"{self.name}: somebody else changed it right after ibkeys did")
        return entry

    def _has_become(self, new: bytes) -> bool:
        """Whether it says *new* already: OpenSMs of one host may share one options file, or hosts one folder."""
        now = self.machine.look(self.path)
        if now.data == new:
            self.seen = now
        return now.data == new

    def verify(self, otherwise: str) -> None:
        """Raise FileChanged if it is not as it was left. *otherwise*: what was not done then, in words."""
        if self.machine.look(self.path) != self.seen:
            raise FileChanged(f"{self.name}: somebody else changed it in the meantime; {otherwise}")
