"""Writing results: tables for people, JSON for programs, CSV for spreadsheets.

A value has the same name in JSON and CSV.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.cli.documents.field import NOTHING, CsvRows, Document, Field, JsonRow
from ibkeys.cli.exits import clean, write, write_each, write_exact
from ibkeys.cli.screen.colour import ColouredValue, paint
from ibkeys.cli.screen.lines import keep_whole, width_of
from ibkeys.cli.screen.tables import JOINED, Cell, CellLine, table_layout

UNREADABLE: Final = "?"


def write_json(document: Document, content: Mapping[str, Any]) -> None:
    """Write *content* as a JSON document with its schema."""
    from ibkeys.jsonfile import dumps

    write_exact(dumps({"schema": document.schema, **content}))


def write_document(
    format: str, document: Document, content: Callable[[], Mapping[str, Any]], rows: Iterable[JsonRow]
) -> bool:
    """Write the result if *format* is json or csv, and return whether it is.

    *content*: returns the content of the JSON document. *rows*: the rows of CSV, with the columns of *document*.
    """
    if format == "json":
        write_json(document, content())
    elif format == "csv":
        write_rows(document.rows, rows)
    return format in ("json", "csv")


def write_json_items(items: Iterable[Mapping[str, Any]]) -> None:
    """Write the items of a JSON list, each on its own line as soon as it is made, because there may be very many."""
    import json

    separator = ""
    for each in items:
        write_exact(separator + json.dumps(each))
        separator = ","


def write_rows(declared: CsvRows, rows: Iterable[JsonRow]) -> None:
    """Write *rows* as CSV with the *declared* columns."""
    write_csv(declared.columns, rows)


def write_csv(columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
    """Write a header, and one line for each row as soon as it is made.

    None is an empty field; true and false are 1 and 0. Parts of a value that is an object may have their own columns:
    ``peer_port`` for ``port`` of ``peer``. A text that a spreadsheet would take for a formula gets an apostrophe.
    """
    import csv

    writer = csv.writer(_Lines())
    writer.writerow(columns)
    for row in rows:
        values = _flat(row)
        writer.writerow([_csv_field(values.get(column)) for column in columns])


class _Lines:
    """The stream to which the csv module writes, one line at a time.

    The module ends lines with CR LF, so that it quotes fields with one of these characters. Here they end with LF.
    """

    def write(self, line: str) -> None:
        """Write a line to standard output."""
        write_exact(line.removesuffix("\r\n"))


def _flat(row: JsonRow) -> dict[str, Any]:
    """Return *row* with further items: one for each part of a value that is an object."""
    objects = [(key, value) for key, value in row.items() if isinstance(value, dict)]
    return {f"{key}_{part}": value for key, parts in objects for part, value in parts.items()} | dict(row)


def _csv_field(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    return _with_apostrophes(str(value)) if not isinstance(value, (int, float)) else value


# The places before which an apostrophe is put: the beginning of a text, and each character at which another program may
# divide it into cells, if a formula may follow (OWASP, "CSV Injection").
_FORMULA: Final = re.compile(r"(?:^|(?<=[;\t\r\n]))(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r])")


def _with_apostrophes(text: str) -> str:
    """Return *text* with apostrophes before formulas, so that no spreadsheet runs them.

    The owner of a node chooses its name, so a name may be such a text.
    """
    return text if text == NOTHING else _FORMULA.sub("'", text)


@dataclass(frozen=True, slots=True)
class OneLine:
    """Several coloured values that share one line of a cell, if there is room."""

    values: tuple[ColouredValue, ...]


def write_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write the lines of `table_lines`."""
    write_each(table_lines(titles, rows))


def write_columns(fields: Sequence[Field], rows: Iterable[JsonRow]) -> None:
    """Write a table with the *fields* that have a title."""
    titled = [field for field in fields if field.title]
    cells = ([field.cell(row) for field in titled] for row in rows)
    write_each(table_lines([field.short_title for field in titled], cells))


def table_lines(
    titles: Sequence[str], rows: Iterable[Sequence[Any]], below: Iterable[Sequence[str]] | None = None
) -> Iterator[str]:
    """Yield the lines of a table. Columns of numbers are aligned at the right.

    *rows*: the cells; None stands for a value that could not be read, and the items of a list have a line each.
    *below*: for each row the lines that follow it unchanged. On a terminal the lines are fitted to its width: see
    `ibkeys.cli.screen.tables`.
    """
    cells = [[_lines(value) for value in row] for row in rows]
    numeric = [all(_is_number(line.text) for row in cells for line in row[at]) for at in range(len(titles))]
    return table_layout(titles, cells, numeric, below, width_of(sys.stdout))


def _is_number(text: str) -> bool:
    return text.isdigit() or text in (UNREADABLE, NOTHING)


def _lines(value: Any) -> Cell:
    if isinstance(value, str):
        return (CellLine(clean(value)),)
    if isinstance(value, list):
        return tuple(map(_line, value)) or (CellLine(""),)
    return (_line(value),)


def _line(value: Any) -> CellLine:
    if isinstance(value, ColouredValue):
        return CellLine(_cell(value.value), value.role)
    if isinstance(value, OneLine):
        parts = tuple((_cell(each.value), each.role) for each in value.values)
        return CellLine(JOINED.join(text for text, _ in parts), parts=parts)
    return CellLine(_cell(value))


def _cell(value: Any) -> str:
    if value is None:
        return UNREADABLE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(str(value))


def write_details(heading: str, pairs: Iterable[tuple[str, Any]]) -> None:
    """Write a heading, and below it one line for each name and value."""
    write(heading)
    listed = [(name, _line(value)) for name, value in pairs]
    width = max((len(name) for name, _ in listed), default=0)
    for name, line in listed:
        write(f"  {name + ':':<{width + 1}} {paint(line.text, line.role)}", hang=width + 4)


def heading_of(row: JsonRow) -> str:
    """Return the line that names a port: ``leaf 1 (switch 0x0002c90300a1b2c3) port 3, LID 5``.

    This also registers the name of the node: no later line is folded within it.
    """
    keep_whole([row["node_desc"]])
    name = row["node_desc"] if row["node_desc"] is not None else "name not readable"
    lid = row["lid"] if row["lid"] is not None else UNREADABLE
    return clean(f"{name} ({row['node_type'] or 'node'} {row['node_guid']}) port {row['port']}, LID {lid}")
