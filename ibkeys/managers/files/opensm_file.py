"""An options file or policy of OpenSM on a host, as it was last read, and replacing it."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ibkeys.errors import FileChanged, FileError, FileFormatError
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.managers.instance import Role
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.opensm.edit import NewValue, with_options
from ibkeys.managers.site import RunningOpensm
from ibkeys.store.journal import FileEntry, RunningOperation


class NotSeenByOpensm(FileError):
    """A running OpenSM does not see the new contents of a file in its own file system. If ibkeys has just replaced the
    file, the former contents are restored."""


FileKey = tuple[str, str]
"""The name of a host, "" for this one, and a path there."""


@dataclass(slots=True)
class OpensmFile:
    """A file of OpenSM. ``machine``: its host; ``path``: its path there; ``seen``: the file when it was last read.
    ``holds_keys``: whether it may have keys, so that a replacement leaves rights only to its owner (`rights`);
    ``user``: the user ID of its OpenSM, 0 for a file without keys. ``opensms``: the running OpenSMs that read it;
    ``places``: for each of them, the path by which ibkeys reaches the file that the OpenSM sees.
    """

    machine: Machine
    path: Path
    seen: SeenFile
    holds_keys: bool = False
    user: int = 0
    opensms: list[RunningOpensm] = field(default_factory=list)
    places: list[Path] = field(default_factory=list)

    @classmethod
    def at(cls, machine: Machine, path: Path, user: int | None = None) -> Self:
        """Read the file *path*, without checking later that a running OpenSM sees it. *user*: for a file with keys, the
        user ID of the OpenSM that reads it; None for a file without keys. Raises FileError, FileChanged,
        HostNotReached."""
        return cls(machine, path, machine.look(path), user is not None, user or 0)

    @classmethod
    def of(cls, running: RunningOpensm, role: Role, holds_keys: bool) -> Self:
        """Read the file of this *role* of a running OpenSM. Raises the errors of `RunningOpensm.place_of` and
        `RunningOpensm.read_user`, and FileChanged."""
        path, place = running.place_of(role)
        user = running.read_user() if holds_keys else 0
        return cls(running.machine, path, running.machine.look(path), holds_keys, user, [running], [place])

    def require(self) -> Self:
        """Return this object. Raises FileError if the file does not exist any more."""
        if self.seen.data is None:
            raise FileError(f"{self.path}: no longer exists")
        return self

    @property
    def name(self) -> str:
        """The real path of the file, with the name of another host, for messages."""
        return f"{self.seen.path} on {self.machine.name}" if self.machine.name else str(self.seen.path)

    @property
    def key(self) -> FileKey:
        """The key of the file in the journal: the name of its host and its real path."""
        return self.machine.name, str(self.seen.path)

    @property
    def data(self) -> bytes:
        """The contents of the file; b"" if it does not exist."""
        return self.seen.data or b""

    @property
    def others_have_rights(self) -> bool:
        """Whether the file's mode gives rights to users other than its owner."""
        return self.seen.found is not None and bool(self.seen.found.metadata.mode & (stat.S_IRWXG | stat.S_IRWXO))

    @property
    def rights(self) -> int | None:
        """The permission bits that the file gets when it is replaced: only those of its owner. None: the bits stay.

        It is None if the file does not exist or has no keys, if only its owner has rights already, or if its OpenSM
        runs as neither the owner nor root, so that it could not read the file any more.
        """
        if not self.holds_keys or self.seen.found is None or not self.others_have_rights:
            return None
        metadata = self.seen.found.metadata
        return metadata.mode & stat.S_IRWXU if self.user in (0, metadata.uid) else None

    @property
    def why_others_keep_rights(self) -> str:
        """A note for the user if users other than the owner will keep rights on a file with keys, else ""."""
        if not self.others_have_rights or self.rights is not None:
            return ""
        assert self.seen.found is not None  # `others_have_rights` is False for a file that does not exist
        metadata = self.seen.found.metadata
        return (
            f"{self.name} holds keys and keeps its mode, {metadata.mode:04o}: it belongs to UID {metadata.uid}, and "
            f"its OpenSM, which has to read it, runs as UID {self.user}: chown {self.user} and chmod 0600"
        )

    def put(
        self, operation: RunningOperation, new: bytes | None, conversions: FileConversions = WITHOUT_KEYS
    ) -> FileEntry | None:
        """Replace the contents of the file by *new* (None removes the file), and return the entry in the journal.
        Return None if its contents are *new* already: two OpenSMs of one host may share an options file, and two hosts
        a folder.

        *conversions*: those of the file's bytes for the journal. Raises FileChanged if another program changed the
        file, NotSeenByOpensm if an OpenSM does not see the new contents, FileFormatError for a key that the journal
        could not restore; FileError, HostNotReached, StoreError, EncodeError.
        """
        former = self.seen
        if former.data == new:
            return None
        if self.holds_keys and (now := self.machine.look(self.path)).data == new:
            self.seen = now
            for problem in self.find_blind_opensms(new):
                raise NotSeenByOpensm(problem)
            return None
        entry = self.machine.replace(operation, former, new, conversions=conversions, rights=self.rights)
        self.read_again(new)
        for problem in self.find_blind_opensms(new):
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
        """Restore the *former* contents (None: no file), and set both the journal's *entry* of the change and that of
        the restoration to ``failed``. Raises as `put`."""
        self.machine.replace(operation, self.seen, former, conversions=conversions).failed()
        entry.failed()
        self.seen = self.machine.look(self.path)

    def read_again(self, new: bytes | None) -> None:
        """Read the file again after it was replaced by *new*. Raises FileChanged if its contents are not *new*,
        FileError, HostNotReached."""
        self.seen = self.machine.look(self.path)
        if self.seen.data != new:
            raise FileChanged(f"{self.name}: another user or program changed it right after ibkeys did")

    def find_blind_opensms(self, new: bytes | None) -> Iterable[str]:
        """Yield, in words, each OpenSM that does not see the contents *new* of the file, because its own mounts still
        have the old file. If *new* is None, the file was removed, and no OpenSM is checked. Raises HostNotReached."""
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
        """Return the contents of this options file with a line for each of *values*; all other bytes stay. Raises
        FileFormatError."""
        try:
            return with_options(self.data, values)
        except FileFormatError as error:
            raise FileFormatError(error.fault, self.name) from None

    def verify(self, otherwise: str) -> None:
        """Raise FileChanged if another program changed the file since it was read. *otherwise*: the end of the message,
        which says what was not done because of that. Raises FileError, HostNotReached too."""
        if self.machine.look(self.path) != self.seen:
            raise FileChanged(f"{self.name}: another user or program changed it in the meantime; {otherwise}")


def merge_files(files: Iterable[OpensmFile]) -> list[OpensmFile]:
    """Return each of *files* once, with all OpenSMs that read it.

    They are in the order of their last occurrence in *files*, so that the master's file stays the last one. If one of
    the OpenSMs runs as neither root nor the owner of the file, the merged file has its user ID, so that the file's
    rights stay.
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
