"""Reading secrets from a prompt, a file or standard input; keys also from the command line, with a warning."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from ibkeys import files, secret_files
from ibkeys.cli.exits import warn
from ibkeys.errors import EncodeError, StoreSealed, UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.secret import Secret64
from ibkeys.secret_files import read_secret_file

_K = TypeVar("_K", bound=Secret64)

_SHORTEST_TOKEN: Final = 16
_LOOKS_LIKE_A_NUMBER: Final = re.compile(r"\s*[+-]?(0[xX][0-9a-fA-F]*|[0-9]+)\s*")


def read_key(kind: type[_K], text: str, option: str, from_environment: bool = False, is_new: bool = False) -> _K:
    """Return the key that *text*, the value of *option*, names.

    ``@FILE``: the first line of FILE that is neither empty nor a comment. A number: the key itself, with a warning.
    ``-``: the user is asked without echo on a terminal (twice if *is_new*), else one line of standard input is read.
    A longer word that begins with ``-`` is refused. Any other word means the same as ``-``, as in infiniband-diags, but
    not for a new key. *from_environment*: only ``@FILE`` is accepted. Raises UsageError, EncodeError; no message
    repeats a key.
    """
    if text.startswith("@"):
        path = Path(text[1:])
        return _keys_in(kind, path, _lines_of(path, option)[:1])[0]
    if from_environment:
        raise UsageError(f"{option} from the environment must be @FILE: never put a key itself into the environment")
    if _LOOKS_LIKE_A_NUMBER.fullmatch(text):
        key = kind.parse(text)
        warn(f"{option}: a key on the command line shows in the process list and the shell's history; use - or @FILE")
        return key
    if text.startswith("-") and text != "-":
        raise UsageError(f"{option} needs a value: @FILE, or - to be asked; what follows it is an option")
    if text != "-" and is_new:
        raise UsageError(f"{option} must be @FILE, a number, or - to be prompted without echo")
    return _ask(kind, option, is_new)


def check_passphrase_option(text: str | None, option: str, from_environment: bool = False) -> None:
    """Raise UsageError if *text*, the value of *option*, is neither ``@FILE`` nor ``-``.

    A passphrase itself could be read by other users on the command line or in the environment. *from_environment*: only
    ``@FILE`` is accepted.
    """
    if text is None or text.startswith("@") or (text == "-" and not from_environment):
        return
    if from_environment:
        raise UsageError(
            f"{option} from the environment must be @FILE: never put a passphrase itself into the environment"
        )
    raise UsageError(f"{option} must be @FILE, or - to be prompted without echo")


def read_passphrase(text: str | None, option: str, confirm: bool = False) -> str:
    """Return the passphrase that *text*, the value of *option*, names.

    ``@FILE``: the first line of FILE. ``-`` or None: the user is asked without echo on a terminal (twice with
    *confirm*); without a terminal ``-`` reads one line of standard input. Raises UsageError; StoreSealed for None
    without a terminal. No message repeats the passphrase.
    """
    if text is not None and text.startswith("@"):
        lines = read_secret_file(Path(text[1:]), option, warn).decode("utf-8", "surrogateescape").splitlines()
        phrase = lines[0] if lines else ""
    elif sys.stdin.isatty():
        phrase = _ask_twice("Passphrase of the key store (not shown): ", option, confirm)
    elif text is None:
        raise StoreSealed(
            f"the key store is encrypted, and there is no terminal to ask for its passphrase: {option} @FILE"
        )
    else:
        phrase = _line_of_stdin(option).rstrip("\n")
    if not phrase:
        raise UsageError(f"{option}: the passphrase is empty")
    return phrase


def read_m_keys(path: Path, option: str) -> list[MKey]:
    """Return the keys in the file *path*, which has one on each line. Empty lines and comments (#) are skipped.

    *option*: the option that names the file, for messages. Raises UsageError, EncodeError; no message repeats a key.
    """
    return _keys_in(MKey, path, _lines_of(path, option))


def read_token(path: str, option: str) -> bytes:
    """Return the bearer token in the first line of the file *path*. Raises UsageError, which does not repeat the token.

    *option*: the option that names the file, for messages. A token needs at least 16 characters, because nothing else
    keeps strangers out. It has no blanks, because a blank ends a token in HTTP.
    """
    rule = f"{_SHORTEST_TOKEN} printable ASCII characters or more, without blanks"
    rule += "; `head -c 24 /dev/urandom | base64` makes one"
    return secret_files.read_token(Path(path), option, _SHORTEST_TOKEN, rule, warn)


def _keys_in(kind: type[_K], path: Path, lines: Sequence[str]) -> list[_K]:
    try:
        return [kind.parse(line) for line in lines]
    except EncodeError as error:
        raise EncodeError(f"{path}: {error}") from None


def _lines_of(path: Path, option: str) -> list[str]:
    """Return the lines of a key file without empty lines and comments. Raises UsageError if there are none."""
    lines = [line.strip() for line in read_secret_file(path, option, warn).decode("ascii", "replace").splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise UsageError(f"{option}: {path}: there is no key in it")
    return keys


def _line_of_stdin(option: str) -> str:
    line = sys.stdin.readline(files.SECRET + 1)
    if len(line) > files.SECRET:
        raise UsageError(
            f"{option}: more than {files.SECRET} bytes in the first line of standard input: this is not a key"
        )
    return line


def _ask(kind: type[_K], option: str, confirm: bool) -> _K:
    if not sys.stdin.isatty():
        line = _line_of_stdin(option)
        if not line.strip():
            raise UsageError(f"{option}: no key on standard input")
        return kind.parse(line)
    return kind.parse(_ask_twice(f"{kind.name} for {option} (not shown): ", option, confirm))


def _ask_twice(prompt: str, option: str, confirm: bool) -> str:
    from getpass import getpass

    try:
        text = getpass(prompt, sys.stderr)
        if confirm and getpass("the same again: ", sys.stderr) != text:
            raise UsageError(f"{option}: the two texts that were typed differ")
    except EOFError:
        raise UsageError(f"{option}: the input ended before anything was typed") from None
    return text
