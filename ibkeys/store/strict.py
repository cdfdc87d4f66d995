"""Checking that only the user and root can change a store, by the rules of ssh's StrictModes.

The file belongs to the user or to root and has one name. Every directory of its path, links included, belongs to the
user or to root, and no other user may write there: a user who may rename a directory, or put SQLite's ``-journal``
beside the file, decides the contents of the store. In a sticky directory, such as /tmp, others cannot rename files that
are not theirs, so it may be further up in the path, but not directly above the file. Under sudo the files of the user
who ran it count as the user's own.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from ibkeys.errors import StoreError
from ibkeys.files import refuse_strange_file, trusted_users

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MOST_LINKS: Final = 40
"""Most symbolic links that are followed, as in the kernel."""


def check_own(path: Path, what: str) -> None:
    """Raise StoreError if *path* is not a regular file, or if a user other than this one and root can read it, change
    it or put another file in its place.

    For a missing file only the directories are checked. *what*: the kind of file, for the message. Raises OSError.
    """
    check_folders(path, what)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path}: is not a regular file, so it cannot be a {what}")
    if status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise StoreError(
            f"{path}: other users may read or write this {what} (mode {mode:04o}); chmod 600 it, and "
            "consider its secrets compromised"
        )
    try:
        refuse_strange_file(status)
    except OSError as error:
        raise StoreError(
            f"{path}: this {what} {error.strerror}; copy it into a directory of your own, or name another file"
        ) from None


def check_folders(path: Path, what: str) -> None:
    """Raise StoreError if a user other than this one and root can put another file in place of *path*. *what*: the kind
    of file, for the message. Raises OSError.
    """
    users = trusted_users()
    steps, parent = _path_steps(path)
    for folder, status in steps:
        if status.st_uid not in users:
            owner = f"belongs to another user (UID {status.st_uid})"
            kind = "link" if stat.S_ISLNK(status.st_mode) else "directory"
            raise StoreError(
                f"{path}: the {kind} {folder} {owner}, who could replace this {what}; keep it in a directory "
                "of your own"
            )
        if stat.S_ISLNK(status.st_mode) or not _can_others_write(status, users):
            continue
        if folder == parent or not status.st_mode & stat.S_ISVTX:
            raise StoreError(
                f"{path}: other users may write in {folder} (mode {stat.S_IMODE(status.st_mode):04o}), so "
                f"they could replace this {what}; keep it in a directory of your own (mkdir -m 700)"
            )


def _path_steps(path: Path) -> tuple[list[tuple[str, os.stat_result]], str | None]:
    """Return the directories and symbolic links that the kernel passes when it opens *path*, with their status, as far
    as they exist; and the directory of the file itself, None if that does not exist yet.
    """
    place = "/"
    # The working directory may be gone, which does not matter for an absolute path.
    whole = os.fspath(path) if path.is_absolute() else os.path.join(os.getcwd(), path)
    words = [*reversed(whole.split("/"))]
    steps = [(place, os.lstat(place))]
    links = 0
    while words:
        word = words.pop()
        if word in ("", "."):
            continue
        if word == "..":
            place = os.path.dirname(place)
            continue
        entry = os.path.join(place, word)
        try:
            status = os.lstat(entry)
        except FileNotFoundError:
            return steps, None if words else place
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            steps.append((entry, status))
            target = os.readlink(entry)
            place = "/" if target.startswith("/") else place
            words += reversed(target.split("/"))
        elif stat.S_ISDIR(status.st_mode):
            place = entry
            steps.append((place, status))
        else:
            return steps, place
    return steps, place


def _can_others_write(status: os.stat_result, users: frozenset[int]) -> bool:
    """Return whether users other than *users* may write in a directory. A group with no other members does not
    count."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not is_private_group(status.st_gid, users)


def is_private_group(gid: int, users: frozenset[int]) -> bool:
    """Return whether the group *gid* has members and all of them are *users*, as where each user has a group of his own
    name. Debian's sshd has the same rule. False for a group without members: a set-group-ID program may give such a
    group to anyone who runs the program.
    """
    import grp
    import pwd

    try:
        members = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(gid).gr_mem}
    except KeyError:
        return False
    members |= {user.pw_uid for user in pwd.getpwall() if user.pw_gid == gid}
    return bool(members) and members <= users
