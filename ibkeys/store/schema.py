"""Database schemas, and checking that a file matches one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from ibkeys.store.columns import Column

if TYPE_CHECKING:
    import sqlite3

Objects = frozenset[tuple[str, str, str, str]]
"""Type, name, table and SQL (without blanks) of everything that a database defines."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of one kind of database. ``what`` names it in messages; ``application_id`` marks its files. ``steps``
    are the migrations: step n holds the statements that lead from version n to n + 1, so a new file runs them all.
    Steps that were released never change. ``columns``: by table, the allowed values of its columns.
    """

    what: str
    application_id: int
    steps: Sequence[Sequence[str]]
    columns: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The newest version, which is stored in ``PRAGMA user_version``."""
        return len(self.steps)


def objects_of(connection: sqlite3.Connection) -> Objects:
    """Return type, name, table and SQL of everything that a database defines, except for SQLite's own objects."""
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    )
    return frozenset((str(kind), str(name), str(table), "".join(str(sql).split())) for kind, name, table, sql in rows)


@lru_cache(maxsize=8)
def objects_after(steps: tuple[tuple[str, ...], ...]) -> Objects:
    """Return the objects that a database defines after *steps*."""
    import sqlite3

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in steps:
            for statement in step:
                connection.execute(statement)
        return objects_of(connection)
