"""The command `journal`: the operations of changing commands."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits, options
from ibkeys.cli.documents.journal import FILE, JOURNAL, OPERATION
from ibkeys.cli.exits import clean, write
from ibkeys.cli.given import is_given
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import journal_of
from ibkeys.cli.options import Where
from ibkeys.cli.render import heading_of, write_columns, write_document
from ibkeys.cli.showing import values_of
from ibkeys.errors import StoreError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.store.journal import FileEntry, JournalEntry, OperationRecord
    from ibkeys.store.journal.records import RehearsalRecord


@command("journal")
@options.operation
@options.format
@options.fabric
def journal(where: Where, format: str, operation: int | None) -> int:
    """List the changes that were made.

    Shows one line for each operation: when, by whom, on which host, with which interlocks overridden. With ID also
    shows what it overwrote, port by port. An open operation was interrupted, or its result could not be proven: the
    commands that finish it and that roll it back are named.
    """
    from ibkeys.store.journal import Journal
    from ibkeys.store.journal.rehearsals import rehearsal_before
    from ibkeys.store.journal.runs import Runs
    from ibkeys.store.lock import holder_of
    from ibkeys.store.private_files import is_there

    path = journal_of(where)
    if where.journal and is_given("journal") and not is_there(path, "journal"):
        raise StoreError(f"{path}: there is no such journal; without --journal the default one is read")
    with Journal.read(path) as opened:
        records = opened.list_operations() if operation is None else [opened.find(operation)]
        entries = [] if operation is None else opened.entries(operation)
        removals = set[int]() if operation is None else Runs(opened).removals(operation)
        files = [] if operation is None else list(opened.files(operation))
        steps = [] if operation is None else [asdict(step) for step in opened.steps(operation)]
        rehearsal = None if operation is None else rehearsal_before(opened, records[0])
    operations = [operation_document(record) for record in records]
    rows = [row for entry in entries for row in changed_rows(entry, removals)]
    details: dict[str, Any] = {}
    if operation is not None:
        details = {
            "steps": steps,
            "changes": rows,
            "rehearsal": asdict(rehearsal) if rehearsal is not None else None,
            "files": [_file(entry) for entry in files],
        }
    listed = [{**each, **_joined(each)} for each in operations] if operation is None else rows
    document = JOURNAL if operation is None else JOURNAL._replace(rows=JOURNAL.other_rows)
    if not write_document(format, document, lambda: {"operations": operations, **details}, listed):
        if not operations:
            write(f"the journal is empty: {path}" if is_there(path, "journal") else f"there is no journal yet: {path}")
            return exits.DONE
        is_waited_for = bool(holder_of(path))  # a command that waits for a confirmation holds the lock
        _write(
            operations, steps, rows, files, rehearsal, with_starts=operation is not None, is_waited_for=is_waited_for
        )
    return exits.DONE


def operation_document(record: OperationRecord) -> dict[str, Any]:
    """Return an operation as an object of the document.

    Its state is "open" also if the operation has failed, waits for a confirmation, or is undone in part. User, host and
    options are None if an earlier version of ibkeys did not record them.
    """
    from ibkeys.change.next_commands import next_commands_of

    commands = next_commands_of(record)
    starts = [
        {"started": start.started, **values_of(start.origin, ("user", "host", "overrides", "options"))}
        for start in record.starts
    ]
    return {
        "id": record.id,
        "command": record.command,
        "state": "open" if commands is not None else record.state,
        **values_of(record, ("started", "finished", "ports", "unproven")),
        "unconfirmed": record.awaits_confirmation,
        "user": starts[0]["user"] if starts else None,
        "host": starts[0]["host"] if starts else None,
        "overrides": _values_of_starts(starts, "overrides"),
        "options": _values_of_starts(starts, "options"),
        "undoes": record.undoes,
        "undone_by": record.undone_by if record.state == "undone" else None,
        "finish_with": commands and commands.finish,
        "roll_back_with": commands and commands.roll_back,
        "close_with": commands and commands.close,
        "rollback": record.rollback,
        **values_of(record, ("step", "waiting", "method")),
        "subject": _subject(record),
        "starts": starts,
    }


def _subject(record: OperationRecord) -> str | None:
    """Return what a command that edits the policy in force changed, which the journal has before its options; None for
    other operations, and if it was not recorded."""
    from ibkeys.store.journal.records import PARTITION_VERBS

    if record.command not in PARTITION_VERBS or not record.starts:
        return None
    first = next(iter(record.starts[0].origin.options), "-")
    return None if first.startswith("-") else first


def _values_of_starts(starts: list[dict[str, Any]], name: str) -> list[str] | None:
    """Return the values that *starts* have under *name*, each once; None if no start was recorded."""
    return list(dict.fromkeys(each for start in starts for each in start[name])) if starts else None


def _joined(operation: dict[str, Any]) -> dict[str, str | None]:
    """Return the fields of an operation that are lists, each joined to one text for a table."""
    return {name: None if operation[name] is None else " ".join(operation[name]) for name in ("overrides", "options")}


def changed_rows(entry: JournalEntry, removals: Collection[int] = ()) -> list[dict[str, Any]]:
    """Return the changes of one Set as rows, one for each P_Key entry or field that it changed. *removals*: the port
    GUIDs whose M_Key the operation removed."""
    from ibkeys.change.images import changes_of
    from ibkeys.topology.port_id import identity

    image = entry.image
    port = identity(image.node_guid, image.port_guid or None, image.node_desc, image.node_type, image.port, image.lid)
    return [
        {**port, "status": entry.status, "kind": kind, "index": index, "before": before, "after": after}
        for kind, index, before, after in changes_of(image, image.port_guid in removals)
    ]


def _file(entry: FileEntry) -> dict[str, Any]:
    """Return one changed file as a row. Its contents are left out, because a policy may name tenants."""
    image = entry.image
    sizes = (_size(each) for each in (image.before, image.after))
    modes = (None, None) if image.closed_to is None else (f"{image.mode:04o}", f"{image.closed_to:04o}")
    values = image.host or None, image.path, entry.status, *sizes, *modes
    return {field.name: value for field, value in zip(FILE, values, strict=True)}


def _size(recorded: bytes | None) -> int | None:
    """Return the size of the file of which the journal keeps *recorded*. None if there was no file, or if the journal
    keeps none of its bytes."""
    from ibkeys.host.replacing.conversions import NO_BYTES
    from ibkeys.managers.opensm.references import size_of_recorded

    return None if recorded is None or recorded == NO_BYTES else size_of_recorded(recorded)


def _size_in_words(recorded: bytes | None) -> str:
    size = _size(recorded)
    return "no file" if recorded is None else "a file of keys" if size is None else f"{size} bytes"


def _write(
    operations: list[dict[str, Any]],
    steps: list[dict[str, Any]],
    rows: list[dict[str, Any]],
    files: list[FileEntry],
    rehearsal: RehearsalRecord | None,
    with_starts: bool,
    is_waited_for: bool,
) -> None:
    from ibkeys.change.next_commands import ROLLBACKS, NextCommands

    write_columns(OPERATION, map(in_one_line, operations))
    for each in operations:
        if each["unconfirmed"] and is_waited_for:
            write(f"operation {each['id']} rolls back unless it is confirmed: `{each['finish_with']}`")
        elif each["unconfirmed"]:
            write(
                f"operation {each['id']} is not confirmed, and the command that waited for that has ended; its guard "
                f"rolls it back, unless that has ended too: `{each['finish_with']}` confirms it, "
                f"`{each['roll_back_with']}` rolls it back"
            )
        elif each["state"] == "open":
            rollback = each["rollback"]
            state = _open_in_words(each) if rollback is None else f"was not confirmed, and {ROLLBACKS[rollback]}"
            commands = NextCommands(each["finish_with"], each["roll_back_with"], each["close_with"])
            write(f"operation {each['id']} {state}: {commands}")
    if with_starts and operations[0]["method"] is not None:
        write(f"method: {operations[0]['method']}")
    if rehearsal is not None:
        write(clean(rehearsal.in_words))
    for start in operations[0]["starts"] if with_starts else ():
        write(_start_line(start))
    for step in steps:
        write(clean(f"step {step['name']}, begun {step['begun']}{_unless_done(step['status'])}"))
    for entry in files:
        file, image = _file(entry), entry.image
        sizes = [_size_in_words(image.before), _size_in_words(image.after)]
        if file["mode_before"] is not None:
            sizes = [f"mode {file['mode_before']}", file["mode_after"]]
        host = f" on {file['host']}" if file["host"] else ""
        write(clean(f"file {file['path']}{host}: {' -> '.join(sizes)}{_unless_done(file['status'])}"))

    heading = ""
    for row in rows:
        if heading_of(row) != heading:
            heading = heading_of(row)
            write(heading)
        write(f"  {change_in_words(row)}")


def change_in_words(row: dict[str, Any]) -> str:
    """Return a row of `changed_rows` in words. A change that was not proven is marked."""
    from ibkeys.change.wanted import value_in_words

    index = f"[{row['index']}]" if row["index"] is not None else ""
    values = f"{value_in_words(row['before'])} -> {value_in_words(row['after'])}"
    return f"{row['kind']}{index}: {values}{_unless_done(row['status'])}"


def _unless_done(status: str) -> str:
    return "" if status == "done" else f" ({status})"


def _open_in_words(operation: dict[str, Any]) -> str:
    """Return the words for an open operation, with the step where it stopped and the number of ports left to change."""
    where = f", interrupted in step {operation['step']}" if operation["step"] else ""
    ports_left = f", {counted(operation['waiting'], 'port')} left to change" if operation["waiting"] else ""
    return clean(f"is open{where}{ports_left}")


def in_one_line(operation: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `operation_document` with each of its lists joined to one text."""
    return {**operation, **_joined(operation)}


def _start_line(start: dict[str, Any]) -> str:
    overrides = f"; overridden: {', '.join(start['overrides'])}" if start["overrides"] else ""
    options = f"; with {' '.join(start['options'])}" if start["options"] else ""
    return clean(f"started {start['started']} by {start['user']} on {start['host']}{overrides}{options}")
