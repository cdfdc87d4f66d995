"""Comparing files of OpenSMs with the journal: whether OpenSM has read a file, and whether ibkeys wrote it. Removing
the temporary files of interrupted changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from ibkeys.errors import FileError, KeyGone
from ibkeys.host.replacing.conversions import NO_BYTES, WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.replace import LeftOvers
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.managers.opensm.references import key_references
from ibkeys.printable import named
from ibkeys.store.journal import FileEntry, FileImage, Journal
from ibkeys.store.keystore.keystore import KeyStore


def is_proven(file: OpensmFile, journal: Journal, store: KeyStore) -> bool:
    """Return whether the *journal* proves that OpenSM has read the present version of a file. The times of the file do
    not count.

    It does if the last change of the file in the journal is done, and made the present bytes: a change of an options
    file is done when ports have shown the new values. *store*: the key store with the keys to which the journal refers.
    If a key is no longer in it, the result is False. Raises FileFormatError, StoreError.
    """
    last = next(journal.replacements(file.key), None)
    return last is not None and last.status == "done" and _restores_to_present(last, file, store)


def is_written_by_ibkeys(file: OpensmFile, journal: Journal, store: KeyStore) -> bool:
    """Return whether ibkeys wrote the present bytes of a file: in the last change of the file in the *journal*, or in
    the last one of an operation that has not ended. OpenSM may not have read them. *store*, and the errors: as for
    `is_proven`.
    """
    not_ended = [record.id for record in journal.list_operations() if record.state in ("open", "failed")]
    changes = [
        [entry for entry in journal.files(operation) if entry.image.key == file.key and entry.image.closed_to is None]
        for operation in not_ended
    ]
    changes.append(list(islice(journal.replacements(file.key), 1)))
    return any(_restores_to_present(entries[-1], file, store) for entries in changes if entries)


def _restores_to_present(entry: FileEntry, file: OpensmFile, store: KeyStore) -> bool:
    try:
        return (
            entry.image.after not in (None, NO_BYTES)
            and key_references(store).restore(entry.image.after or b"") == file.data
        )
    except KeyGone:
        return False


def clean_up(
    journal: Journal,
    files: Sequence[OpensmFile],
    conversions: FileConversions = WITHOUT_KEYS,
    others: Collection[FileKey] = (),
) -> Iterator[tuple[str, LeftOvers | FileError]]:
    """Remove the temporary files that interrupted runs left beside those of *files*, and of *others* on the same hosts,
    that operations of the *journal* replaced.

    Yield the name of each host with its temporary files, or with the error that prevented the removal. Raises
    HostNotReached, StoreError, and the errors of *conversions*.
    """
    replaced = {*journal.replaced_files()}.intersection([*(file.key for file in files), *others])
    for name, machine in {file.machine.name: file.machine for file in files}.items():
        recorded = {Path(key[1]): partial(_images_of, journal, key) for key in sorted(replaced) if key[0] == name}
        try:
            yield name, machine.clean_up(recorded, conversions)
        except FileError as error:
            yield name, error


def _images_of(journal: Journal, key: FileKey) -> Iterator[FileImage]:
    return (entry.image for entry in journal.replacements(key))


def remove_left_overs(journal: Journal, files: Sequence[OpensmFile], store: KeyStore) -> Iterator[str]:
    """Remove the temporary files that interrupted runs left beside the options files *files*, and beside the key files
    that ibkeys wrote on the same hosts. *store*: the key store with the keys to which the journal refers.

    Yield a line for the user about files that stay: those whose bytes are not in the journal, and complete copies of
    key files, whose bytes the journal never has. Yield a line, too, for a host on which the removal failed. Raises
    HostNotReached, FileFormatError, StoreError.
    """
    key_files = journal.replaced_files(NO_BYTES)
    for name, left in clean_up(journal, files, key_references(store), key_files):
        if isinstance(left, FileError):
            yield f"{left}; files that an interrupted run left there may hold a key"
        elif left.foreign:
            yield (
                f"{named([str(path) for path in left.foreign])}{f' on {name}' if name else ''}: left by an "
                "interrupted run, or by another user or program, and may hold a key: check it, and remove it"
            )
