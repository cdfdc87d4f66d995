"""The access rights to a file that holds keys: its mode and owner, and those of the directories above."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ibkeys.files import or_none


@dataclass(frozen=True, slots=True)
class FileFact:
    """One file and the directories above it. ``mode`` is the permission bits; ``modified`` in UTC.

    ``parents``: (directory, mode, owner), the nearest first, after symbolic links. ``changed``: time of the last change
    of its bytes, mode or name (ctime), in seconds since 1970; ``written``: time of the last change of its bytes
    (mtime). ``identity``: device and inode. None and -1: not read.
    """

    path: Path
    mode: int
    uid: int
    gid: int
    modified: datetime
    parents: tuple[tuple[Path, int, int], ...] = ()
    written: float | None = None
    changed: float | None = None
    size: int = -1
    identity: tuple[int, int] | None = None

    @property
    def is_private(self) -> bool:
        """Whether the mode alone keeps group and others out. A command that takes rights away looks at this property:
        a directory above that stops others today may be opened later. `others_can_read` says whether others can read
        the file now."""
        return not self.mode & (stat.S_IRWXG | stat.S_IRWXO)

    @property
    def others_can_read(self) -> bool:
        """Whether users other than owner and root can read the file: its mode lets them, and no directory above stops
        them. A file is secret if they cannot. So a file of mode 0644 below a directory of mode 0700 is secret. A
        directory of another user is not considered here: see `strange_owners`. The rights that an ACL gives are within
        the group's bits of the mode (acl(5)).
        """
        return self._others_can(stat.S_IRGRP, stat.S_IROTH)

    @property
    def others_can_write(self) -> bool:
        """Whether users other than owner and root can write the file, or put another file in its place."""
        if self._others_can(stat.S_IWGRP, stat.S_IWOTH):
            return True
        return any(mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX for _, mode, _ in self.parents)

    @property
    def strange_owners(self) -> tuple[int, ...]:
        """User IDs, other than root and the file's owner, that own a directory above: they can replace the file."""
        return tuple(dict.fromkeys(uid for _, _, uid in self.parents if uid not in (0, self.uid)))

    def _others_can(self, group_bit: int, other_bit: int) -> bool:
        # The bits of group and others count together: a user who may enter a directory as a member of its group may be
        # one of the others for the file, and the reverse.
        passes = all(mode & (stat.S_IXGRP | stat.S_IXOTH) for _, mode, _ in self.parents)
        return passes and bool(self.mode & (group_bit | other_bit))


def read_file_fact(path: Path) -> FileFact | None:
    """Return the facts of a file without opening it; None if it does not exist or cannot be reached."""
    return or_none(stat_file, path)


def stat_file(path: Path) -> FileFact:
    """Return the facts of a file or directory without opening it. Raises OSError."""
    status = path.stat()
    real = Path(os.path.realpath(path))
    # Below /proc/PID/root, which is no plain symbolic link, realpath may return the path of another file.
    if not real.exists() or not real.samefile(path):
        real = path.absolute()
    return fact_of(path, status, [(parent, parent.stat()) for parent in real.parents])


def fact_of(path: Path, status: os.stat_result, parents: Iterable[tuple[Path, os.stat_result]]) -> FileFact:
    """Return the facts of the file *path* from its *status*. *parents*: the directories above with their status, the
    nearest first."""
    return FileFact(
        path,
        stat.S_IMODE(status.st_mode),
        status.st_uid,
        status.st_gid,
        datetime.fromtimestamp(status.st_mtime, UTC),
        tuple((parent, stat.S_IMODE(above.st_mode), above.st_uid) for parent, above in parents),
        status.st_mtime,
        status.st_ctime,
        status.st_size,
        (status.st_dev, status.st_ino),
    )


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether two paths lead to the same file or folder; if one does not exist, the resolved paths are
    compared."""
    try:
        return one.samefile(other)
    except OSError:
        return real_path(one) == real_path(other)


def real_path(path: Path) -> str:
    """Return *path* without symbolic links; as it is if a link goes meanwhile, such as /proc/PID/root when the process
    ends."""
    return or_none(os.path.realpath, path) or str(path)
