"""The command group `keystore`."""

from __future__ import annotations

import click

from ibkeys.cli import options
from ibkeys.cli.help.command import CommandGroup
from ibkeys.cli.keystore.backup import backup, restore
from ibkeys.cli.keystore.contents import list_keys
from ibkeys.cli.keystore.encrypting import encrypt
from ibkeys.cli.keystore.generating import generate
from ibkeys.cli.keystore.opensm_files import export_files, import_files


@click.group("keystore", cls=CommandGroup)
@options.common
def keystore() -> None:
    """List, import, export, encrypt and back up the key store.

    It has the M_Keys of ports, and the keys of subnet managers and other management classes, with their states.
    """


for each in (list_keys, generate, import_files, export_files, encrypt, backup, restore):
    keystore.add_command(each)
