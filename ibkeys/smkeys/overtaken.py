"""The check that the options files have only keys that an interrupted change of sm_key and sa_key found or wrote.

A change first puts the keys that the files have into the key store, then its new keys. So a key that has no row up to
those of the new keys was set by another program or administrator. OpenSM's default is public and is not stored: a file
with the default may be changed, unless an earlier change has proven another key on all hosts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from ibkeys.change.interlocks.overtaken import changed_file, overtaken
from ibkeys.change.writer import ChangeWriter
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.instance import CHECK_FIRST
from ibkeys.printable import named
from ibkeys.smkeys.key_holders import DEFAULT, KINDS, SmKeyKind, keys_in
from ibkeys.smkeys.recorded_changes import Changes
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.sm_keys import SmKeys, StoredSmKey

_NOT_STORED: Final = (DEFAULT, NO_SM_KEY)


def store_found_keys(keys: SmKeys, file: OpensmFile) -> None:
    """Put the keys that an options file has into the key store, before the file is changed. Key 0 and OpenSM's default
    are left out. Raises StoreError."""
    for kind, key in keys_in(file.data).items():
        if key not in _NOT_STORED:
            keys.put_imported(kind, key, "found by a change of the keys")


def found_defaults(files: Iterable[OpensmFile], rows: Iterable[StoredSmKey]) -> frozenset[str]:
    """Return the default and zero keys in options *files* whose kind has a proven key, for the journal.

    The key store has none of them, and after a proven change they may also have been put back by another program.
    *rows*: the keys of the key store, without those of other subnets.
    """
    proven = {row.kind for row in rows if row.state == "current"}
    found = {(kind, key) for file in files for kind, key in keys_in(file.data).items() if key in _NOT_STORED}
    return frozenset(_name_of(kind, key) for kind, key in found if kind in proven)


def _name_of(kind: SmKeyKind, key: SMKey) -> str:
    return f"{kind} {'zero' if key.is_zero else 'default'}"


def refuse_changed_files(
    files: Sequence[OpensmFile],
    rows: Sequence[StoredSmKey],
    new_refs: Collection[int],
    defaults: Collection[str],
    close: str,
) -> None:
    """Raise Refused (``overtaken``) if a file has a key that the interrupted change neither found nor wrote.

    *files*: the options files, that of the master last; *rows*: the keys of the key store, without those of other
    subnets; *new_refs*: the row numbers of the new keys of the change; *defaults*: `found_defaults` when it began;
    *close*: the command that ends its record.
    """
    found = [
        changed_file(file, f"another {' and '.join(kinds)}")
        for file, kinds in files_with_foreign_keys(files, rows, new_refs, defaults)
    ]
    if found:
        began = max(row.since for row in rows if row.ref in new_refs)
        raise overtaken(f"the change of sm_key and sa_key begun {began}", found, close).going_on(
            *_advise_on_different_keys(files)
        )


def files_with_foreign_keys(
    files: Sequence[OpensmFile], rows: Sequence[StoredSmKey], new_refs: Collection[int], defaults: Collection[str]
) -> Iterator[tuple[OpensmFile, list[SmKeyKind]]]:
    """Yield each options file with a key that the change neither found nor wrote, and the kinds of such keys in it.
    Arguments as in `refuse_changed_files`."""
    before = [row for row in rows if row.ref <= max(new_refs)]
    proven = {row.kind for row in before if row.state == "current"}
    known = {(row.kind, row.sm_key) for row in before}
    known |= {
        (kind, key) for kind in KINDS for key in _NOT_STORED if kind not in proven or _name_of(kind, key) in defaults
    }
    for file in files:
        foreign = [kind for kind, key in keys_in(file.data).items() if (kind, key) not in known]
        if foreign:
            yield file, foreign


def _advise_on_different_keys(files: Sequence[OpensmFile]) -> Iterator[str]:
    """Yield advice if the options files have different sm_keys: when the record of the change has ended, no command
    makes the keys equal any more. *files*: the options files, that of the master last."""
    keys = {file.name: keys_in(file.data)["sm_key"] for file in files}
    *_, (master, of_master) = keys.items()
    if others := [name for name, key in keys.items() if key != of_master]:
        yield (
            f"{named(others)}: another sm_key than {master}: put the same sm_key and sa_key in all options files, "
            f"{CHECK_FIRST}, and let each OpenSM read its file, or there will be two masters"
        )


def close_overtaken(writer: ChangeWriter, operation: int) -> None:
    """Give up the new keys of the interrupted change *operation* (its number in the journal), and set it to undone.
    Every unfinished earlier change on its subnet is set to undone too. Raises StoreError."""
    with Journal(writer.fabric.stores.journal) as journal:
        changes = Changes.on_subnet_of(journal, operation)
        give_up_keys(writer, changes, "another user or program changed the keys since")
        for each in changes.here:
            if each.state in ("open", "failed"):
                journal.set_state(each.id, "undone")


def give_up_keys(writer: ChangeWriter, changes: Changes, why: str) -> None:
    """Give up the pending keys of the subnet of *changes*. They stay in the key store as former keys, with the note
    *why*. Raises StoreError."""
    with writer.keystore.in_one_transaction():
        for row in changes.pending(writer.keystore):
            changes.keys(writer.keystore).abandon(row.ref, why)
