"""Unfinished changes of part_enforce: refusing them if another program has changed part_enforce since, and closing
them.

The journal has each options file before and after each change. While a hardening is in force, the file has the value of
the hardening or the value from before; after the undo, it has the value from before. Any other value was set by another
program.

An unfinished change becomes ``undone`` in two cases. A change in the other direction ended it; then the values that
this change found and wrote count. Or --overtaken ended it, which the journal records as its last start; then later
values of the files are from other programs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ibkeys.change.interlocks.overtaken import OVERTAKEN, changed_file, other_files, overtaken
from ibkeys.change.next_commands import close_command
from ibkeys.change.subnets import is_of_other_subnet
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused
from ibkeys.harden.enforcement_run import COMMANDS, ENFORCE, HARDENED
from ibkeys.harden.step import COMMAND
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.printable import named
from ibkeys.store.journal import Journal, OperationRecord

_OVERTAKEN_OPTION: Final = "--overtaken"


@dataclass(frozen=True, slots=True)
class JournaledValue:
    """The journal's data about part_enforce in one options file.

    ``former``: the value before the hardening; ``is_hardened``: whether the hardening was not undone.
    """

    former: str
    is_hardened: bool

    @property
    def known(self) -> tuple[str, ...]:
        """The values that are not from another program."""
        return (self.former, HARDENED) if self.is_hardened else (self.former,)


def unfinished_changes(writer: ChangeWriter, files: Iterable[OpensmFile] | None = None) -> list[OperationRecord]:
    """Return the changes of part_enforce, hardenings and undos, that were interrupted or failed, the oldest first.

    *files*: the options files of a subnet, to return only the changes on that subnet, and those that wrote no file;
    None for all. Raises StoreError.
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        return _unfinished_changes(journal, None if files is None else {file.key for file in files})


def _unfinished_changes(journal: Journal, files: Collection[FileKey] | None) -> list[OperationRecord]:
    found = [each for each in journal.list_operations() if each.state in ("open", "failed") and each.began in COMMANDS]
    return [each for each in found if files is None or is_of_subnet(journal, each.id, files)]


def is_of_subnet(journal: Journal, operation: int, files: Collection[FileKey]) -> bool:
    """Return whether a change of part_enforce belongs to the subnet with these options *files*. *operation*: its
    number.

    A change belongs to the subnet if the change, its undo, or the change that it undoes wrote one of the files, or if
    none of them wrote any file. Raises StoreError.
    """
    wrote = files_of(journal, operation)
    return not wrote or not wrote.isdisjoint(files)


def files_of(journal: Journal, operation: int) -> set[FileKey]:
    """Return the options files that a change, its undo, or the change that it undoes wrote. *operation*: the number of
    the change. Raises StoreError."""
    numbers = [operation, *journal.relatives(operation)]
    return {entry.image.key for number in numbers for entry in journal.files(number)}


def has_unfinished_change_on(writer: ChangeWriter, hosts: Collection[str]) -> bool:
    """Return whether an unfinished change may belong to this subnet, and wrote a file on one of *hosts* (host names),
    or no file yet.

    The subnet is swept unless it was swept before. A change by an earlier version of ibkeys may belong to any subnet.
    Raises StoreError.
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        unfinished = _unfinished_changes(journal, None)
        swept = (writer.fabric.swept or writer.fabric.sweep()) if unfinished else None
        here = {port.guid for port in swept.end_ports()} if swept is not None else set()
        wrote = [files_of(journal, each.id) for each in unfinished if not is_of_other_subnet(journal, each.id, here)]
    return any(not files or any(host in hosts for host, _ in files) for files in wrote)


def refuse_elsewhere(writer: ChangeWriter, operation: int, files: Sequence[OpensmFile]) -> None:
    """Raise Refused (``overtaken``) if a change wrote options files, but none of these *files*. Then this is another
    subnet, or other OpenSMs have replaced the OpenSMs of the change. *operation*: its number. Raises StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        found = other_files(files_of(journal, operation), files)
    if found:
        raise Refused(f"operation {operation} changed {found}", OVERTAKEN).unchanged(
            "name the port of its own subnet, and its hosts",
            f"If other OpenSMs have replaced those of that change: `{close_command(operation)}` "
            "only ends the record of a change that is open.",
        )


def is_hardening(record: OperationRecord) -> bool:
    """Return whether a change of part_enforce is a hardening, not the undo of one."""
    return record.command == COMMAND


def close_command_of(unfinished: Sequence[OperationRecord]) -> str:
    """Return the command that ends the records of all *unfinished* changes. It has the number of the last of them; if
    that is an undo, the number of the hardening that it undoes."""
    return close_command(unfinished[-1].undoes or unfinished[-1].id)


def part_enforce_in(data: bytes) -> str:
    """Return the part_enforce of an OpenSM that starts with the options file *data*."""
    return str(read_options(data).value(ENFORCE))


def journaled_values(writer: ChangeWriter) -> dict[FileKey, JournaledValue]:
    """Return the journal's data about part_enforce, by options file, for each file that a hardening changed.

    A file is missing if --overtaken ended its last change, because another program may have changed the file since.
    Raises StoreError.
    """
    values: dict[FileKey, JournaledValue] = {}
    with Journal.read(writer.fabric.stores.journal) as journal:
        records = [each for each in journal.list_operations() if each.began in COMMANDS]
        # By the last start: an interrupted operation may have been resumed after later operations had begun.
        for record in sorted(records, key=lambda each: each.starts[-1].started if each.starts else each.started):
            for image in [entry.image for entry in journal.files(record.id)]:
                before, after = part_enforce_in(image.before or b""), part_enforce_in(image.after or b"")
                if record.state == "undone":
                    if record.starts and _OVERTAKEN_OPTION in record.starts[-1].origin.options:
                        values.pop(image.key, None)
                elif is_hardening(record) and before != HARDENED == after:
                    values[image.key] = JournaledValue(before, is_hardened=True)
                elif not is_hardening(record) and record.state == "done" and before == HARDENED != after:
                    values[image.key] = JournaledValue(after, is_hardened=False)
    return values


def refuse_changed_files(
    files: Sequence[OpensmFile], values: Mapping[FileKey, JournaledValue], unfinished: Sequence[OperationRecord]
) -> None:
    """Raise Refused (``overtaken``) if one of *files* has a part_enforce that another program set.

    *values*: the journal's data, which has every one of *files*; *unfinished*: the changes that have not ended.
    """
    found = [
        changed_file(file, f"{ENFORCE} {value}")
        for file in files
        if (value := part_enforce_in(file.data)) not in values[file.key].known
    ]
    if found and unfinished:
        what = f"the change of {ENFORCE} begun {unfinished[-1].started} by {unfinished[-1].command}"
        raise overtaken(what, found, close_command_of(unfinished))
    if found:
        raise Refused(
            f"harden does not restore {ENFORCE}, because another user or program has changed it since: {named(found)}; "
            "nothing was written, and no OpenSM was signalled",
            OVERTAKEN,
        ).explained(
            "`ibkeys sm-show` shows what is in force. To keep it, nothing has to be done.",
            f'`ibkeys harden --via opensm` sets {ENFORCE} to "both" again, whoever changed it.',
        )


def close_overtaken(writer: ChangeWriter, operation: int) -> str:
    """Set the unfinished changes on the subnet of the change with the number *operation* to undone in the journal, and
    return their name, in words.

    The journal records the user. No options file is written. Raises StoreError.
    """
    options = [each for each in writer.origin.options if each != _OVERTAKEN_OPTION]
    origin = replace(writer.origin, options=(*options, _OVERTAKEN_OPTION))
    with Journal(writer.fabric.stores.journal) as journal, journal.in_one_transaction():
        for record in _unfinished_changes(journal, files_of(journal, operation)):
            journal.reopen(record.id, origin)
            journal.set_state(record.id, "undone")
    return f"the interrupted change of {ENFORCE}"
