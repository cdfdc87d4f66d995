"""Files of OpenSMs as the journal knows them: changes that ports have proven, changes that were interrupted, and the
temporary files that these left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ibkeys.errors import FileError, KeyGone
from ibkeys.host.replacing.conversions import NO_BYTES, WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.replace import LeftOvers
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.opensm.references import key_references
from ibkeys.printable import named
from ibkeys.store.journal import FileEntry, FileImage, Journal
from ibkeys.store.keystore.keystore import KeyStore


def is_proven(conf: OpensmFile, journal: Journal, store: KeyStore) -> bool:
    """Return whether OpenSM has read a file as it is now, by the last change of the file in the *journal*, whatever its
    times.

    That change must be done and must have left the file as it is now. A change of an options file is done when ports
    have shown the new values. *store*: has the keys that the journal refers to. A key that is not in it, because it was
    lost or replaced, proves nothing. Raises FileFormatError, StoreError.
    """
    last = [entry for entry in journal.all_files() if entry.image.key == conf.key][-1:]
    return any(entry.status == "done" and _left_it_so(entry, conf, store) for entry in last)


def is_as_left(conf: OpensmFile, journal: Journal, store: KeyStore) -> bool:
    """Return whether ibkeys wrote a file as it is now: by the last change of it in the *journal*, or by the last of an
    operation that has not ended. OpenSM may not have read it. *store*, and the errors: as for `is_proven`.
    """
    changes = [entry for entry in journal.all_files() if entry.image.key == conf.key]
    not_ended = {record.id for record in journal.list_operations() if record.state in ("open", "failed")}
    last = {entry.operation: entry for entry in changes}.values()
    return any(
        _left_it_so(entry, conf, store) for entry in last if entry is changes[-1] or entry.operation in not_ended
    )


def _left_it_so(entry: FileEntry, conf: OpensmFile, store: KeyStore) -> bool:
    try:
        return (
            entry.image.after not in (None, NO_BYTES)
            and key_references(store).restore(entry.image.after or b"") == conf.data
        )
    except KeyGone:
        return False


# --- temporary files of killed runs -----------------------------------------------------------------------------------


def clean_up(
    journal: Journal,
    files: Sequence[OpensmFile],
    conversions: FileConversions = WITHOUT_KEYS,
    includes: Callable[[FileImage], bool] = lambda image: False,
) -> Iterator[tuple[str, LeftOvers | FileError]]:
    """Remove the temporary files beside *files*, and beside other files on the same hosts that are in the journal and
    that *includes* accepts.

    Yields each host's name with the files that stay there, or with the error that prevented the removal. Raises
    HostNotReached, StoreError.
    """
    places = {file.key for file in files}
    entries = [entry for entry in journal.all_files() if includes(entry.image) or entry.image.key in places]
    for name, machine in {file.machine.name: file.machine for file in files}.items():
        try:
            yield name, machine.clean_up([entry for entry in entries if entry.image.host == name], conversions)
        except FileError as error:
            yield name, error


def remove_left_overs(journal: Journal, files: Sequence[OpensmFile], store: KeyStore) -> Iterator[str]:
    """Remove the temporary files beside options files, and beside the key files that standbys got on the same hosts.

    Yields what stays: files with bytes that the journal does not know, and complete copies of key files, whose bytes it
    does not keep. Raises HostNotReached, StoreError.
    """
    for name, left in clean_up(journal, files, key_references(store), _is_key_file):
        if isinstance(left, FileError):
            yield f"{left}; files that an interrupted run left there may hold a key"
        elif left.foreign:
            yield (
                f"{named([str(path) for path in left.foreign])}{f' on {name}' if name else ''}: left by an "
                "interrupted run, or by another user or program, and may hold a key: check it, and remove it"
            )


def _is_key_file(image: FileImage) -> bool:
    return NO_BYTES in (image.before, image.after)
