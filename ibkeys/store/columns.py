"""Allowed values of database columns. SQLite does not enforce column types, and a damaged file may hold anything.

Every row is checked when it is read. Damage is then reported once, with the column's name, before a value is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_GUID: Final = re.compile(r"0x[0-9a-f]{16}")
_ROW_NAME: Final = re.compile(r"[0-9a-f]{32}")
_REFERENCE: Final = re.compile(r"[0-9a-f]{32}|[0-9]{1,18}")
_TIME: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}Z")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type in Python, whether it may be NULL, and a condition that its other values meet."""

    kind: type[Any]
    null: bool
    condition: Callable[[Any], object]

    def allows(self, value: Any) -> bool:
        """Return whether this column may hold *value*."""
        if value is None:
            return self.null
        return type(value) is self.kind and bool(self.condition(value))


def number(most: int = (1 << 63) - 1, null: bool = False) -> Column:
    """Return a column for an integer from 0 to *most*; with *null* also for NULL, as in all functions below."""
    return Column(int, null, lambda value: 0 <= value <= most)


def text(words: Iterable[str] | None = None, null: bool = False) -> Column:
    """Return a column for text; with *words* only for one of these."""
    allowed = None if words is None else frozenset(words)
    return Column(str, null, lambda value: allowed is None or value in allowed)


def blob(*sizes: int, null: bool = False) -> Column:
    """Return a column for bytes; with *sizes* only for bytes of one of these lengths."""
    return Column(bytes, null, lambda value: not sizes or len(value) in sizes)


def guid(null: bool = False) -> Column:
    """Return a column for a GUID as text: ``0x`` and 16 hexadecimal digits in lower case."""
    return Column(str, null, _GUID.fullmatch)


def row_name(null: bool = False) -> Column:
    """Return a column for the random name of a row, or of a journal: 32 hexadecimal digits."""
    return Column(str, null, _ROW_NAME.fullmatch)


def row_reference(null: bool = False) -> Column:
    """Return a column that refers to a row of another file, by its name, or by its number as earlier versions did."""
    return Column(str, null, _REFERENCE.fullmatch)


def time(null: bool = False) -> Column:
    """Return a column for a time as ISO 8601 in UTC, to the second: ``2026-11-20T09:30:00Z``."""
    return Column(str, null, _TIME.fullmatch)


def first_wrong(names: Sequence[str], rows: Sequence[Sequence[Any]], columns: Mapping[str, Column]) -> str | None:
    """Return the name of the first column in which one of *rows* has an invalid value; None if all values are valid.

    *names*: the names of the columns of *rows*, in order. A column that is not in *columns* may have any value.
    """
    checked = [(at, name, columns[name]) for at, name in enumerate(names) if name in columns]
    for at, name, column in checked:
        # Many values of a column are equal, so each different one is checked once, by type too, because 1 equals 1.0.
        if not all(column.allows(value) for _, value in {(type(row[at]), row[at]) for row in rows}):
            return name
    return None
