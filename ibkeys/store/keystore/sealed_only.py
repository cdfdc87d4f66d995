"""Triggers of tables with keys: an encrypted key store accepts only sealed keys, and another one only plain keys.
Released SQL never changes."""

from __future__ import annotations


def sealed_only(table: str, column: str) -> tuple[str, ...]:
    """Return the SQL that makes the triggers of one table. *column*: the column with its keys. A key in plain text is
    never stored in an encrypted store, whatever program writes it, nor a sealed key in another store.
    """
    return tuple(
        f"""CREATE TRIGGER {table}_{event}_sealed BEFORE {statement} ON {table}
        WHEN (length(NEW.{column}) = 8) = EXISTS (SELECT 1 FROM encryption)
        BEGIN SELECT RAISE (ABORT, 'sealed keys belong into an encrypted key store, and no others'); END"""
        for event, statement in (("insert", "INSERT"), ("update", f"UPDATE OF {column}"))
    )
