"""OpenSM's key files guid2mkey and neighbors: checking the master's, and copying them to its standbys."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import FileError
from ibkeys.host.replacing.contents import NOT_KEPT
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.opensm.managers import KeyManager
from ibkeys.mkeys.opensm.standbys import Standby
from ibkeys.sm.hands.sm_hands import SmHands
from ibkeys.store.journal import Operation
from ibkeys.store.opensm import MKEY_FILE, NEIGHBORS_FILE, parse_m_keys

COPIED: Final = (NEIGHBORS_FILE, MKEY_FILE)
"""What a standby needs to reach every port when it takes over; keys come last."""


def not_in_key_file(manager: KeyManager, key: MKey, guids: Collection[int]) -> set[int]:
    """Return the port GUIDs for which OpenSM's guid2mkey does not say *key*; all of them where there is none yet.

    It is written at the end of a sweep. Raises FileError if it cannot be read, HostNotReached.
    """
    path = manager.cache / MKEY_FILE
    try:
        data = manager.hands.files.read(path, files.LIST)
    except FileNotFoundError:
        return set(guids)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    known = parse_m_keys(data, str(path))
    return {guid for guid in guids if known.get(guid) != key}


def copy_key_files(master: KeyManager, standby: Standby, hands: SmHands, operation: Operation) -> None:
    """Give a standby, which does not run, the master's guid2mkey and neighbors, mode 0600, as files that it can read.

    Raises FileChanged, FileError, HostNotReached, StoreError.
    """
    for name in COPIED:
        source, target = master.cache / name, standby.cache / name
        try:
            data = master.hands.files.read(source, files.LIST)
        except OSError as error:
            raise FileError(f"{source}: cannot be read for {standby.name}: {error.strerror or error}") from None
        _give(target, data, standby.user, hands, operation)


def _give(target: Path, data: bytes, user: int, hands: SmHands, operation: Operation) -> None:
    """Let *target* be a file with *data* that only its owner may read, which an OpenSM of this user ID can."""
    seen = hands.look(target)
    if seen.found is not None and user not in (0, seen.found.metadata.uid):
        hands.replace(operation, seen, None, contents=NOT_KEPT).done()  # it would keep its owner
        seen = hands.look(target)
    if seen.data != data:
        hands.replace(operation, seen, data, contents=NOT_KEPT, rights=0o600, owner=user or None).done()
    elif not (fact := hands.files.stat(target)).is_private:
        hands.set_mode(target, fact, fact.mode & 0o700)
