"""The commands `keystore backup` and `keystore restore`: key store and journal in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ibkeys.change.consent import Consent
from ibkeys.cli import exits, options
from ibkeys.cli.exits import clean, write
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import stores_of
from ibkeys.cli.options import Where
from ibkeys.errors import UsageError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.store.backup import BackupResult
    from ibkeys.store.paths import StorePaths

_file: Final = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


@command("backup")
@_file
@options.override
@options.fabric
def backup(where: Where, file: Path, override: tuple[str, ...]) -> int:
    """Save key store and journal in FILE, with mode 0600.

    The journal refers to keys of the key store, so both are saved together.
    Keys that are encrypted in the key store are encrypted in FILE. An earlier backup in FILE is replaced, unless it has
    keys or operations that key store and journal lack.
    """
    from ibkeys.store import backup as backups

    result = backups.back_up(_stores(where), file, _is_overridden(override))
    write(clean(f"{file}: saved {_counts(result)}; keep a copy on another host"))
    _note_earlier_files(result)
    return exits.DONE


@command("restore")
@_file
@options.override
@options.fabric
def restore(where: Where, file: Path, override: tuple[str, ...]) -> int:
    """Put key store and journal of the backup FILE in place.

    Refused if the present ones have keys or operations that FILE lacks. If it is interrupted, repeat it.
    """
    from ibkeys.store import backup as backups

    result = backups.restore(_stores(where), file, _is_overridden(override))
    write(clean(f"{file}: restored {_counts(result)}, as of {result.made}"))
    _note_earlier_files(result)
    write("next: `ibkeys mkey-show --all` shows whether these are the keys of the ports")
    return exits.DONE


def _stores(where: Where) -> StorePaths:
    paths = stores_of(where)
    if paths.keystore is None or paths.journal is None:
        raise UsageError("this simulated subnet has its stores in memory: keep them with state=PATH")
    return paths


def _is_overridden(override: tuple[str, ...]) -> bool:
    from ibkeys.store.backup import INTERLOCK

    return Consent(overrides=frozenset(override)).covers(INTERLOCK)


def _counts(result: BackupResult) -> str:
    return f"{counted(result.keys, 'key')} and {counted(result.operations, 'operation')}"


def _note_earlier_files(result: BackupResult) -> None:
    for path in result.kept:
        exits.note(f"the replaced file was kept as {path}")
