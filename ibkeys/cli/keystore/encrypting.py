"""The command `keystore encrypt`: the passphrase of the key store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ibkeys.cli import exits, options
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import keystore_path, open_keystore
from ibkeys.cli.options import StoreOptions
from ibkeys.cli.secrets import check_passphrase_option, read_passphrase
from ibkeys.errors import UsageError
from ibkeys.printable import counted

if TYPE_CHECKING:
    pass


@command("encrypt")
@click.option("--new-passphrase", metavar="@FILE|-", help="The new passphrase: '-' asks for it, @FILE reads it.")
@options.flag("--decrypt", help="Store the keys in clear again.")
@options.store
def encrypt(store: StoreOptions, new_passphrase: str | None, decrypt: bool) -> int:
    """Encrypt the key store with a passphrase, or change it.

    Every key is encrypted, also keys that are added later. If the passphrase is lost, the keys are lost: keep the
    passphrase, or an export of the keys, where you can reach it without this fabric.
    """
    from ibkeys.store.private_files import is_there

    if decrypt and new_passphrase is not None:
        raise UsageError("--decrypt and --new-passphrase exclude each other")
    check_passphrase_option(new_passphrase, "--new-passphrase")
    path = keystore_path(store)
    if path is None or not is_there(path, "key store"):
        raise UsageError(f"{path or 'in memory'}: there is no key store to encrypt")
    with open_keystore(store, "keystore encrypt", changing=True) as keys:
        if decrypt and not keys.is_encrypted:
            write(f"{keys.path}: is not encrypted")
            return exits.DONE
        count = len(keys.outline()) if not keys.is_encrypted else len(keys.rows())  # rows() asks for the old passphrase
        if decrypt:
            keys.decrypt()
            write(f"{keys.path}: {counted(count, 'key')}, in clear")
        else:
            from ibkeys.store.keystore.sealing import Passphrase

            phrase = read_passphrase(new_passphrase or "-", "--new-passphrase", confirm=True)
            keys.encrypt(Passphrase(lambda: phrase))
            write(f"{keys.path}: {counted(count, 'key')}, encrypted")
    return exits.DONE
