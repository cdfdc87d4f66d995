"""Reading files with one secret, with a warning if other users can read them too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ibkeys import files
from ibkeys.errors import UsageError


def read_secret_file(path: Path, option: str, warn: Callable[[str], None]) -> bytes:
    """Return all bytes of the file *path*, which the user named by *option*. Raises UsageError if it cannot be read.

    *warn*: called with a warning if other users may read the file.
    """
    with files.os_errors_as(UsageError, f"{option}: {path}: cannot be read"):
        data, mode = files.read_with_mode(path, files.SECRET)
    if mode is not None and mode & 0o077:
        warn(f"{path}: other users may read this key (mode {mode:04o}): chmod 600 it, and consider the key compromised")
    return data


def read_token(path: Path, option: str, shortest: int, rule: str, warn: Callable[[str], None]) -> bytes:
    """Return the token in the first line of the file *path*, which the user named by *option*.

    It must have at least *shortest* characters, all allowed in HTTP. *rule*: these conditions in words, for the
    message. *warn*: as for `read_secret_file`. Raises UsageError, which does not repeat the token.
    """
    lines = read_secret_file(path, option, warn).splitlines()
    token = lines[0].strip() if lines else b""
    if len(token) < shortest or not all(0x21 <= byte <= 0x7E for byte in token):
        raise UsageError(f"{option}: {path}: the first line is not a token: {rule}")
    return token
