"""The M_Key lines of an opensm.conf: reading them as OpenSM does, comparing them with the keys of ports, writing them.

Stock OpenSM has one M_Key for the subnet. It sets ``m_key``, its level and its lease on every port, and takes 0 for a
value that is not in its file: without these lines it removes every key. `ibkeys.managers.opensm.options_file` reads a
line as OpenSM does.

No message of this module has a key.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import FileFormatError
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.managers.opensm.edit import NewValue, with_options
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.store.private_files import os_error

M_KEY: Final = "m_key"
LEVEL: Final = "m_key_protection_level"
LEASE: Final = "m_key_lease_period"


@dataclass(frozen=True, slots=True)
class KeyLines:
    """The lines that an opensm.conf must have so that OpenSM keeps the keys of ports. ``protect``: the level, 0 to 3;
    ``lease``: in seconds. None: not known, so that any value is accepted."""

    m_key: MKey
    protect: int | None = None
    lease: int | None = None


def read_conf(path: Path) -> bytes:
    """Return the bytes of an opensm.conf. Raises FileFormatError for a file that does not exist, is not a regular file,
    or is too long; StoreError for one that may not be read or for an I/O error."""
    try:
        return files.read_bytes(path, files.SETTINGS)
    except FileNotFoundError as error:
        raise FileFormatError("there is no such file", str(path)) from error
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EIO):
            raise os_error(path, "configuration of OpenSM", error) from error
        raise FileFormatError(error.strerror or str(error), str(path)) from error


def has_key_for_each_port(data: bytes) -> bool:
    """Return whether the options file *data* sets m_key_per_port, the option of a vendor's SM that sets a different
    M_Key on each port."""
    return re.search(rb"^[ \t]*m_key_per_port[ \t]+TRUE\b", data, re.MULTILINE) is not None


def key_changes_at_start(data: bytes, wanted: KeyLines | None) -> list[str]:
    """Return, in words, the changes that an OpenSM started with the options file *data* would make to the ports' keys;
    [] if it would keep all. *wanted*: the lines for the ports' keys; None: the ports have different keys.
    """
    found = read_options(data).values
    key = found.get(M_KEY, NO_MKEY)
    unset = "" if key != NO_MKEY else "m_key is 0" if M_KEY in found else "m_key is not set"
    if wanted is None:
        if not unset and has_key_for_each_port(data):
            return []
        effect = f"removes all of them ({unset})" if unset else "replaces each of them by its m_key"
        return [f"each port has its own key, which no m_key can express: an OpenSM that starts with it {effect}"]
    warnings = []
    if unset:
        warnings.append(f"{unset}: an OpenSM that starts with it removes every M_Key")
    elif key != wanted.m_key:
        warnings.append("m_key is another key: an OpenSM that starts with it replaces every M_Key")
    for name, expected in ((LEVEL, wanted.protect), (LEASE, wanted.lease)):
        if expected is not None and found.get(name, 0) != expected:
            present = f"{name} is {found[name]}" if name in found else f"{name} is not set, which means 0"
            warnings.append(f"{present}; the ports have {expected}")
    return warnings


def with_lines(data: bytes, wanted: KeyLines) -> bytes:
    """Return the options file *data* with the lines *wanted*. Lines that have the value already, and all other bytes,
    stay. Raises FileFormatError as `with_options`.
    """
    expected: dict[str, NewValue | None] = {M_KEY: wanted.m_key, LEVEL: wanted.protect, LEASE: wanted.lease}
    return with_options(data, {name: value for name, value in expected.items() if value is not None})


def write_lines(path: Path, wanted: KeyLines) -> bool:
    """Write the lines *wanted* into the opensm.conf *path*, and return whether its contents changed. A missing file is
    created. The new file is written beside the old one, synced, and renamed into place. The owner and the owner's
    rights stay; group and others lose their rights, because the file has a key now.

    Raises FileFormatError for a file that is not regular, for a symbolic link or a file with a second hard link, whose
    other name would keep the old lines, and as `with_options`; StoreError.
    """
    before, after, status = _read_and_change(path, wanted)
    try:
        if after == before and status is not None:
            if stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
                os.chmod(path, stat.S_IMODE(status.st_mode) & stat.S_IRWXU, follow_symlinks=False)
            return False
        files.replace_as_read(path, after, status, stat.S_IRWXU)
        files.sync_directory(path.parent)
    except files.ChangedMeanwhile as error:
        raise FileFormatError(str(error.strerror), str(path)) from error
    except OSError as error:
        raise os_error(path, "configuration of OpenSM", error) from error
    return True


def check_lines(path: Path, wanted: KeyLines) -> None:
    """Raise the error that `write_lines` would raise for the present file, without writing anything."""
    _read_and_change(path, wanted)


def _read_and_change(path: Path, wanted: KeyLines) -> tuple[bytes, bytes, os.stat_result | None]:
    before, status = _read_to_replace(path)
    try:
        return before, with_lines(before, wanted), status
    except FileFormatError as error:
        raise FileFormatError(str(error), str(path)) from None


def _read_to_replace(path: Path) -> tuple[bytes, os.stat_result | None]:
    """Return the bytes and the status of an opensm.conf; b"" and None if it does not exist."""
    if path.is_symlink():
        raise FileFormatError("is a symbolic link: give the file that it points to", str(path))
    try:
        data, status = files.read_to_replace(path, files.SETTINGS)
    except FileNotFoundError:
        return b"", None
    except files.NoRegularFile as error:
        raise FileFormatError(str(error.strerror), str(path)) from error
    except OSError as error:
        if error.errno == errno.EFBIG:
            message = f"is longer than {files.SETTINGS} bytes, so it is not a configuration of OpenSM"
            raise FileFormatError(message, str(path)) from error
        raise os_error(path, "configuration of OpenSM", error) from error
    if status.st_nlink > 1:
        raise FileFormatError("has another name too (a hard link), which would keep the old lines", str(path))
    return data, status
