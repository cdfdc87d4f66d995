"""What runs that were killed left beside files with keys: removed before a run goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ibkeys.errors import FileError
from ibkeys.host.conf.references import key_references
from ibkeys.host.replacing.contents import NO_BYTES
from ibkeys.printable import named
from ibkeys.sm.files.opensm_file import OpensmFile
from ibkeys.store.journal import FileImage, Journal
from ibkeys.store.keys.keystore import KeyStore


def remove_left_overs(journal: Journal, files: Sequence[OpensmFile], store: KeyStore) -> Iterator[str]:
    """Remove what lies beside options files, and beside the key files that standbys were given on the same hosts.

    Yields what stays: files with bytes that the journal does not know, and complete copies of key files, of which it
    keeps no bytes. Raises HostNotReached, StoreError.
    """
    contents = key_references(store)
    by_host = {file.machine.name: file.machine for file in files}
    places = {file.key for file in files}
    entries = [entry for entry in journal.all_files() if _is_key_file(entry.image) or entry.image.key in places]
    for name, machine in by_host.items():
        try:
            left = machine.clean_up([entry for entry in entries if entry.image.host == name], contents)
        except FileError as error:
            yield f"{error}; files that an interrupted run left there may hold a key"
            continue
        if left.foreign:
            yield (
                f"{named([str(path) for path in left.foreign])}{f' on {name}' if name else ''}: left by an "
                "interrupted run, or by somebody else, and may hold a key: check it, and remove it"
            )


def _is_key_file(image: FileImage) -> bool:
    return NO_BYTES in (image.before, image.after)
