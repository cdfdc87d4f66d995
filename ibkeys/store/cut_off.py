"""Journal operations that were interrupted or failed: which there are, and closing those that a later one completed."""

from __future__ import annotations

from collections.abc import Collection

from ibkeys.store.journal import Journal, OperationRecord, OperationState


def cut_off(journal: Journal, commands: Collection[str]) -> list[OperationRecord]:
    """Return the open and failed operations of *commands*, oldest first. Raises StoreError."""
    return [each for each in journal.list_operations() if each.state in ("open", "failed") and each.command in commands]


def close_cut_off(
    journal: Journal,
    commands: Collection[str],
    state: OperationState,
    since: str = "",
    but: int | None = None,
    files: Collection[tuple[str, str]] | None = None,
) -> None:
    """Set *state* on every open or failed operation of *commands* that a later operation completed.

    *since*: only those that began then or later, in the journal's form of a time; *but*: that later one; *files*: only
    those that wrote some of these, by host and path, and no others. Raises StoreError.
    """
    for record in cut_off(journal, commands):
        if record.id == but or record.started < since:
            continue
        if files is not None:
            wrote = {entry.image.key for entry in journal.files(record.id)}
            if not wrote or not wrote <= set(files):
                continue
        journal.set_state(record.id, state)
