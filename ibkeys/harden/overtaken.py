"""Changes of part_enforce that did not end: refusing them where it was changed by others, and closing them.

The journal has each options file before and after each change. Any other value was set by somebody else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ibkeys.change.interlocks.overtaken import OVERTAKEN, changed_file, overtaken
from ibkeys.change.writer import Writer
from ibkeys.errors import Refused
from ibkeys.harden.enforcement_run import COMMANDS, ENFORCE
from ibkeys.host.opensm_options import read_options
from ibkeys.printable import named
from ibkeys.sm.files.opensm_file import OpensmFile
from ibkeys.store.cut_off import close_cut_off, cut_off
from ibkeys.store.journal import FileImage, Journal, OperationRecord

CLOSES: Final = "ibkeys harden --via opensm --overtaken"
"""The command that ends the record of a change of part_enforce."""


def not_ended(writer: Writer) -> list[OperationRecord]:
    """Return the changes of part_enforce, forth and back, that were cut off or failed. Raises StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        return cut_off(journal, COMMANDS)


def file_images(writer: Writer, commands: Collection[str]) -> list[FileImage]:
    """Return what all changes of part_enforce by *commands* found and wrote, oldest first. Raises StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        return [
            entry.image
            for record in journal.list_operations()
            if record.command in commands
            for entry in journal.files(record.id)
        ]


def refuse_changed_files(
    files: Sequence[OpensmFile], images: Sequence[FileImage], left: Sequence[OperationRecord]
) -> None:
    """Raise Refused (``overtaken``) if a file that is to be written has a part_enforce that no change found or wrote.
    *left*: the changes that have not ended."""
    found = []
    for file in files:
        of_file = [image for image in images if image.key == file.key]
        known = {read_options(data).value(ENFORCE) for image in of_file for data in (image.before, image.after) if data}
        if (value := read_options(file.data).value(ENFORCE)) not in known:
            found.append(changed_file(file, f"{ENFORCE} {value}"))
    if found and left:
        raise overtaken(f"the change of {ENFORCE} begun {left[-1].started} by {left[-1].command}", found, CLOSES)
    if found:
        raise Refused(
            f"harden does not restore {ENFORCE}, because somebody else has changed it since: {named(found)}; nothing "
            "was written, and no OpenSM was signalled",
            OVERTAKEN,
        ).explained(
            "`ibkeys sm-show` shows what is in force. To keep it, nothing has to be done.",
            f"`ibkeys harden --via opensm` sets {ENFORCE} both again, whoever changed it.",
        )


def close_overtaken(writer: Writer) -> str:
    """End the record of the changes that have not ended, and return their name. No file is written. Raises
    StoreError."""
    with Journal(writer.fabric.stores.journal) as journal:
        close_cut_off(journal, COMMANDS, "undone")
    return f"the interrupted change of {ENFORCE}"
