"""Database schemas, and the objects (tables, indexes, views, triggers) that a schema or a file defines."""

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
"""(type, name, table, SQL without blanks) of each table, index, view and trigger that a database defines."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of one kind of database.

    ``what``: its name in messages. ``application_id``: SQLite's number for its files. ``steps``: the migrations; step n
    has the statements that lead from version n to n + 1, so a new file runs all steps. A released step never changes.
    ``columns``: the allowed values, by table and column.
    """

    what: str
    application_id: int
    steps: Sequence[Sequence[str]]
    columns: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The newest version. A file stores its own version in ``PRAGMA user_version``."""
        return len(self.steps)


def objects_of(connection: sqlite3.Connection) -> Objects:
    """Return the objects that a database defines, without those that SQLite makes by itself. Raises sqlite3.Error."""
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    )
    return frozenset((str(kind), str(name), str(table), "".join(str(sql).split())) for kind, name, table, sql in rows)


@lru_cache(maxsize=8)
def objects_after(steps: tuple[tuple[str, ...], ...]) -> Objects:
    """Return the objects that a new database defines after the migrations *steps*."""
    import sqlite3

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in steps:
            for statement in step:
                connection.execute(statement)
        return objects_of(connection)
