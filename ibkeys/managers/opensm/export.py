"""Checking and writing the lines of an opensm.conf for the M_Keys in the key store.

The option ``m_key`` has one key for all ports. If the ports have different keys, no line can be written: stock OpenSM
reaches them with its key files, and then sets its own key on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ibkeys.errors import FileFormatError, Refused, StoreError, UsageError
from ibkeys.managers.opensm.m_key_lines import (
    LEASE,
    LEVEL,
    KeyLines,
    check_lines,
    key_changes_at_start,
    read_conf,
    write_lines,
)
from ibkeys.managers.opensm.on_this_host import configs_here, readers_of
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.store.keystore.keystore import KeyStore


@dataclass(slots=True)
class CheckedConf:
    """An opensm.conf compared with the key store. ``problems``: the changes that an OpenSM started with this file would
    make to the keys of ports, in words. ``was_written``: whether this run changed the file."""

    path: Path
    problems: list[str] = field(default_factory=list)
    was_written: bool = False


def conf_lines_of(store: KeyStore, protect: int | None = None, lease: int | None = None) -> KeyLines | None:
    """Return the lines that an opensm.conf must have so that OpenSM keeps the keys of *store*; None if the ports have
    different keys. *protect* (0 to 3) and *lease* (seconds): the user's values; None: those that all ports got with
    their keys. If these differ or are not known, they are None in the result. Raises UsageError if *store* has no key,
    StoreError.
    """
    current = {guid: keys[0] for guid, keys in store.all_keys().items()}  # each port's most likely key is the first
    rows = [row for row in store.rows() if row.state != "former" and row.m_key == current[row.port_guid]]
    rows = [row for row in rows if not row.m_key.is_zero]
    if not rows:
        raise UsageError("the key store has no M_Key for any port, so there is no key for an opensm.conf")
    keys = {row.m_key for row in rows}
    if len(keys) > 1:
        return None
    levels = {row.m_key_protect_bits for row in rows} - {None}
    leases = {row.m_key_lease_period for row in rows} - {None}
    return KeyLines(
        keys.pop(),
        protect if protect is not None or len(levels) != 1 else levels.pop(),
        lease if lease is not None or len(leases) != 1 else leases.pop(),
    )


def check_conf(store: KeyStore, path: Path, protect: int | None = None, lease: int | None = None) -> CheckedConf:
    """Return the opensm.conf *path* compared with the key store. *protect*, *lease*: as in `conf_lines_of`. Raises
    UsageError, FileFormatError, StoreError."""
    return CheckedConf(path, key_changes_at_start(read_conf(path), conf_lines_of(store, protect, lease)))


def check_found(store: KeyStore, excluded: Path | None = None) -> list[CheckedConf]:
    """Compare every opensm.conf on this host, but not *excluded*, with the key store, and return those with problems. A
    file that cannot be read has a problem. Return [] if the key store has no key."""
    checked = []
    for path in configs_here():
        if excluded is not None and path.resolve() == excluded.resolve():
            continue
        try:
            checked.append(check_conf(store, path))
        except UsageError:
            return []
        except (FileFormatError, StoreError) as error:
            checked.append(
                CheckedConf(path, [f"it cannot be read, so it is not known whether it has the M_Keys ({error})"])
            )
    return [each for each in checked if each.problems]


def lines_to_write(store: KeyStore, path: Path, protect: int | None = None, lease: int | None = None) -> KeyLines:
    """Return the lines for `write_conf` to write into *path*; nothing is written. *protect*, *lease*: as in
    `conf_lines_of`.

    Raises Refused if a running OpenSM reads *path*, which would apply the lines, or if the ports have different keys;
    UsageError if there is no key, or the level or lease is not known; FileFormatError, StoreError.
    """
    for process in readers_of(path):
        raise Refused(
            f"{path} is what the running OpenSM (process {process.pid}) reads at each heavy sweep; nothing was "
            "written: stop that OpenSM first, or let it set the key (ibkeys-mkey-rotate(1))",
            "running-opensm",
        ).explained("Writing the file would apply it.")
    wanted = conf_lines_of(store, protect, lease)
    if wanted is None:
        raise Refused(
            f"{path}: each port has its own key, and one m_key cannot express them; nothing was written: `ibkeys "
            "mkey-rotate --same` gives all ports one",
            "keys-of-their-own",
        ).explained("Stock OpenSM knows one key for the subnet.")
    in_file = read_options(read_conf(path)).values if path.exists() else {}
    missing = [
        option
        for option, value, name in (("--protect", wanted.protect, LEVEL), ("--lease", wanted.lease, LEASE))
        if value is None and name not in in_file
    ]
    if missing:
        raise UsageError(
            f"{path}: neither the key store nor the file has level and lease for all ports: give "
            f"{' and '.join(missing)}"
        )
    check_lines(path, wanted)
    return wanted


def write_conf(path: Path, wanted: KeyLines) -> CheckedConf:
    """Write the lines *wanted* into *path*, and return the file compared with them. Raises FileFormatError,
    StoreError."""
    was_written = write_lines(path, wanted)
    return CheckedConf(path, key_changes_at_start(read_conf(path), wanted), was_written)
