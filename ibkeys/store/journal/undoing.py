"""Changing the states of operations when an undo has ended: of the undone operation, and, if that was an undo too, of
the operation that it had undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ibkeys.store.sqlite import Database


def update_undone_states(database: Database, undo: int) -> None:
    """Set the states of all operations in the chain of undos that ends with *undo*, the latest one.

    The operation that *undo* undid becomes ``undone``. If that was an undo itself, the operation that it had undone
    gets its former state back, and so on. Do nothing if *undo* is no undo. Raises StoreError.
    """
    is_undone = True
    operation = _undone_operation(database, undo)
    while operation is not None:
        if is_undone:
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
            # Its undo did not end before it was undone, so the operation kept its state.
            database.execute(
                "UPDATE operations SET stage = CASE state WHEN 'open' THEN 'running' ELSE 'confirmed' END "
                "WHERE id = ? AND state != 'undone' AND stage = 'going-back'",
                (operation,),
            )
        operation, is_undone = _undone_operation(database, operation), not is_undone


def _undone_operation(database: Database, operation: int) -> int | None:
    """Return the number of the operation that *operation* undoes, None if it is no undo."""
    rows = database.query("SELECT undoes FROM operations WHERE id = ?", (operation,))
    return cast("int | None", rows[0][0]) if rows else None
