"""A folder of pages that is replaced as a whole: readers see the earlier report or this one, never a part of one. On a
file system that cannot exchange two folders atomically, there is no report for a moment.

The pages name hosts, GUIDs and partitions, but hold no key. Their owner decides who may see them, so the folder has
mode 0700 and its files 0600.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import StoreError
from ibkeys.host.replacing.renames import AT_FDCWD, EXCHANGE, renameat2

FIRST: Final = "index.html"
MARK: Final = '<meta name="generator" content="ibkeys report">'
"""A tag in the first page of a report. A folder without it is not a report of ibkeys and is not replaced, unless it is
empty."""
NAMES: Final = frozenset(
    {
        FIRST,
        *("audit.html", "matrix.html", "diff.html", "journal.html"),
        *("map-partition.svg", "map-level.svg", "map-finding.svg"),
    }
)
_HEAD: Final = 4096


def check_folder(place: Path) -> None:
    """Raise StoreError if no report can be written at *place*. That is so if *place* exists and is neither a report nor
    an empty folder, or if its directory does not exist or is not writable.
    """
    with _as_one_error(place):
        parent = place.absolute().parent
        if not parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "the folder above it does not exist", str(parent))
        if not os.access(parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"no permission to write in {parent}")
        if os.path.lexists(place) and not _may_be_replaced(place):
            raise StoreError(
                f"{place}: exists and is not a report that ibkeys wrote, so it is not replaced: name a new folder"
            )


def write_folder(place: Path, pages: Mapping[str, str]) -> None:
    """Write *pages* (name → text) as the folder *place*, in place of an earlier report. Raises StoreError."""
    check_folder(place)
    with _as_one_error(place):
        made = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.absolute().parent))
        try:
            for name, page in pages.items():
                files.replace_file(made / name, page.encode("utf-8"))
            _put_in_place(made, place)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _may_be_replaced(place: Path) -> bool:
    if not stat.S_ISDIR(os.lstat(place).st_mode):
        return False
    names = set(os.listdir(place))
    if not names:
        return True
    return names <= NAMES and FIRST in names and MARK.encode() in files.read_head(place / FIRST, _HEAD)


def _put_in_place(made: Path, place: Path) -> None:
    """Exchange the folders *made* and *place*; if *place* does not exist, rename *made* to it."""
    if not place.exists():
        os.rename(made, place)
        return
    try:
        exchange(made, place)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        exchange_in_steps(made, place)


def exchange(one: Path, other: Path) -> None:
    """Exchange two names atomically (Linux 3.15). Raises OSError; EINVAL if the file system cannot."""
    renameat2(AT_FDCWD, os.fspath(one), os.fspath(other), EXCHANGE)


def exchange_in_steps(made: Path, place: Path) -> None:
    """Exchange two folders as `exchange` does, on NFS and file systems that cannot do so atomically.

    For a moment *place* does not exist. After an error the earlier folder is put back.
    """
    aside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.absolute().parent))
    os.rename(place, aside)
    try:
        os.rename(made, place)
    except BaseException:
        with suppress(OSError):
            os.rename(aside, place)
        raise
    os.rename(aside, made)


def _as_one_error(place: Path) -> AbstractContextManager[None]:
    return files.os_errors_as(StoreError, f"{place}: the report cannot be written")
