"""The change of sm_key and sa_key that was begun and has not ended, and the commands that finish it or end its record.

Its keys are ``pending`` in the key store, and its operation is in the journal. Where the journal was lost, the next
change goes on with these keys. Where the key store was lost, nobody knows them any more, and new ones take their place.
"""

from __future__ import annotations

from typing import Final

from ibkeys.change.next_commands import next_commands
from ibkeys.change.writer import Writer
from ibkeys.errors import Refused, StoreError, UsageError
from ibkeys.smkeys.managers import KINDS
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.sm_keys import SmKeys

COMMAND: Final = "smkey-rotate"
NEW_KEYS: Final = f"ibkeys {COMMAND} --via opensm"
"""The command that sets new keys; where the journal does not have the change that was begun, it finishes that."""


def open_change(journal: Journal) -> OperationRecord | None:
    """Return the last change of the journal, where it has not ended. Raises StoreError."""
    left = [each for each in journal.list_operations() if each.command == COMMAND and each.state != "undone"]
    return left[-1] if left and left[-1].state != "done" else None


def has_pending_keys(store: KeyStore) -> bool:
    """Whether the key store has keys of a change that has not ended; no passphrase is needed. Raises StoreError."""
    return any(row.state == "pending" and row.kind in KINDS for row in SmKeys(store).outline())


def finishes(operation: int | None) -> str:
    """Return the command that finishes a change. *operation*: its number, None where the journal does not have it."""
    return NEW_KEYS if operation is None else str(next_commands(COMMAND, operation, None).finish)


def closes(operation: int) -> str:
    """Return the command that only ends the record of a change. *operation*: its number."""
    return f"ibkeys resume {operation} --overtaken"


def open_change_of(writer: Writer) -> OperationRecord | None:
    """As `open_change`, of the journal of *writer*."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        return open_change(journal)


def refuse_while_open(writer: Writer) -> None:
    """Raise Refused (``open-run``) while a change has not ended: its own command finishes it, and no other begins
    before. One whose keys went with a lost key store ends with the next change. Raises StoreError."""
    found = open_change_of(writer)
    if found is None or not has_pending_keys(writer.keystore):
        return
    raise Refused(
        f"operation {found.id} ({COMMAND}) is not finished, and no other change of sm_key and sa_key can begin before "
        f"that: `{finishes(found.id)}` finishes it",
        "open-run",
    ).unchanged()


def require_open(writer: Writer, operation: int) -> None:
    """Raise what `why_it_stays` returns: UsageError, or StoreError."""
    error = why_it_stays(writer, operation)
    if error is not None:
        raise error


def why_it_stays(writer: Writer, operation: int) -> UsageError | StoreError | None:
    """Return the error for a change that goes neither on nor back, None for one that does. *operation*: its number in
    the journal. Raises StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        found = open_change(journal)
        record = journal.find(operation)
    is_pending = has_pending_keys(writer.keystore)
    name = f"operation {record.id} ({COMMAND})"
    if record.state in ("done", "undone"):
        return UsageError(f"{name} has ended: `{NEW_KEYS}` sets new keys")
    if found is None or found.id != record.id:
        return UsageError(
            f"{name} is not the last change of sm_key and sa_key: only that one goes on or back; "
            f"`{closes(record.id)}` ends the record of this one"
        )
    if not is_pending:
        return StoreError(
            f"the key store has no keys of {name}: they were given up, or it was lost, or is another one; `{NEW_KEYS}` "
            "sets new keys on all hosts, and ends this"
        )
    return None
