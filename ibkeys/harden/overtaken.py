"""Changes of part_enforce that did not end: refusing them if others have changed it since, and closing them.

The journal has each options file before and after each change. While a hardening is in force, the file has its value or
the one before it; after it was undone, the one before it. Any other value was set by another program.

A change that did not end becomes ``undone`` in two cases. A change in the other direction ended it, and found and wrote
the values that count now. Or --overtaken ended it, and is its last start then: later values of the files are from other
programs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ibkeys.change.interlocks.overtaken import OVERTAKEN, changed_file, other_files, overtaken
from ibkeys.change.subnets import is_elsewhere
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused
from ibkeys.harden.enforcement_run import COMMANDS, ENFORCE, HARDENED
from ibkeys.harden.step import COMMAND
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.printable import named
from ibkeys.store.journal import Journal, OperationRecord

_OPTION: Final = "--overtaken"


@dataclass(frozen=True, slots=True)
class OwnValue:
    """The journal's data about part_enforce in one options file.

    ``former``: its value before the hardening; ``is_hardened``: the hardening was not undone.
    """

    former: str
    is_hardened: bool

    @property
    def known(self) -> tuple[str, ...]:
        """The values that are not from another program."""
        return (self.former, HARDENED) if self.is_hardened else (self.former,)


def not_ended(writer: ChangeWriter, files: Iterable[OpensmFile] | None = None) -> list[OperationRecord]:
    """Return the hardenings and undoings of part_enforce that were interrupted or failed.

    *files*: only those on the subnet that has these options files, None for all. Raises StoreError.
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        return _not_ended(journal, None if files is None else {file.key for file in files})


def _not_ended(journal: Journal, files: Collection[FileKey] | None) -> list[OperationRecord]:
    found = [each for each in journal.list_operations() if each.state in ("open", "failed") and each.began in COMMANDS]
    return [each for each in found if files is None or is_of(journal, each.id, files)]


def is_of(journal: Journal, operation: int, files: Collection[FileKey]) -> bool:
    """Return whether a change of part_enforce is of the subnet with these options *files*.

    It is if it, its undoing, or the change that it undid wrote one of them; or if none was written yet. Raises
    StoreError.
    """
    wrote = files_of(journal, operation)
    return not wrote or not wrote.isdisjoint(files)


def files_of(journal: Journal, operation: int) -> set[FileKey]:
    """Return the options files that a change, its undoing, or the change that it undid wrote. Raises StoreError."""
    numbers = [operation, *journal.relatives(operation)]
    return {entry.image.key for number in numbers for entry in journal.files(number)}


def is_left_on(writer: ChangeWriter, hosts: Collection[str]) -> bool:
    """Return whether an unfinished change wrote a file on one of *hosts*, or none yet, and may be of this subnet.

    The subnet is swept if it was not. A change by an earlier version of ibkeys may be of any subnet. Raises StoreError.
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        left = _not_ended(journal, None)
        here = {port.guid for port in (writer.fabric.swept or writer.fabric.sweep()).end_ports()} if left else set()
        wrote = [files_of(journal, each.id) for each in left if not is_elsewhere(journal, each.id, here)]
    return any(not files or any(host in hosts for host, _ in files) for files in wrote)


def refuse_elsewhere(writer: ChangeWriter, operation: int, files: Sequence[OpensmFile]) -> None:
    """Raise Refused (``overtaken``) if a change wrote none of these options *files*: this is another subnet, or other
    OpenSMs have replaced those of the change. Raises StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        found = other_files(files_of(journal, operation), files)
    if found:
        raise Refused(f"operation {operation} changed {found}", OVERTAKEN).unchanged(
            "name the port of its own subnet, and its hosts",
            f"If other OpenSMs have replaced those: `ibkeys resume {operation} {_OPTION}` only ends the record of a "
            "change that is open.",
        )


def goes_forth(record: OperationRecord) -> bool:
    """Return whether a change of part_enforce is a hardening, and no undoing."""
    return record.command == COMMAND


def close_command(left: Sequence[OperationRecord]) -> str:
    """Return the command that ends the record of the unfinished changes *left*; it names the last of them."""
    return f"ibkeys resume {left[-1].undoes or left[-1].id} {_OPTION}"


def value_in(data: bytes) -> str:
    """Return the part_enforce of an OpenSM that starts with the options file *data*."""
    return str(read_options(data).value(ENFORCE))


def own_values(writer: ChangeWriter) -> dict[FileKey, OwnValue]:
    """Return the journal's data about part_enforce in each options file that a hardening changed.

    If --overtaken ended the last change, another program may have changed the file since, so there is no entry for it.
    Raises StoreError.
    """
    found: dict[FileKey, OwnValue] = {}
    with Journal.read(writer.fabric.stores.journal) as journal:
        records = [each for each in journal.list_operations() if each.began in COMMANDS]
        # An interrupted operation may have continued after later ones.
        for record in sorted(records, key=lambda each: each.starts[-1].started if each.starts else each.started):
            for image in [entry.image for entry in journal.files(record.id)]:
                before, after = value_in(image.before or b""), value_in(image.after or b"")
                if record.state == "undone":
                    if record.starts and _OPTION in record.starts[-1].origin.options:
                        found.pop(image.key, None)
                elif goes_forth(record) and before != HARDENED == after:
                    found[image.key] = OwnValue(before, is_hardened=True)
                elif not goes_forth(record) and record.state == "done" and before == HARDENED != after:
                    found[image.key] = OwnValue(after, is_hardened=False)
    return found


def refuse_changed_files(
    files: Sequence[OpensmFile], own: Mapping[FileKey, OwnValue], left: Sequence[OperationRecord]
) -> None:
    """Raise Refused (``overtaken``) if one of *files*, which are in *own*, has a part_enforce of another program.

    *left*: the changes that have not ended.
    """
    found = [
        changed_file(file, f"{ENFORCE} {value}")
        for file in files
        if (value := value_in(file.data)) not in own[file.key].known
    ]
    if found and left:
        what = f"the change of {ENFORCE} begun {left[-1].started} by {left[-1].command}"
        raise overtaken(what, found, close_command(left))
    if found:
        raise Refused(
            f"harden does not restore {ENFORCE}, because another user or program has changed it since: {named(found)}; "
            "nothing was written, and no OpenSM was signalled",
            OVERTAKEN,
        ).explained(
            "`ibkeys sm-show` shows what is in force. To keep it, nothing has to be done.",
            f"`ibkeys harden --via opensm` sets {ENFORCE} both again, whoever changed it.",
        )


def close_overtaken(writer: ChangeWriter, operation: int) -> str:
    """End the record of the unfinished changes on the subnet of *operation*, and return their name.

    The journal records the user. No file is written. Raises StoreError.
    """
    options = [each for each in writer.origin.options if each != _OPTION]
    origin = replace(writer.origin, options=(*options, _OPTION))
    with Journal(writer.fabric.stores.journal) as journal, journal.in_one_transaction():
        for record in _not_ended(journal, files_of(journal, operation)):
            journal.reopen(record.id, origin)
            journal.set_state(record.id, "undone")
    return f"the interrupted change of {ENFORCE}"
