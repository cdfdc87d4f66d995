"""Confirming a change: it is made first, and rolled back unless somebody confirms it in time, as on network devices.

Who may confirm: Enter at the terminal, or any process through the journal (``ibkeys confirm``), which needs no key
store, lock or fabric. Of confirmation and rollback exactly one happens: both move the operation's stage, and the
journal lets one of them.
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
    """Return whether an operation of the *journal* is rolled back unless somebody confirms it. What cannot be read was
    not confirmed. *start*: which start of it is meant, counted from 1; whoever started it again later has to roll back.
    """
    try:
        with Journal.read(journal) as stored:
            return _goes_back(stored.find(operation), start)
    except IbkeysError:
        return True


def _goes_back(record: OperationRecord, start: int | None) -> bool:
    return record.goes_back and (start is None or len(record.starts) <= start)


def may_go_back(journal: Path, operation: int, start: int | None = None) -> bool:
    """Return whether an operation of the *journal* is to be rolled back now. From then on it cannot be confirmed.
    *start*: as in `is_unconfirmed`."""
    # where the journal cannot be written, the command that rolls back says so
    with suppress(IbkeysError), Journal.read(journal) as stored, stored.in_one_transaction():
        record = stored.find(operation)
        if record.stage is not None and _goes_back(record, start):
            stored.move_stage(operation, record.stage, "going-back")
    return is_unconfirmed(journal, operation, start)


def await_confirmation(
    journal: Journal, operation: int, seconds: float, now: Callable[[], float], wait: Callable[[float], bool]
) -> Literal["", "here", "elsewhere"]:
    """Wait until *operation*, which is ``unconfirmed``, is confirmed, and return where that was done; "" when *seconds*
    are over, and nobody can confirm it any more.

    *now* returns seconds of a clock that only goes forward, also while this process is stopped; *wait* lets the given
    seconds pass and returns whether the user confirmed in the meantime, which counts before the end only. An interrupt
    (KeyboardInterrupt from *wait*) is a no. Raises StoreError.
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
    what: str,
    seconds: float,
    now: Callable[[], float],
    wait: Callable[[float], bool],
    say: Callable[[str], None],
) -> Literal["", "here", "elsewhere"]:
    """As `await_confirmation`; *say* tells the user *what* happens otherwise, how it is confirmed, and what came of
    it."""
    where = f" --journal {shlex.quote(str(journal.path))}" if journal.path else ""
    way = given(
        f"press Enter, or run `ibkeys confirm {operation}` from any shell",
        f"call Operation.confirm, or run `ibkeys confirm {operation}{where}`",
    )
    say(f"{what} unless confirmed: {way}")
    confirmed = await_confirmation(journal, operation, seconds, now, wait)
    say(f"operation {operation} is confirmed" if confirmed else "not confirmed: rolling back")
    return confirmed


def confirm(journal: Journal, operation: int, tell_guards: Callable[[Mapping[str, Any]], None]) -> bool:
    """Confirm an operation that waits for it; False when it was confirmed already. *tell_guards*: tells those who wait
    on other hosts, of which the journal kept how they are reached: they do not ask the journal, so they come first.

    Raises StoreError when there is nothing to confirm, or it is too late, and says why; HostNotReached, HostRefused.
    StoreLocked where *journal* is only read, because a command of an earlier version of ibkeys goes on with it.
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


def waiting_for_confirmation(journal: Journal) -> int:
    """Return the operation that waits for its confirmation. Raises StoreError where there is none, or several."""
    found = [str(record.id) for record in journal.list_operations() if record.awaits_confirmation]
    if len(found) != 1:
        several = f"operations {', '.join(found)} wait for a confirmation: name one"
        none = f"no operation is waiting for a confirmation in {journal.in_words}; see `ibkeys journal`"
        raise StoreError(several if found else none)
    return int(found[0])
