"""Confirming a change: it is made first, and rolled back unless it is confirmed in time, as on network devices.

A change is confirmed by Enter at the terminal, or by any process through the journal (``ibkeys confirm``), which needs
no key store, lock or fabric. Confirmation and rollback exclude each other: both move the operation's stage in the
journal, and only the first succeeds. If the journal cannot be read, the change is rolled back.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from ibkeys.arguments import given
from ibkeys.change.confirming.guardian import POLL
from ibkeys.change.next_commands import next_commands, next_commands_of
from ibkeys.errors import IbkeysError, StoreError, StoreLocked
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.lock import holder_of


def is_unconfirmed(journal: Path, operation: int, start: int | None = None) -> bool:
    """Return whether an operation of the *journal* will be rolled back unless it is confirmed in time; True if the
    journal cannot be read. *start*: the number of one start of the operation, counted from 1. The result is False if
    the operation was started again after that one, because the later command does the rollback.
    """
    try:
        with Journal.read(journal) as stored:
            return _must_roll_back(stored.find(operation), start)
    except IbkeysError:
        return True


def _must_roll_back(record: OperationRecord, start: int | None) -> bool:
    return record.goes_back and (start is None or len(record.starts) <= start)


def block_confirmation(journal: Path, operation: int, start: int | None = None) -> bool:
    """Note in the *journal* that an operation can no longer be confirmed, and return whether it must be rolled back
    now; True if the journal cannot be read. *start*: as in `is_unconfirmed`."""
    # If the journal cannot be written, the command that rolls back reports it.
    with suppress(IbkeysError), Journal.read(journal) as stored, stored.in_one_transaction():
        record = stored.find(operation)
        if record.stage is not None and _must_roll_back(record, start):
            stored.move_stage(operation, record.stage, "going-back")
    return is_unconfirmed(journal, operation, start)


def await_confirmation(
    journal: Journal, operation: int, seconds: float, now: Callable[[], float], wait: Callable[[float], bool]
) -> Literal["", "here", "elsewhere"]:
    """Wait until *operation*, whose stage is ``unconfirmed``, is confirmed. Return where it was confirmed: "here"
    (*wait*) or "elsewhere" (another process, through the journal); "" when *seconds* are over, or when another process
    rolls it back: then it can no longer be confirmed.

    *now* returns the seconds of a clock that only goes forward, also while this process is stopped. *wait* lets the
    given number of seconds pass, and returns whether the user confirmed in the meantime; a confirmation after the end
    does not count. An interrupt (KeyboardInterrupt from *wait*) ends the time limit at once. Raises StoreError.
    """
    deadline = now() + seconds
    while True:
        stage = journal.find(operation).stage
        if stage != "unconfirmed":
            return "elsewhere" if stage == "confirmed" else ""
        left = deadline - now()
        try:
            if left > 0 and not wait(min(left, POLL)):
                continue
            left = deadline - now()
        except KeyboardInterrupt:
            left = 0
        if left > 0:
            if journal.move_stage(operation, "unconfirmed", "confirmed"):
                return "here"
        elif journal.move_stage(operation, "unconfirmed", "going-back"):
            return ""


def ask_for_confirmation(
    journal: Journal,
    operation: int,
    consequence: str,
    seconds: float,
    now: Callable[[], float],
    wait: Callable[[float], bool],
    say: Callable[[str], None],
) -> Literal["", "here", "elsewhere"]:
    """Wait as `await_confirmation` does, and return its result. *say* is called with texts for the user: the
    *consequence* of a missing confirmation, how to confirm, and the result. Raises StoreError."""
    where = f" --journal {shlex.quote(str(journal.path))}" if journal.path else ""
    how = given(
        f"press Enter, or run `ibkeys confirm {operation}` from any shell",
        f"call Operation.confirm, or run `ibkeys confirm {operation}{where}`",
    )
    say(f"{consequence} unless confirmed: {how}")
    confirmed = await_confirmation(journal, operation, seconds, now, wait)
    say(f"operation {operation} is confirmed" if confirmed else "not confirmed: rolling back")
    return confirmed


def confirm(journal: Journal, operation: int, tell_guards: Callable[[Mapping[str, Any]], None]) -> bool:
    """Confirm an operation that waits for its confirmation; return False when it was confirmed already.

    *tell_guards*: tells the guard processes on other hosts that the operation is confirmed. Called first with the
    options of the operation in the journal, which have the addresses: a guard does not read the journal. Raises
    StoreError, with the reason, if there is nothing to confirm or it is too late; StoreLocked if *journal* can only be
    read, because a command of an earlier version of ibkeys is using it; and the errors of *tell_guards*
    (HostNotReached, HostRefused).
    """
    if journal.database.is_copy:
        raise StoreLocked(
            f"{journal.path}: a command of an earlier version of ibkeys is running ({holder_of(journal.path)}): press "
            "Enter where it waits, or confirm with that version"
        )
    if journal.find(operation).awaits_confirmation:
        tell_guards(journal.options_of(operation))
    if journal.move_stage(operation, "unconfirmed", "confirmed"):
        return True
    record = journal.find(operation)
    if record.stage == "confirmed" and record.state != "undone":
        return False
    name = f"operation {operation} ({record.command})"
    if record.is_refused:
        raise StoreError(f"{name} was not confirmed in time, and its rollback was refused: {next_commands_of(record)}")
    if record.stage == "gone-back":
        again = next_commands(record.command, operation, None).finish
        raise StoreError(f"{name} was rolled back: it is too late to confirm").going_on(
            f"`{again}` raises the level again"
        )
    if record.state == "undone" or record.stage == "going-back":
        raise StoreError(f"{name} is rolling back or was rolled back: it is too late to confirm")
    if record.stage == "running" and record.state == "open":
        raise StoreError(f"{name} is still running: confirm it when it asks").going_on(
            f"if its process has died: {next_commands_of(record)}"
        )
    raise StoreError(f"{name} is not waiting for a confirmation")


def find_unconfirmed(journal: Journal) -> int:
    """Return the number of the operation that waits for its confirmation. Raises StoreError if there is none, or
    several."""
    found = [str(record.id) for record in journal.list_operations() if record.awaits_confirmation]
    if len(found) != 1:
        several = f"operations {', '.join(found)} wait for a confirmation: name one"
        none = f"no operation is waiting for a confirmation in {journal.in_words}; see `ibkeys journal`"
        raise StoreError(several if found else none)
    return int(found[0])
