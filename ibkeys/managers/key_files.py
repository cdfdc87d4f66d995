"""Importing OpenSM's key files into the key store, and exporting the files that OpenSM needs at its start.

OpenSM reads these files only when it starts, and writes them after each sweep in which something changed. Stock OpenSM
has one M_Key for the whole subnet, its option ``m_key``. The files give it access to ports that have other keys; then
it sets its own key on all of these ports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ibkeys.classkeys.key_files import CLASS_KEY_FILES, read_class_key_files
from ibkeys.errors import FileFormatError, Refused
from ibkeys.host.file_access import is_same_file, read_file_fact
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.classes.gmp import ClassName
from ibkeys.managers.opensm.process import OpensmProcess, read_given_config
from ibkeys.printable import counted
from ibkeys.store.keystore.class_keys import ClassKeyStore
from ibkeys.store.keystore.keystore import ImportResult, KeyStore
from ibkeys.store.opensm import (
    LID_FILE,
    MKEY_FILE,
    NEIGHBORS_FILE,
    KeyFiles,
    find_m_keys,
    read_key_files,
    write_key_file,
    write_key_files,
)
from ibkeys.store.sqlite import timestamp, utc_now
from ibkeys.topology.model import Topology


@dataclass(slots=True)
class ImportSummary:
    """The result of an import of OpenSM's files. ``results``: port GUID → how its M_Key compares with the key store.
    ``one_key_for_changed``: whether all ports whose keys differ from the store have one and the same key in the files,
    not 0, as after an SM has set its own key. ``links``, ``lids``: the numbers of links and LIDs in the files.
    ``class_keys``: for each class, the number of ports with a key of it. ``warnings``: lines for the user.
    """

    results: dict[int, ImportResult] = field(default_factory=dict)
    one_key_for_changed: bool = False
    links: int = 0
    lids: int = 0
    class_keys: dict[ClassName, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def ports(self, result: ImportResult) -> list[int]:
        """Return the GUIDs of the ports whose key compared with the store as *result*."""
        return [guid for guid, each in self.results.items() if each == result]


@dataclass(slots=True)
class ExportSummary:
    """The result of an export. ``keys``, ``links``, ``lids``: how many were written; ``lids`` None: guid2lid was not
    written. ``notes``: lines for the user."""

    keys: int
    links: int
    lids: int | None
    notes: list[str] = field(default_factory=list)


def import_key_files(store: KeyStore, directory: Path) -> ImportSummary:
    """Put the keys, links and LIDs of OpenSM's files in *directory* into the key store, and return the result. The
    store keeps the keys that it has.

    Raises FileFormatError for a line that is not a record, and for a directory without such files; StoreError if a file
    or the key store cannot be used.
    """
    files = read_key_files(directory, others=CLASS_KEY_FILES.values())
    class_keys, more = read_class_key_files(directory)
    summary = ImportSummary(links=_count_links(files), lids=len(files.lids), warnings=[*files.warnings, *more])
    with store.in_one_transaction():
        summary.results = store.put_all_imported(
            files.m_keys, _modification_time(directory / MKEY_FILE), f"from {MKEY_FILE}"
        )
        _store_links(store, files, directory / NEIGHBORS_FILE)
        store.put_lids(files.lids, seen=_modification_time(directory / LID_FILE))
        for of, keys in class_keys.items():
            ClassKeyStore(store).put_all_imported(of, keys, f"from {CLASS_KEY_FILES[of]}")
            summary.class_keys[of] = len(keys)
    changed = {files.m_keys[guid] for guid in summary.ports("changed")}
    summary.one_key_for_changed = len(changed) == 1 and not changed.pop().is_zero
    for name in (MKEY_FILE, *CLASS_KEY_FILES.values()):
        fact = read_file_fact(directory / name)
        if fact is not None and fact.others_can_read:
            summary.warnings.append(
                f"{fact.path}: other users may read these keys (mode {fact.mode:04o}): chmod 600 it"
            )
    return summary


def import_opensm_config(store: KeyStore, path: Path) -> bool:
    """Put the ``m_key`` of an opensm.conf into the key store, as the key of every port that has no key of its own in
    the store. Return whether the file sets an m_key. Raises FileFormatError if the file cannot be read, or its m_key is
    not a number; StoreError.
    """
    config = read_given_config(path)
    if "m_key" in config.mistakes:
        raise FileFormatError("the value of m_key is not a 64-bit number", str(path))
    if config.m_key_set:
        store.put_subnet_key(config.m_key, "from opensm.conf")
    return config.m_key_set


def export_key_files(
    store: KeyStore,
    directory: Path,
    found: Topology | None = None,
    processes: Iterable[OpensmProcess] = (),
    write: Callable[[Path, bytes], None] = write_key_file,
) -> ExportSummary:
    """Write guid2mkey and, if links are known, neighbors into *directory* from the key store, and return the result.
    *found*: a sweep made just now, whose links are written too; its LIDs are written as guid2lid, unless a port could
    not be read. *write*: the function that writes each file.

    Raises Refused if *directory* is that of a running OpenSM among *processes*: it would never read the files, and
    overwrite them after a sweep. Raises Refused, too, if the guid2mkey there has keys that are not in the store, or
    lines that are not records. Raises StoreError, FileFormatError, and the errors of *write*.
    """
    refuse_to_overwrite(store, directory, processes)
    known = store.all_keys()
    files = KeyFiles({guid: keys[0] for guid, keys in known.items()}, store.links())
    names = [MKEY_FILE]
    if found is not None:
        files.neighbors |= {port.link_end: port.peer.link_end for port in found.ports() if port.peer is not None}
        files.lids = {
            port.guid: (port.lid, port.lid + (1 << info.lmc) - 1)
            for port in found.end_ports()
            if port.lid and (info := port.port_info) is not None
        }
        if not found.troubles:
            names.append(LID_FILE)
    if files.neighbors:
        names.append(NEIGHBORS_FILE)
    write_key_files(directory, files, names, write)
    notes = _make_notes(store, files)
    if found is not None and found.troubles:
        notes.append(
            f"{LID_FILE} was not written: a port that the sweep could not read may have a LID, which OpenSM must "
            f"not give to another"
        )
    lids = len(files.lids) if LID_FILE in names else None
    return ExportSummary(len(files.m_keys), _count_links(files), lids, notes)


def refuse_to_overwrite(store: KeyStore, directory: Path, processes: Iterable[OpensmProcess] = ()) -> None:
    """Raise Refused if `export_key_files`, with the same arguments, would refuse to write into *directory*. Raises
    StoreError and FileFormatError too."""
    for process in processes:
        if is_same_file(directory, process.cache):
            raise Refused(
                f"{directory} is where the running OpenSM (process {process.pid}) has its files; nothing was written: "
                "stop it first, or name another directory",
                "running-opensm",
            ).explained("OpenSM does not read them again, and overwrites them after a sweep.")
    _refuse_to_lose_keys(directory, store.all_keys())


def import_links(store: KeyStore, directory: Path) -> None:
    """Put the links of the ``neighbors`` file in *directory* into the key store, unless the store has newer links of
    the same ports. Do nothing if there is no such file. Raises FileFormatError, StoreError.
    """
    path = directory / NEIGHBORS_FILE
    if path.exists():
        _store_links(store, read_key_files(directory, (NEIGHBORS_FILE,)), path)


def _store_links(store: KeyStore, files: KeyFiles, path: Path) -> None:
    store.put_links(((*near, *far) for near, far in files.neighbors.items()), seen=_modification_time(path))


@dataclass(frozen=True, slots=True)
class KeyFileDifferences:
    """The ports, by GUID, whose keys differ between a guid2mkey and the key store. ``missing``: ports with a key in the
    store that are not in the file, or have key 0 there. The others have different keys in both: ``stale`` if the
    store's key was proven after the file was written, ``newer`` if the file was written after that, or the store's key
    was never proven."""

    missing: tuple[int, ...]
    stale: tuple[int, ...]
    newer: tuple[int, ...]


def compare_key_files(store: KeyStore, directory: Path) -> KeyFileDifferences:
    """Return the differences between the keys that OpenSM finds in the guid2mkey in *directory* and the key store.
    Raises FileFormatError, also if there is no such file; StoreError."""
    in_file = find_m_keys(directory)
    if in_file is None:
        raise FileFormatError("does not exist", str(directory / MKEY_FILE))
    written = timestamp(lambda: _modification_time(directory / MKEY_FILE))
    since = {row.port_guid: row.since for row in store.outline() if row.state == "current"}
    current = {guid: keys[0] for guid, keys in store.all_keys().items()}
    missing = [guid for guid, key in current.items() if not key.is_zero and in_file.get(guid, NO_MKEY).is_zero]
    differing = [guid for guid, key in current.items() if guid not in missing and in_file.get(guid, key) != key]
    return KeyFileDifferences(
        tuple(missing),
        tuple(guid for guid in differing if since.get(guid, "") > written),
        tuple(guid for guid in differing if since.get(guid, "") <= written),
    )


def _make_notes(store: KeyStore, files: KeyFiles) -> list[str]:
    notes = []
    keys = {guid: key for guid, key in files.m_keys.items() if not key.is_zero}
    pending = sum(row.state == "pending" for row in store.outline())
    if pending:
        notes.append(
            f"{counted(pending, 'port')} may have a different key from the one written, because a change "
            "was never confirmed; finish that change (`ibkeys journal` names the command) and export again"
        )
    linked = {guid for guid, _ in files.neighbors.values()}
    unlinked = sum(guid not in linked for guid in keys)
    if unlinked:
        notes.append(
            f"the links of {unlinked} of {counted(len(keys), 'port')} with a key are not known: OpenSM asks them "
            "without their key, unless it runs there; a sweep that reaches them finds the links (`ibkeys keystore "
            "export DIR --guid2lid`)"
        )
    if len(set(keys.values())) == 1:
        notes.append(
            "all ports have one key: OpenSM keeps it when opensm.conf has the same m_key, level and lease, and removes "
            "it everywhere when m_key is not set (`ibkeys keystore export DIR --write-opensm-conf FILE` sets it there)"
        )
    elif keys:
        notes.append(
            "keys differ from port to port: stock OpenSM reaches all ports with these files, and sets its own m_key on "
            "them at its first sweep, which removes all keys if its opensm.conf sets none"
        )
    return notes


def _count_links(files: KeyFiles) -> int:
    return len({frozenset(link) for link in files.neighbors.items()})


def _modification_time(path: Path) -> datetime:
    fact = read_file_fact(path)
    now = utc_now()
    return now if fact is None else min(fact.modified, now)


def _refuse_to_lose_keys(directory: Path, known: Mapping[int, list[MKey]]) -> None:
    try:
        existing = read_key_files(directory, (MKEY_FILE,))
    except FileFormatError:
        if (directory / MKEY_FILE).exists():
            raise
        return
    lost = [guid for guid, key in existing.m_keys.items() if not key.is_zero and key not in known.get(guid, ())]
    file, then = directory / MKEY_FILE, ""
    if lost:
        what = f"keys that the key store does not have: {len(lost)}, the first of port 0x{lost[0]:016x}"
    elif not existing.is_whole:
        what, then = "lines that are not records", f", then rename {file}"  # the import reads the other lines
    else:
        return
    raise Refused(
        f"{file} has {what}; they would be lost; nothing was written: "
        f"`ibkeys keystore import {directory}` first{then}, or name another directory",
        "unknown-keys",
    )
