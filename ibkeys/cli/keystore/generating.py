"""The command `keystore generate`: new M_Keys."""

from __future__ import annotations

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.keystore import KEYSTORE_GENERATE
from ibkeys.cli.exits import write_exact
from ibkeys.cli.help.command import command
from ibkeys.cli.render import write_document
from ibkeys.cli.types import NumberType
from ibkeys.keys.mkey import MKey


@command("generate")
@click.option(
    "-n", "--number", type=NumberType(1, 1_000_000), default=1, metavar="N", help="Number of keys.  [default: 1]"
)
@options.format
@options.common
def generate(number: int, format: str) -> int:
    """Generate M_Keys from the system's random source.

    Prints one key per line, never 0, and keeps none in the key store. Keep the output out of logs:
    `umask 077; ibkeys keystore generate > FILE`.
    """
    keys = [MKey.generate().hex() for _ in range(number)]
    rows = ({"m_key": key} for key in keys)
    if not write_document(format, KEYSTORE_GENERATE, lambda: {"m_keys": keys}, rows):
        write_exact("\n".join(keys))
    return exits.DONE
