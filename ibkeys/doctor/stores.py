"""Checks of the key store, the journal and their backup."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys.change.next_commands import ROLLBACKS, next_commands_of
from ibkeys.doctor.host_facts import check_run, check_run_to_move, check_steps
from ibkeys.errors import IbkeysError, StoreError
from ibkeys.hardware.loopback.putting_back import COMMAND as REPORT
from ibkeys.hardware.loopback.putting_back import find_unrestored
from ibkeys.printable import counted, named
from ibkeys.store.backup import last_backup
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import Passphrase
from ibkeys.store.opensm import MKEY_FILE
from ibkeys.store.paths import StorePaths
from ibkeys.umad.probe import ProbeResult

_MISSING: Final = "does not exist yet: a changing command creates it"


def check_stores(paths: StorePaths, folders: Sequence[Path]) -> Iterator[ProbeResult]:
    """Yield the checks of the stores that *paths* names. *folders*: folders with key files of OpenSM, whose keys are
    compared with those in the key store.
    """
    yield from _store("key store", paths.keystore, partial(_key_store, paths.passphrase, folders))
    yield from _store("journal", paths.journal, _journal)
    if paths.keystore is not None and paths.journal is not None:
        yield from _backup(paths)


def _store(name: str, path: Path | None, checks_of: Callable[[Path], Iterator[ProbeResult]]) -> Iterator[ProbeResult]:
    """Yield the checks of *checks_of* for a store that has a file; an error becomes a problem of the store."""
    if path is None:
        yield ProbeResult(name, None, "in memory: lost when the command ends (state= in the backend keeps it)")
        return
    try:
        yield from checks_of(path)
    except IbkeysError as error:
        yield ProbeResult(name, False, str(error))


def _key_store(passphrase: Passphrase | None, folders: Sequence[Path], path: Path) -> Iterator[ProbeResult]:
    with KeyStore(path, create=False, upgrade=False) as store:
        detail = _keys_in(store) if path.exists() else _MISSING
    yield _written_check("key store", path, detail)
    if path.exists():
        with KeyStore(path, create=False, upgrade=False, passphrase=passphrase) as store:
            yield from check_run_to_move(store)
            yield from check_steps(store, [folder for folder in folders if (folder / MKEY_FILE).exists()])


def _keys_in(store: KeyStore) -> str:
    rows = store.outline()
    pending = sum(row.state == "pending" for row in rows)
    return (
        f"{counted(len(rows), 'key')} of {counted(len({row.port_guid for row in rows}), 'port')}"
        + (f", {pending} of them with a change that was never confirmed" if pending else "")
        + (", encrypted" if store.is_encrypted else "")
    )


def _journal(path: Path) -> Iterator[ProbeResult]:
    with Journal.read(path) as journal:
        yield _written_check("journal", path, _operations_in(journal) if path.exists() else _MISSING)
        yield from check_run(journal)
    if path.exists():
        yield from open_operations(path)
        yield from _left_by_a_report(path)


def _operations_in(journal: Journal) -> str:
    operations = journal.list_operations()
    unfinished = sum(operation.state == "open" for operation in operations)
    return counted(len(operations), "operation") + (f", {unfinished} of them unfinished" if unfinished else "")


def open_operations(path: Path) -> Iterator[ProbeResult]:
    """Yield a check for each operation that was interrupted, except those of M_Keys and of reports, and for each that
    waits for confirmation or is being rolled back."""
    with Journal.read(path) as journal:
        records = journal.list_operations()
    for record in records:
        is_waiting = record.awaits_confirmation or record.is_going_back
        if is_waiting or (record.is_unfinished and record.command != REPORT and not record.is_of_keys):
            detail = f"operation {record.id} of the journal ({record.command}, begun {record.started}) {_state(record)}"
            # None: the operation may wait on purpose
            is_ok = False if record.unproven or record.awaits_confirmation or record.rollback else None
            yield ProbeResult("operation", is_ok, detail, str(next_commands_of(record)))


def _state(record: OperationRecord) -> str:
    if record.awaits_confirmation:
        return "waits to be confirmed"
    return "is not finished" if record.rollback is None else f"was not confirmed, and {ROLLBACKS[record.rollback]}"


def _left_by_a_report(path: Path) -> Iterator[ProbeResult]:
    """Yield a check for test writes that were interrupted and not restored."""
    with Journal.read(path) as journal:
        left = find_unrestored(journal)
    if left:
        numbers = ", ".join(str(written.record.id) for written in left)
        advice = "`ibkeys doctor --report FILE --write-loopback PORTS` with the same two ports puts them back first"
        yield ProbeResult("loopback writes", False, f"operation {numbers} of the journal was not put back", advice)


def _backup(paths: StorePaths) -> Iterator[ProbeResult]:
    """Yield a check of the last backup, if there are keys. An old backup is only a note, because the next change
    outdates any backup.
    """
    try:
        last, is_new = last_backup(paths)
    except StoreError:  # the check of that store has named it
        return
    advice = "save key store and journal: ibkeys keystore backup FILE, and keep a copy on another host"
    if last is not None:
        what = f"{last.made}, {last.file}: {counted(last.keys, 'key')}, {counted(last.operations, 'operation')}"
        gone = [
            str(path)
            for path, saved in ((paths.keystore, last.keys), (paths.journal, last.operations))
            if saved and path is not None and not path.exists()
        ]
        if gone:
            what, advice = f"{what}; {named(gone)} is not there", f"if it was lost: ibkeys keystore restore {last.file}"
            yield ProbeResult("backup", None, what, advice)
        elif is_new:
            yield ProbeResult("backup", True, what)
        else:
            yield ProbeResult("backup", None, f"older than the last change: {what}", advice)
    elif not is_new:
        yield ProbeResult("backup", None, "there is no backup of key store and journal", advice)


def _written_check(name: str, path: Path, detail: str) -> ProbeResult:
    """Return the check of a store that can be read. It is ok only if changing commands can also write or create the
    store.
    """
    # The store and its folder; if there is no store yet, the nearest folder above it that exists.
    needed = (path, path.parent) if path.exists() else (next(folder for folder in path.parents if folder.exists()),)
    closed = [each for each in needed if not os.access(each, os.W_OK)]
    if not closed:
        return ProbeResult(name, True, f"{path}: {detail}")
    what = f"{path}: {detail}, but this user may not write {closed[0]}"
    return ProbeResult(name, False, what, "changing commands need it: run them as its owner, or as root")
