"""Default paths of the journal and the key store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys.simulated_host import own
from ibkeys.store.keystore.sealing import Passphrase

SYSTEM_DIRECTORY: Final = Path("/var/lib/ibkeys")
KEYSTORE_NAME: Final = "keys.db"
JOURNAL_NAME: Final = "journal.db"
FINGERPRINT_NAME: Final = "fingerprint.secret"


@dataclass(frozen=True, slots=True)
class StorePaths:
    """The files of one run; None is a store in memory, gone when the run ends. *passphrase* opens the key store if it
    is encrypted."""

    keystore: Path | None
    journal: Path | None
    fingerprints: Path | None = None
    passphrase: Passphrase | None = None


def default_directory(environ: Mapping[str, str] | None = None, root: bool | None = None) -> Path:
    """Return ``/var/lib/ibkeys`` for root, else ``ibkeys`` in the user's XDG state directory; on a simulated host a
    folder of that host.

    A relative XDG_STATE_HOME is ignored, as the XDG base directory specification requires.
    """
    here = own() if environ is None else None
    if here is not None:
        return here.stores
    environ = os.environ if environ is None else environ
    if os.geteuid() == 0 if root is None else root:
        return SYSTEM_DIRECTORY
    return _in_home(environ, "XDG_STATE_HOME", ".local/state")


def cache_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return ``ibkeys`` in the user's XDG cache directory, also for root: its files may be lost without harm."""
    return _in_home(os.environ if environ is None else environ, "XDG_CACHE_HOME", ".cache")


def _in_home(environ: Mapping[str, str], variable: str, default: str) -> Path:
    base = Path(environ.get(variable, ""))
    if not base.is_absolute():
        home = environ.get("HOME")
        base = (Path(home) if home else Path.home()) / default
    return base / "ibkeys"


def store_paths(
    *,
    simulated: bool = False,
    state: Path | None = None,
    keystore: Path | None = None,
    journal: Path | None = None,
    passphrase: Passphrase | None = None,
) -> StorePaths:
    """Return the files of a run.

    *simulated*: the run is on a simulated subnet, which never touches the user's own stores: its files lie beside its
    *state* file, as ``STATE.keys``, ``STATE.journal`` and ``STATE.fingerprint``, or in memory. *keystore* and
    *journal*: the paths that the user gave, if any.
    """
    if simulated:
        own = StorePaths(_beside(state, ".keys"), _beside(state, ".journal"), _beside(state, ".fingerprint"))
    else:
        directory = default_directory()
        own = StorePaths(directory / KEYSTORE_NAME, directory / JOURNAL_NAME, directory / FINGERPRINT_NAME)
    return StorePaths(keystore or own.keystore, journal or own.journal, own.fingerprints, passphrase)


def _beside(state: Path | None, suffix: str) -> Path | None:
    return state.with_name(state.name + suffix) if state else None
