"""A new file beside the file that it will replace: complete, with the metadata of the old one, and on disk."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from typing import Final

from ibkeys.host.replacing.looked_up import Metadata, read_metadata
from ibkeys.host.replacing.rights import ACL

_OF_THE_CONTENT: Final = frozenset({"security.ima", "security.evm"})
"""Attributes with checksums of the former content, which the kernel computes again."""


class MetadataLost(OSError):
    """The new file cannot get the mode, owner, ACL or security label of the old one."""


def create(folder: int, name: str) -> int:
    """Return a descriptor of a new, empty file of mode 0600 in an open folder, locked by this process. Raises OSError.

    The lock shows a later run that the file is not a left-over: see `is_in_use`.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def fill(descriptor: int, data: bytes, metadata: Metadata) -> None:
    """Write all of a new file, give it its metadata, and put it on disk. Raises MetadataLost, OSError.

    ACL, label and every other attribute that the kernel uses must be kept; a user attribute is kept if possible.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    _give(descriptor, metadata)
    os.fsync(descriptor)


def _give(descriptor: int, wanted: Metadata) -> None:
    # The owner first: changing it takes attributes away. The mode last: setting an ACL changes it.
    has = read_metadata(descriptor)
    if wanted.uid is not None and wanted.gid is not None and (has.uid, has.gid) != (wanted.uid, wanted.gid):
        try:
            os.fchown(descriptor, wanted.uid, wanted.gid)
        except OSError as error:
            raise _lost(f"owner (UID {wanted.uid}, GID {wanted.gid})", error) from None
    if wanted.uid is not None and ACL in has.attributes and ACL not in wanted.attributes:
        os.removexattr(descriptor, ACL)  # the new file has it from its folder, the old one did not
    for name, value in wanted.attributes.items():
        if has.attributes.get(name) == value or name in _OF_THE_CONTENT:
            continue
        try:
            os.setxattr(descriptor, name, value)
        except OSError as error:
            if _must_be_kept(name):
                raise _lost(name, error) from None
    os.fchmod(descriptor, wanted.mode)
    _verify(read_metadata(descriptor), wanted)


def _verify(has: Metadata, wanted: Metadata) -> None:
    if has.mode != wanted.mode:
        raise _lost(f"mode {wanted.mode:04o}: it has {has.mode:04o}")
    if wanted.uid is not None and (has.uid, has.gid) != (wanted.uid, wanted.gid):
        raise _lost(f"owner (UID {wanted.uid}, GID {wanted.gid})")
    differing = [name for name, value in wanted.attributes.items() if has.attributes.get(name) != value]
    if wrong := [name for name in differing if _must_be_kept(name)]:
        raise _lost(", ".join(wrong))


def _must_be_kept(name: str) -> bool:
    return name.startswith(("system.", "security.")) and name not in _OF_THE_CONTENT


def _lost(what: str, error: OSError | None = None) -> MetadataLost:
    why = f" ({error.strerror})" if error else ""
    return MetadataLost(errno.EPERM if error is None else error.errno, f"the new file cannot be given {what}{why}")


def is_in_use(descriptor: int) -> bool:
    """Return whether another running process is writing an open file that `create` made."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
