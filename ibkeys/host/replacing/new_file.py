"""A new file beside the file that it will replace: complete, with the metadata of the old one, and on disk."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from typing import Final

from ibkeys.host.replacing.file_to_replace import Metadata, read_metadata
from ibkeys.host.replacing.rights import ACL

_OF_THE_CONTENT: Final = frozenset({"security.ima", "security.evm"})
"""Extended attributes with checksums of the content. The kernel computes them anew for the new file."""


class MetadataLost(OSError):
    """The new file cannot get the mode, owner, ACL or security label of the old one."""


def create(folder_fd: int, name: str) -> int:
    """Create an empty file of mode 0600 in an open folder, and return its descriptor. The file is locked with flock(2):
    the lock shows other runs that the file is not a left-over (`is_in_use`). Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder_fd)
    with suppress(OSError):  # the file system may have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def fill(descriptor: int, data: bytes, metadata: Metadata) -> None:
    """Write *data* into a new file, set its *metadata*, and sync it to disk.

    Raises MetadataLost if the mode, owner, ACL, label or another attribute that the kernel uses cannot be set. A user
    attribute that cannot be set is left out. Raises OSError for other failures.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    _set_metadata(descriptor, metadata)
    os.fsync(descriptor)


def _set_metadata(descriptor: int, wanted: Metadata) -> None:
    # The owner is set first, because the kernel removes attributes when it changes. The mode is set last, because
    # setting an ACL changes it.
    actual = read_metadata(descriptor)
    if wanted.uid is not None and wanted.gid is not None and (actual.uid, actual.gid) != (wanted.uid, wanted.gid):
        try:
            os.fchown(descriptor, wanted.uid, wanted.gid)
        except OSError as error:
            raise _metadata_lost(f"owner (UID {wanted.uid}, GID {wanted.gid})", error) from None
    if wanted.uid is not None and ACL in actual.attributes and ACL not in wanted.attributes:
        os.removexattr(descriptor, ACL)  # the new file got the ACL from its folder; the old one has none
    for name, value in wanted.attributes.items():
        if actual.attributes.get(name) == value or name in _OF_THE_CONTENT:
            continue
        try:
            os.setxattr(descriptor, name, value)
        except OSError as error:
            if _must_be_kept(name):
                raise _metadata_lost(name, error) from None
    os.fchmod(descriptor, wanted.mode)
    _verify(read_metadata(descriptor), wanted)


def _verify(actual: Metadata, wanted: Metadata) -> None:
    if actual.mode != wanted.mode:
        raise _metadata_lost(f"mode {wanted.mode:04o}: it has {actual.mode:04o}")
    if wanted.uid is not None and (actual.uid, actual.gid) != (wanted.uid, wanted.gid):
        raise _metadata_lost(f"owner (UID {wanted.uid}, GID {wanted.gid})")
    differing = [name for name, value in wanted.attributes.items() if actual.attributes.get(name) != value]
    if wrong := [name for name in differing if _must_be_kept(name)]:
        raise _metadata_lost(", ".join(wrong))


def _must_be_kept(name: str) -> bool:
    return name.startswith(("system.", "security.")) and name not in _OF_THE_CONTENT


def _metadata_lost(what: str, error: OSError | None = None) -> MetadataLost:
    why = f" ({error.strerror})" if error else ""
    return MetadataLost(errno.EPERM if error is None else error.errno, f"the new file cannot be given {what}{why}")


def is_in_use(descriptor: int) -> bool:
    """Return whether another running process still has the lock of a file that `create` made; False on a file system
    without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
