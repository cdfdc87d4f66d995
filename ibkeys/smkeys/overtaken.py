"""The check that the options files have only keys that an interrupted change of sm_key and sa_key found or wrote. A
change stores the keys that it finds in the key store, before the new ones. A key that the store did not have when the
change began was set by another program or administrator. OpenSM's default is public and not kept: a file that has it
may be changed, unless an earlier change has proven another key on all hosts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ibkeys.change.interlocks.overtaken import changed_file, overtaken
from ibkeys.change.writer import ChangeWriter
from ibkeys.keys.smkey import NO_SM_KEY
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.instance import CHECK_FIRST
from ibkeys.printable import named
from ibkeys.smkeys.begun import Changes
from ibkeys.smkeys.key_holders import DEFAULT, KINDS, SmKeyKind, keys_in
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.sm_keys import SmKeys, StoredSmKey


def keep_found(keys: SmKeys, file: OpensmFile) -> None:
    """Store the keys that a file has before it is changed. Raises StoreError."""
    for kind, key in keys_in(file.data).items():
        if not key.is_zero and key != DEFAULT:
            keys.put_imported(kind, key, "found by a change of the keys")


def refuse_changed_files(
    files: Sequence[OpensmFile], rows: Sequence[StoredSmKey], own: Collection[int], close: str
) -> None:
    """Raise Refused (``overtaken``) if a file has a key that the interrupted change neither found nor wrote. *files*:
    the options files, the master's last; *rows*: the keys of the key store, without those of other subnets; *own*: the
    numbers of the change's keys; *close*: the command that ends its record."""
    found = [changed_file(file, f"another {' and '.join(kinds)}") for file, kinds in keys_of_others(files, rows, own)]
    if found:
        began = max(row.since for row in rows if row.ref in own)
        raise overtaken(f"the change of sm_key and sa_key begun {began}", found, close).going_on(
            *_of_different_keys(files)
        )


def keys_of_others(
    files: Sequence[OpensmFile], rows: Sequence[StoredSmKey], own: Collection[int]
) -> Iterator[tuple[OpensmFile, list[SmKeyKind]]]:
    """Yield each file with a key that the change neither found nor wrote, and the kinds of these keys. Arguments as in
    `refuse_changed_files`."""
    before = [row for row in rows if row.ref <= max(own)]
    proven = {row.kind for row in before if row.state == "current"}
    known = {(row.kind, row.sm_key) for row in before}
    known |= {(kind, key) for kind in KINDS if kind not in proven for key in (DEFAULT, NO_SM_KEY)}
    for file in files:
        others = [kind for kind, key in keys_in(file.data).items() if (kind, key) not in known]
        if others:
            yield file, others


def _of_different_keys(files: Sequence[OpensmFile]) -> Iterator[str]:
    """Yield advice if the options files have different sm_keys: when the record of the change has ended, no command
    makes them equal any more. *files*: the options files, the master's last."""
    keys = {file.name: keys_in(file.data)["sm_key"] for file in files}
    *_, (master, of_master) = keys.items()
    if others := [name for name, key in keys.items() if key != of_master]:
        yield (
            f"{named(others)}: another sm_key than {master}: put the same sm_key and sa_key in all options files, "
            f"{CHECK_FIRST}, and let each OpenSM read its file, or there will be two masters"
        )


def close_overtaken(writer: ChangeWriter, operation: int) -> None:
    """Give up the keys of the interrupted change, and end its record, and those of earlier ones on its subnet.
    *operation*: its number in the journal. Raises StoreError."""
    with Journal(writer.fabric.stores.journal) as journal:
        changes = Changes.beside(journal, operation)
        give_up_keys(writer, changes, "another user or program changed the keys since")
        for each in changes.here:
            if each.state in ("open", "failed"):
                journal.set_state(each.id, "undone")


def give_up_keys(writer: ChangeWriter, changes: Changes, why: str) -> None:
    """Give up the keys that are to be set on the subnet of *changes*; they stay in the key store as former ones, with
    the note *why*. Raises StoreError."""
    with writer.keystore.in_one_transaction():
        for row in changes.pending(writer.keystore):
            changes.keys(writer.keystore).abandon(row.ref, why)
