"""A folder of snapshots: each named by the time when it was begun, pruned by age, the newest linked as ``latest``.

Only that link, and files with such a name that are snapshots by their header, are touched; all other files in the
folder stay as they are.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

from ibkeys.errors import StoreError
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.printable import counted
from ibkeys.store.private_files import named_errors, os_error
from ibkeys.store.snapshot import SCHEMA, check_place, is_snapshot

LATEST: Final = "latest"
_NAME: Final = re.compile(r"ibkeys-([0-9]{8}T[0-9]{6}Z)(?:-([0-9]{1,6}))?\.db", re.ASCII)
_STAMP: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A file by its name. ``number`` distinguishes files that were begun in one second; they sort by time."""

    begun: datetime
    number: int
    path: Path = field(compare=False)

    @classmethod
    def of(cls, path: Path) -> Self | None:
        found = _NAME.fullmatch(path.name)
        if found is None:
            return None
        try:
            begun = datetime.strptime(found[1], _STAMP).replace(tzinfo=UTC)
        except ValueError:  # a 13th month
            return None
        return cls(begun, int(found[2] or 1), path)


class SnapshotFolder:
    """The snapshots in one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self) -> None:
        """Raise StoreError when no snapshot can be put here, or when ``latest`` exists and is not a link to a snapshot
        of this folder."""
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path}: is not a directory, so it cannot hold snapshots")
        check_place(self.path / "ibkeys-19700101T000000Z.db")
        self._check_latest()

    def place_for(self, snapshot: Snapshot) -> Path:
        """Return the path for *snapshot*: ``ibkeys-20261120T093000Z.db``, with ``-2`` added if that file exists
        already.
        """
        begun = datetime.fromisoformat(snapshot.about.started)
        stem, number = f"ibkeys-{begun.strftime(_STAMP)}", 1
        path = self.path / f"{stem}.db"
        while os.path.lexists(path):
            number += 1
            path = self.path / f"{stem}-{number}.db"
        return path

    def snapshots(self) -> list[Path]:
        """Return the snapshots, the oldest first. Raises StoreError: there is no such folder, or it cannot be read."""
        return [place.path for place in self._places()]

    def last(self, number: int) -> list[Path]:
        """Return the last *number* snapshots, the oldest first. Raises StoreError if there are fewer, and as
        `snapshots` does."""
        found = self.snapshots()
        if len(found) < number:
            raise StoreError(
                f"{self.path} has {counted(len(found), 'snapshot')}, and {number} are needed; `ibkeys snapshot --into "
                f"{self.path}` takes one"
            )
        return found[-number:]

    def finish(self, written: Path, keep: timedelta | None) -> list[Path]:
        """Let ``latest`` lead to *written*. Remove the snapshots that are older than *written* by more than *keep*, and
        return their paths.

        With *keep* None, nothing is removed. The newest snapshot is never removed. Raises StoreError.
        """
        with named_errors(self.path, SCHEMA.what):
            self._link(written)
            return [] if keep is None else self._prune(written, keep)

    def _places(self) -> list[_Place]:
        try:
            with os.scandir(self.path) as entries:
                found = [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
            named = (_Place.of(Path(path)) for path in found)
            return sorted(place for place in named if place is not None and is_snapshot(place.path))
        except FileNotFoundError:
            raise StoreError(f"{self.path}: there is no such folder; `ibkeys snapshot --into` makes one") from None
        except OSError as error:
            path = Path(error.filename or self.path)
            what = "folder of snapshots" if path == self.path else SCHEMA.what
            raise os_error(path, what, error) from error

    def _check_latest(self) -> None:
        link = self.path / LATEST
        if os.path.lexists(link) and not (link.is_symlink() and _NAME.fullmatch(os.readlink(link))):
            raise StoreError(f"{link}: is not a link to a snapshot beside it, so it is not replaced; move it elsewhere")

    def _link(self, written: Path) -> None:
        self._check_latest()
        fresh = self.path / f".{LATEST}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(written.name)
        os.replace(fresh, self.path / LATEST)

    def _prune(self, written: Path, keep: timedelta) -> list[Path]:
        newest = _Place.of(written)
        assert newest is not None
        old = [place.path for place in self._places() if newest.begun - place.begun > keep]
        for path in old:
            path.unlink(missing_ok=True)
        return old


def newest_snapshot(path: Path) -> Path:
    """Return *path*, or its newest snapshot if it is a folder. Raises StoreError if there is none in it."""
    return SnapshotFolder(path).last(1)[0] if path.is_dir() else path
