"""Reading and writing files that a user names: whole, bounded, and only regular files.

A name may lead to a device, to a pipe without a writer, or to a link that another user made; and a command is often run
by root. So a regular file is read, up to a limit. Any other file is read only if this process inherited it, such as
``/dev/stdin``, or the ``/dev/fd/63`` of a shell's ``<(...)``. Writing follows no link, except one that `check_output`
was allowed to follow. Every failure is an OSError whose ``strerror`` has the reason in words, except that text in
another encoding than UTF-8 is a UnicodeDecodeError.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, ParamSpec, TypeVar

from ibkeys.closing import closing_descriptor

T = TypeVar("T")
P = ParamSpec("P")

KIB: Final = 1 << 10
MIB: Final = 1 << 20

# The most bytes of each kind of file. The largest subnet has 48,000 LIDs; each limit admits the file of a subnet
# several times as large. A wrong file of that size is still refused in well under a second, in the memory of a small
# host.
SECRET: Final = 4 * KIB
"""A key, a passphrase, a short list of keys."""
SETTINGS: Final = MIB
"""ibdiag.conf, opensm.conf, files of a process in /proc."""
LIST: Final = 32 * MIB
"""One line for each node or port: names, GUIDs, partitions, waivers, OpenSM's key files, scripts."""
LARGE: Final = 256 * MIB
"""Policies, net files, plans: many lines for each port."""
STATE: Final = 1024 * MIB
"""The state of a simulated subnet: every attribute of every node, in hex."""

_INHERITED: Final = re.compile(r"/(?:dev/fd|proc/(?:self|thread-self|(?P<pid>[0-9]+))/fd)/(?P<fd>[0-9]{1,6})")
_STANDARD: Final = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_CHUNK: Final = MIB
_FLAGS: Final = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # O_NONBLOCK: opening a FIFO without a writer does not block


class NoRegularFile(OSError):
    """A name leads to a directory, a FIFO, a socket or a device; or to a symbolic link, where no link is allowed."""


class ChangedMeanwhile(OSError):
    """A file was changed or replaced after it was read, so it is not replaced now."""


def or_none(read: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | None:
    """Return the result of *read* for the arguments *args* and *named*; None if it raises OSError."""
    try:
        return read(*args, **named)
    except OSError:
        return None


@contextmanager
def os_errors_as(error: Callable[[str], Exception], what: str) -> Iterator[None]:
    """Turn an OSError in this block into *error*. The message is *what*, and the reason of the OSError."""
    try:
        yield
    except OSError as failure:
        raise error(f"{what}: {failure.strerror or failure}") from failure


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return all bytes of a file, which may have at most *limit* bytes.

    Raises OSError for a file that is missing, not readable, larger than *limit*, or neither regular nor inherited.
    """
    return read_with_mode(path, limit)[0]


def read_text(path: str | os.PathLike[str], limit: int, errors: str = "strict") -> str:
    """Return all of a file as UTF-8 text. *errors*: the treatment of invalid bytes, as for `bytes.decode`.

    Raises the errors of `read_bytes`, and UnicodeDecodeError if *errors* is "strict".
    """
    return read_bytes(path, limit).decode("utf-8", errors)


def read_with_mode(path: str | os.PathLike[str], limit: int) -> tuple[bytes, int | None]:
    """Return all bytes of a file, and its permission bits; None in their place if it is not a regular file (a pipe).

    *limit*: the most bytes it may have. Raises the errors of `read_bytes`.
    """
    data, status = read_with_status(path, limit)
    return data, stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def read_with_status(path: str | os.PathLike[str], limit: int) -> tuple[bytes, os.stat_result]:
    """Return all bytes of a file, and its status. *limit*: the most bytes it may have.

    The status is that of the open file, even if another file has the name by then. Raises the errors of `read_bytes`.
    """
    return _read_and_close(*_open_to_read(path), limit)


def read_to_replace(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """Return all bytes of a regular file, and its status for `replace_as_read`. *limit*: the most bytes it may have.

    Inherited descriptors have no special meaning here. Raises the errors of `read_bytes`, also for a symbolic link.
    """
    refuse_what_is_no_file(path)  # before it is opened: opening alone makes some devices act
    return _read_and_close(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | _FLAGS), False, limit)


def read_head(path: str | os.PathLike[str], size: int) -> bytes:
    """Return the first *size* bytes of a regular file, or all of a smaller one. Raises OSError."""
    refuse_what_is_no_file(path)
    with closing_descriptor(os.open(path, os.O_RDONLY | _FLAGS)) as descriptor:
        return os.pread(descriptor, size, 0)


def open_to_read(path: str | os.PathLike[str], limit: int) -> BinaryIO:
    """Return a file that is open for reading in parts.

    *limit*: the most bytes that a regular file may have. The bytes of a pipe are not counted here: the caller has to
    count them. Raises the errors of `read_bytes`.
    """
    descriptor, is_inherited = _open_to_read(path)
    try:
        status = os.fstat(descriptor)
        if not is_inherited:
            refuse_mode(status.st_mode)
        if stat.S_ISREG(status.st_mode) and status.st_size > limit:
            raise too_large(limit)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_descriptor(descriptor: int, limit: int) -> bytes:
    """Return all bytes of an open file from its beginning, whatever its offset; of a pipe, all bytes up to its end.

    *limit*: the most bytes. Raises OSError if there are more, or if reading fails.
    """
    status = os.fstat(descriptor)
    is_file = stat.S_ISREG(status.st_mode)
    if is_file and status.st_size > limit:
        raise too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        chunk = min(_CHUNK, limit + 1 - size)
        part = os.pread(descriptor, chunk, size) if is_file else os.read(descriptor, chunk)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > limit:
            raise too_large(limit)


def inherited(path: str | os.PathLike[str]) -> int | None:
    """Return the number of the descriptor of this process that *path* names, such as ``/dev/fd/63``; else None."""
    text = os.path.normpath(os.fspath(path))
    if text in _STANDARD:
        return _STANDARD[text]
    match = _INHERITED.fullmatch(text)
    if match is None or (match["pid"] and int(match["pid"]) != os.getpid()):
        return None
    return int(match["fd"])


def _open_to_read(path: str | os.PathLike[str]) -> tuple[int, bool]:
    number = inherited(path)
    if number is not None:
        return os.dup(number), True
    refuse_what_is_no_file(path)  # before it is opened: opening alone makes some devices act
    return os.open(path, os.O_RDONLY | _FLAGS), False


def _read_and_close(descriptor: int, is_inherited: bool, limit: int) -> tuple[bytes, os.stat_result]:
    with closing_descriptor(descriptor):
        status = os.fstat(descriptor)
        if not is_inherited:
            refuse_mode(status.st_mode)
        return read_descriptor(descriptor, limit), status


def refuse_what_is_no_file(path: str | os.PathLike[str]) -> None:
    """Raise OSError when *path* does not exist or is not a regular file."""
    try:
        mode = os.stat(path).st_mode
    except ValueError:
        raise OSError(errno.EINVAL, "a name with a NUL byte") from None
    refuse_mode(mode)


def refuse_mode(mode: int) -> None:
    """Raise NoRegularFile when *mode* is not that of a regular file."""
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "a device")
        number = errno.EISDIR if kind == "a directory" else errno.EINVAL
        raise NoRegularFile(number, f"is {kind}, not a regular file")


def too_large(limit: int) -> OSError:
    """Return the error of a file that has more than *limit* bytes."""
    size = f"{limit // MIB} MiB" if limit >= MIB else f"{limit} bytes"
    return OSError(errno.EFBIG, f"more than {size}, the limit for such a file")


_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
)


# --- writing ----------------------------------------------------------------------------------------------------------


def check_output(path: Path, follow: bool = False) -> Path:
    """Return the path at which a new file may replace the file *path*, or may be created.

    *follow*: whether *path* may be a symbolic link. The path of its target is then returned; raises OSError unless the
    target is a regular file, and the link belongs to one of `trusted_users`. Raises NoRegularFile if *path* is anything
    else than a regular file.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return path
    except ValueError:
        raise OSError(errno.EINVAL, "a name with a NUL byte") from None
    if stat.S_ISLNK(status.st_mode) and follow:
        if status.st_uid not in trusted_users():
            raise OSError(errno.EPERM, f"is a symbolic link of another user (UID {status.st_uid})")
        place = Path(os.path.realpath(path))
        if not place.exists():
            raise OSError(errno.ENOENT, f"is a symbolic link to {place}, which does not exist")
        refuse_what_is_no_file(place)
        return place
    refuse_mode(status.st_mode)
    return path


def create_output(path: Path) -> BinaryIO:
    """Return a new, empty file of mode 0600, open for writing, that has replaced the file *path*.

    An inherited descriptor (``/dev/stdout``, ``/dev/fd/N``) is written to as it is. Raises the errors of
    `check_output`.
    """
    number = inherited(path)
    if number is not None:
        return os.fdopen(os.dup(number), "wb")
    check_output(path)
    with _beside(path) as (file, name):
        # A rename replaces the name, even if another file or link has taken it since the check. So no link is ever
        # followed.
        os.replace(name, path)
    return file


def create_beside(path: Path, mode: int = 0o600) -> tuple[BinaryIO, str]:
    """Return a new file in the directory of *path*, open for writing, and its name, which no other process can predict.

    *mode*: the permission bits of the file. Raises OSError.
    """
    import tempfile  # not at the top: a command that only reads needs none of the modules that it loads

    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        os.fchmod(descriptor, mode)
        return os.fdopen(descriptor, "wb"), name
    except BaseException:
        os.close(descriptor)
        os.unlink(name)
        raise


@contextmanager
def _beside(path: Path, mode: int = 0o600) -> Iterator[tuple[BinaryIO, str]]:
    """Yield the result of `create_beside`. If the block raises, the file is closed and removed."""
    file, name = create_beside(path, mode)
    try:
        yield file, name
    except BaseException:
        file.close()
        with suppress(OSError):
            os.unlink(name)
        raise


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace or create the file *path*, so that a crash leaves the whole old file or the whole new file.

    The data are written to a new file, which is synced and then renamed. *path* must be a result of `check_output`.
    *mode*: the permission bits of the new file. Raises OSError.
    """
    _put_in_place(path, data, mode)


def replace_as_read(path: Path, data: bytes, old: os.stat_result | None, rights: int) -> None:
    """Replace a file as `replace_file` does, but only if it is still the file that was read.

    *old*: the status from `read_to_replace`; None: there was no file, and the new file has mode 0600. The new file has
    the owner of the old file, and the permission bits of the old file that are also in *rights*. Raises OSError, and
    ChangedMeanwhile, with nothing changed, if the file is not the same any more.
    """
    mode = 0o600 if old is None else stat.S_IMODE(old.st_mode) & rights
    _put_in_place(path, data, mode, old, lambda: _refuse_changed(path, old))


def _put_in_place(
    path: Path,
    data: bytes,
    mode: int,
    owner: os.stat_result | None = None,
    look_again: Callable[[], None] = lambda: None,
) -> None:
    with _beside(path, mode) as (file, name):
        with file:
            file.write(data)
            file.flush()
            new_status = os.fstat(file.fileno())
            if owner is not None and (new_status.st_uid, new_status.st_gid) != (owner.st_uid, owner.st_gid):
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            os.fsync(file.fileno())
        look_again()
        os.replace(name, path)


def _refuse_changed(path: Path, old: os.stat_result | None) -> None:
    try:
        now = os.lstat(path)
    except FileNotFoundError:
        now = None
    marks = [each and (each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns) for each in (old, now)]
    if marks[0] != marks[1]:
        raise ChangedMeanwhile(
            errno.ESTALE, "was changed by another user or program in the meantime; nothing was written: try again"
        )


def sync_directory(directory: Path) -> None:
    """Sync *directory*, so that files that were made or renamed in it are there after a crash. Raises OSError."""
    with closing_descriptor(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


# --- ownership --------------------------------------------------------------------------------------------------------


def trusted_users() -> frozenset[int]:
    """Return the IDs of users whose files are trusted: root, the user of this process, and the user who ran sudo."""
    own = os.geteuid()
    users = {0, own}
    caller = os.environ.get("SUDO_UID", "")
    if own == 0 and caller.isascii() and caller.isdigit():
        users.add(int(caller))
    return frozenset(users)


def refuse_strange_file(status: os.stat_result) -> None:
    """Raise OSError unless *status* is of a regular file that belongs to a trusted user and has a single name.

    *status*: of an open descriptor, so that the file cannot be another one. Trusted users: see `trusted_users`.
    """
    refuse_mode(status.st_mode)
    if status.st_uid not in trusted_users():
        raise OSError(errno.EPERM, f"belongs to another user (UID {status.st_uid})")
    if status.st_nlink > 1:
        raise OSError(errno.EPERM, f"has {status.st_nlink} names (hard links), so it also appears elsewhere")
