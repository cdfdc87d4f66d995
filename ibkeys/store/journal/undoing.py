"""The states after the end of an undo: of the operation that it undid, and of an operation that the latter had
undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ibkeys.store.sqlite import Database


def take_back(database: Database, undo: int) -> None:
    """Make the operation that *undo* undid ``undone``, put an operation that the latter had undone in effect again, and
    so on."""
    undone = True
    operation = _undoes(database, undo)
    while operation is not None:
        if undone:
            database.execute(
                "UPDATE operations SET state_before_undo = state, state = 'undone' WHERE id = ? AND state != 'undone'",
                (operation,),
            )
        else:
            database.execute(
                "UPDATE operations SET state = coalesce(state_before_undo, 'done'), state_before_undo = NULL, "
                "stage = CASE WHEN stage IS NULL THEN NULL WHEN state_before_undo = 'open' THEN 'running' "
                "ELSE 'confirmed' END WHERE id = ? AND state = 'undone'",
                (operation,),
            )
        operation, undone = _undoes(database, operation), not undone


def _undoes(database: Database, operation: int) -> int | None:
    rows = database.query("SELECT undoes FROM operations WHERE id = ?", (operation,))
    return cast("int | None", rows[0][0]) if rows else None
