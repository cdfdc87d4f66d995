"""Options that several commands about M_Keys share, each with its own help text; no environment variable sets them."""

from __future__ import annotations

from collections.abc import Callable

import click

from ibkeys.cli.options.declaring import F
from ibkeys.cli.secrets import read_key
from ibkeys.cli.types import NumberType
from ibkeys.keys.mkey import MKey


def new_m_key(help: str) -> Callable[[F], F]:
    """Return the option ``--new-m-key``, whose value `read_new_m_key` takes."""
    return click.option("--new-m-key", metavar="@FILE|-", help=help)


def read_new_m_key(text: str | None) -> MKey | None:
    """Return the key of ``--new-m-key``, read from its file or typed at a prompt; None without the option.

    Raises UsageError if it cannot be read, and EncodeError if it is no M_Key.
    """
    return read_key(MKey, text, "--new-m-key", is_new=True) if text is not None else None


def protect(help: str) -> Callable[[F], F]:
    """Return the option ``--protect``."""
    return click.option("--protect", type=NumberType(0, 3), metavar="0..3", help=help)


def lease(help: str) -> Callable[[F], F]:
    """Return the option ``--lease``."""
    return click.option("--lease", type=NumberType(0, 65535), metavar="SECONDS", help=help)
