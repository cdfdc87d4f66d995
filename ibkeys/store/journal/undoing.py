"""How the end of an undo changes the state of the operation that it undid, and of an operation that the latter had
undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import sqlite3


def take_back(connection: sqlite3.Connection, undo: int) -> None:
    """Let what *undo* undid be ``undone``, what that one undid be in effect again, and so on."""
    undone = True
    operation = _undoes(connection, undo)
    while operation is not None:
        if undone:
            connection.execute(
                "UPDATE operations SET state_before_undo = state, state = 'undone' WHERE id = ? AND state != 'undone'",
                (operation,),
            )
        else:
            connection.execute(
                "UPDATE operations SET state = coalesce(state_before_undo, 'done'), state_before_undo = NULL "
                "WHERE id = ? AND state = 'undone'",
                (operation,),
            )
            connection.execute(
                "UPDATE operations SET stage = CASE state WHEN 'open' THEN 'running' ELSE 'confirmed' END "
                "WHERE id = ? AND stage IS NOT NULL",
                (operation,),
            )
        operation, undone = _undoes(connection, operation), not undone


def _undoes(connection: sqlite3.Connection, operation: int) -> int | None:
    rows = connection.execute("SELECT undoes FROM operations WHERE id = ?", (operation,)).fetchall()
    return cast("int | None", rows[0][0]) if rows else None
