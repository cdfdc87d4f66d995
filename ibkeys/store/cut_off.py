"""Closing journal operations that were interrupted or failed and that a later operation completed."""

from __future__ import annotations

from collections.abc import Collection

from ibkeys.store.journal import Journal, OperationState


def close_cut_off(
    journal: Journal, commands: Collection[str], state: OperationState, since: str = "", but: int | None = None
) -> None:
    """Set *state* on every open or failed operation of *commands* that a later operation completed.

    *since*: only those that began then or later, in the journal's form of a time; *but*: that later one. Raises
    StoreError.
    """
    for record in journal.list_operations():
        is_open = record.state in ("open", "failed") and record.id != but
        if is_open and record.command in commands and record.started >= since:
            journal.set_state(record.id, state)
