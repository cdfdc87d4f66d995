"""OpenSM's key files guid2mkey and neighbors: checking the master's, and copying them to its standbys."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.change.through_sm import ManagedOpensm
from ibkeys.errors import FileError
from ibkeys.host.replacing.conversions import NOT_KEPT
from ibkeys.keys.mkey import MKey
from ibkeys.managers.machines.machine import Machine
from ibkeys.mkeys.opensm.standbys import Standby
from ibkeys.store.journal import RunningOperation
from ibkeys.store.opensm import MKEY_FILE, NEIGHBORS_FILE, parse_m_keys

COPIED: Final = (NEIGHBORS_FILE, MKEY_FILE)
"""The files that a standby needs to reach every port when it takes over, in the order of writing: the keys come
last."""


def guids_without_key(manager: ManagedOpensm, key: MKey, guids: Collection[int]) -> set[int]:
    """Return those port GUIDs of *guids* for which OpenSM's guid2mkey does not have *key*; all of them if that file
    does not exist yet. OpenSM writes it at the end of a sweep. Raises FileError if the file cannot be read,
    FileFormatError, HostNotReached.
    """
    path = manager.cache / MKEY_FILE
    try:
        data = manager.machine.files.read(path, files.LIST)
    except FileNotFoundError:
        return set(guids)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    known = parse_m_keys(data, str(path))
    return {guid for guid in guids if known.get(guid) != key}


def copy_key_files(master: ManagedOpensm, standby: Standby, machine: Machine, operation: RunningOperation) -> None:
    """Copy the master's guid2mkey and neighbors to the cache folder of a standby that does not run. The copies have
    mode 0600, and an owner with whom the standby can read them. *machine*: the standby's host.

    Raises FileChanged, FileError, HostNotReached, StoreError.
    """
    for name in COPIED:
        source, target = master.cache / name, standby.cache / name
        with files.os_errors_as(FileError, f"{source}: cannot be read for {standby.name}"):
            data = master.machine.files.read(source, files.LIST)
        give_key_file(target, data, standby.user, machine, operation)


def give_key_file(target: Path, data: bytes, user: int, machine: Machine, operation: RunningOperation) -> None:
    """Write *data* to the file *target*, which only its owner may access, and which an OpenSM with this *user* ID can
    read. Raises FileChanged, FileError, HostNotReached, StoreError."""
    seen = machine.look(target)
    if seen.found is not None and user not in (0, seen.found.metadata.uid):
        # The file is deleted before it is written anew, because a file that is replaced keeps its owner.
        machine.replace(operation, seen, None, conversions=NOT_KEPT).done()
        seen = machine.look(target)
    if seen.data != data:
        machine.replace(operation, seen, data, conversions=NOT_KEPT, rights=0o600, owner=user or None).done()
    elif not (fact := machine.files.stat(target)).is_private:
        machine.set_mode(target, fact, fact.mode & 0o700)
