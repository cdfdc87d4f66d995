"""Undoing an unfinished change of sm_key and sa_key: its new keys are given up if no options file got them.

Once an options file has had the new keys, an OpenSM may use them, and the change can only be finished. The undo writes
no options file and signals no OpenSM.
"""

from __future__ import annotations

from collections.abc import Sequence

from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused, StoreError, UsageError
from ibkeys.managers.files.journaled import remove_left_overs
from ibkeys.printable import named
from ibkeys.smkeys.key_holders import keys_in
from ibkeys.smkeys.overtaken import give_up_keys
from ibkeys.smkeys.planning import KeyChange
from ibkeys.smkeys.recorded_changes import COMMAND, NEW_KEYS, finish_command
from ibkeys.store.journal import FileImage, Journal, OperationRecord


def refuse_ended(record: OperationRecord) -> None:
    """Raise StoreError for a change that was undone, UsageError for one that is done."""
    if record.state == "undone":
        raise StoreError(f"operation {record.id} ({COMMAND}) was taken back, or its record was ended")
    if record.state == "done":
        raise UsageError(
            f"operation {record.id} ({COMMAND}) has ended, and former SM keys are not restored: `{NEW_KEYS}` makes new "
            "ones"
        )


def refuse_written(writer: ChangeWriter, change: KeyChange, operation: int) -> None:
    """Raise Refused (``open-run``) if an options file has, or had, the new keys of *change*. *operation*: the number of
    the change in the journal. Raises StoreError."""
    new = {*change.new.values()}
    written = [file.name for file in change.managers.files if new & {*keys_in(file.data).values()}]
    with Journal.read(writer.fabric.stores.journal) as journal:
        images = [entry.image for entry in journal.files(operation)]
    if not written and not _were_restored(images):
        return
    if written:
        why = f"the new keys are in {named(written)}"
        rest = [file.name for file in change.managers.files if file.name not in written]
        why += f", and the former ones in {named(rest)}" if rest else ""
    else:
        why = "its files had the new keys, and got the former ones back, but an OpenSM may still work with the new ones"
    raise Refused(
        f"the change of sm_key and sa_key does not go back, because {why}: it can only be finished, by "
        f"`{finish_command(operation)}`",
        "open-run",
    ).unchanged()


def _were_restored(images: Sequence[FileImage]) -> bool:
    """Return whether a change restored the former keys of a file. Then one of its *images* begins with the contents
    with which another one ends."""
    written = {(image.key, image.after) for image in images}
    return any((image.key, image.before) in written for image in images)


def give_up(writer: ChangeWriter, change: KeyChange, operation: int) -> list[str]:
    """Give up the new keys of *change*, set its *operation* in the journal to undone, and remove the files that it
    prepared beside the options files.

    Return, in words, the prepared files that could not be removed. The keys stay in the key store as former ones.
    Raises StoreError, FileFormatError, HostNotReached.
    """
    with Journal(writer.fabric.stores.journal) as journal:
        not_removed = list(remove_left_overs(journal, change.managers.files, writer.keystore))
        give_up_keys(writer, change.subnet_changes, "its change was taken back")
        journal.set_state(operation, "undone")
    return not_removed
