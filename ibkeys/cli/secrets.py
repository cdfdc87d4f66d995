"""M_Keys from the user: from a prompt, a file, standard input, or, with a warning, from the command line."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path
from typing import Final

from ibkeys.cli.exits import warn
from ibkeys.errors import EncodeError, UsageError
from ibkeys.keys.mkey import MKey

_LOOKS_LIKE_A_NUMBER: Final = re.compile(r"\s*[+-]?(0[xX][0-9a-fA-F]*|[0-9]+)\s*")
_MAX_BYTES: Final = 4096


def read_m_key(
    text: str, option: str, from_environment: bool = False, confirm: bool = False, words_prompt: bool = False
) -> MKey:
    """Return the key that the value of an option stands for.

    ``@FILE``: the first line of FILE that is not empty. A number: itself, with a warning. ``-``, or with
    *words_prompt* anything else (as infiniband-diags have it): asked for without echo on a terminal (twice with
    *confirm*), one line of standard input elsewhere. From the environment only ``@FILE`` is taken.

    Raises UsageError, EncodeError; no message repeats a key.
    """
    if text.startswith("@"):
        return _from_file(Path(text[1:]), option)
    if from_environment:
        raise UsageError(f"{option} from the environment must be @FILE: the environment is no place for a key")
    if _LOOKS_LIKE_A_NUMBER.fullmatch(text):
        key = MKey.parse(text)
        warn(f"{option}: a key on the command line shows in the process list and the shell's history; use - or @FILE")
        return key
    if text.startswith("-") and text != "-":
        raise UsageError(f"{option} needs a value: @FILE, or - to be asked; what follows it is an option")
    if text != "-" and not words_prompt:
        raise UsageError(f"{option}: neither @FILE nor - (to be asked without echo) nor a number")
    return _ask(option, confirm)


def read_m_keys(path: Path, option: str) -> list[MKey]:
    """Return the keys of a file with one on each line; empty lines and those that begin with # are left out.

    Raises UsageError, EncodeError; no message repeats a key.
    """
    try:
        return [MKey.parse(line) for line in _lines_of(path, option)]
    except EncodeError as error:
        raise EncodeError(f"{path}: {error}") from None


def _from_file(path: Path, option: str) -> MKey:
    try:
        return MKey.parse(_lines_of(path, option)[0])
    except EncodeError as error:
        raise EncodeError(f"{path}: {error}") from None


def _lines_of(path: Path, option: str) -> list[str]:
    """Return the lines of a key file that are no comments. Raises UsageError when there is none."""
    try:
        with path.open("rb") as file:
            status = stat.S_IMODE(path.stat().st_mode) if path.is_file() else 0o600
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{option}: {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{option}: {path}: more than {_MAX_BYTES} bytes: this is no key file")
    if status & 0o077:
        warn(f"{path}: other users may read this key (mode {status:04o}): chmod 600 it, and consider the key known")
    lines = [line.strip() for line in data.decode("ascii", "replace").splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise UsageError(f"{option}: {path}: there is no key in it")
    return keys


def _ask(option: str, confirm: bool) -> MKey:
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line.strip():
            raise UsageError(f"{option}: no key on standard input")
        return MKey.parse(line)
    from getpass import getpass

    try:
        text = getpass(f"M_Key for {option} (not shown): ", sys.stderr)
        if confirm and getpass("the same again: ", sys.stderr) != text:
            raise UsageError(f"{option}: the two keys differ")
    except EOFError:
        raise UsageError(f"{option}: no key was given") from None
    return MKey.parse(text)
