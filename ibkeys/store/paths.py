"""Default paths of the journal, the key store and the cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from ibkeys.simulated_host import own_simulated_host
from ibkeys.store.keystore.sealing import Passphrase

SYSTEM_DIRECTORY: Final = Path("/var/lib/ibkeys")
KEYSTORE_NAME: Final = "keys.db"
JOURNAL_NAME: Final = "journal.db"
FINGERPRINT_NAME: Final = "fingerprint.secret"


@dataclass(frozen=True)
class StorePaths:
    """The files that a command uses; None is a store in memory, which is lost when the command ends. *fingerprints* is
    the file with the secret of fingerprints. *ask* returns the passphrase, if the key store is encrypted."""

    keystore: Path | None
    journal: Path | None
    fingerprints: Path | None = None
    ask: Callable[[], str] | None = None

    @cached_property
    def passphrase(self) -> Passphrase | None:
        """The passphrase that opens the key store."""
        return Passphrase(self.ask) if self.ask else None


def default_directory(environ: Mapping[str, str] | None = None, root: bool | None = None) -> Path:
    """Return ``/var/lib/ibkeys`` for root, else ``ibkeys`` in the user's XDG state directory.

    On a simulated host, and without *environ*, it is a folder of that host. *root*: whether the user is root; None: as
    the process runs. A relative XDG_STATE_HOME is ignored, as the XDG base directory specification requires.
    """
    simulated_host = own_simulated_host() if environ is None else None
    if simulated_host is not None:
        return simulated_host.stores
    environ = os.environ if environ is None else environ
    if os.geteuid() == 0 if root is None else root:
        return SYSTEM_DIRECTORY
    return _in_home(environ, "XDG_STATE_HOME", ".local/state")


def cache_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return ``ibkeys`` in the user's XDG cache directory, also for root. Losing the files there does no harm.

    On a simulated host, and without *environ*, it is a folder of that host.
    """
    simulated_host = own_simulated_host() if environ is None else None
    if simulated_host is not None:
        return simulated_host.cache
    return _in_home(os.environ if environ is None else environ, "XDG_CACHE_HOME", ".cache")


def _in_home(environ: Mapping[str, str], variable: str, default: str) -> Path:
    base = Path(environ.get(variable, ""))
    if not base.is_absolute():
        home = environ.get("HOME")
        base = (Path(home) if home else Path.home()) / default
    return base / "ibkeys"


def store_paths(
    keystore: str | Path | None = None,
    journal: str | Path | None = None,
    *,
    simulated: bool = False,
    state: Path | None = None,
    ask: Callable[[], str] | None = None,
) -> StorePaths:
    """Return the files that a command uses.

    *simulated*: the command works on a simulated subnet, and must not touch the user's own stores. Its files are then
    ``STATE.keys``, ``STATE.journal`` and ``STATE.fingerprint`` beside the file *state*; without *state* they are in
    memory. *keystore* and *journal*: paths of the user, which have precedence; "" is none. *ask*: see `StorePaths`.
    """
    if simulated:
        endings = ".keys", ".journal", ".fingerprint"
        keys, changes, secret = (state.with_name(state.name + each) if state else None for each in endings)
        default = StorePaths(keys, changes, secret)
    else:
        directory = default_directory()
        default = StorePaths(directory / KEYSTORE_NAME, directory / JOURNAL_NAME, directory / FINGERPRINT_NAME)
    return StorePaths(
        Path(keystore) if keystore else default.keystore,
        Path(journal) if journal else default.journal,
        default.fingerprints,
        ask,
    )
