"""Results as tables for people, JSON for programs, CSV for spreadsheets. The same values under the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from ibkeys.cli.exits import clean, write

Row = Mapping[str, Any]
IDENTITY: Final = ("node_guid", "port_guid", "node_desc", "node_type", "port", "lid")
UNREADABLE: Final = "?"
NOTHING: Final = "-"
_CSV_CHUNK: Final = 1 << 16


def schema(command: str) -> str:
    """Return the name of a command's JSON document."""
    return f"ibkeys.{command}/1"


def json_text(document: Mapping[str, Any]) -> str:
    """Return a document as JSON, with each item of its lists on a line of its own: as good for grep as for a parser."""
    import json

    def dumps(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(json.dumps(item) for item in value) + "\n]"
        return json.dumps(value)

    return "{" + ",\n".join(f"{json.dumps(key)}: {dumps(value)}" for key, value in document.items()) + "}"


def write_json(command: str, document: Mapping[str, Any]) -> None:
    """Write a document with its schema."""
    write(json_text({"schema": schema(command), **document}))


def write_csv(columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write a header and one line for each row; None is an empty field, true and false are 1 and 0."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        if text.tell() > _CSV_CHUNK:
            write(text.getvalue().removesuffix("\n"))
            text.seek(0)
            text.truncate()
        writer.writerow([_csv_field(row.get(column)) for column in columns])
    write(text.getvalue().removesuffix("\n"))


def _csv_field(value: Any) -> Any:
    if value is None:
        return ""
    return int(value) if isinstance(value, bool) else value


def write_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write columns, each as wide as its widest cell; numbers to the right. None is unreadable.

    A cell may be a list: its items stand on lines of their own.
    """
    cells = [[_lines(value) for value in row] for row in rows]
    numeric = [all(_is_number(line) for row in cells for line in row[at]) for at in range(len(titles))]
    widths = [max([len(title), *(len(line) for row in cells for line in row[at])]) for at, title in enumerate(titles)]

    def write_line(values: Iterable[str]) -> None:
        padded = (
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(values, widths, numeric, strict=True)
        )
        write("  ".join(padded).rstrip())

    write_line(titles)
    for row in cells:
        for line in zip_longest(*row, fillvalue=""):
            write_line(line)


def _is_number(text: str) -> bool:
    return text.isdigit() or text in (UNREADABLE, NOTHING)


def _lines(value: Any) -> list[str]:
    if isinstance(value, list):
        return [_cell(item) for item in value] or [""]
    return [_cell(value)]


def _cell(value: Any) -> str:
    if value is None:
        return UNREADABLE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(str(value))


def write_details(heading: str, pairs: Iterable[tuple[str, Any]]) -> None:
    """Write what is known of one thing: a heading, and one line for each name and value."""
    write(heading)
    listed = [(name, _cell(value)) for name, value in pairs]
    width = max((len(name) for name, _ in listed), default=0)
    for name, value in listed:
        write(f"  {name + ':':<{width + 1}} {value}")


def heading_of(row: Row) -> str:
    """Return the line that names a port: ``leaf 1 (switch 0x0002c90300a1b2c3) port 3, LID 5``."""
    name = row["node_desc"] if row["node_desc"] is not None else "name not readable"
    lid = row["lid"] if row["lid"] is not None else UNREADABLE
    return clean(f"{name} ({row['node_type'] or 'node'} {row['node_guid']}) port {row['port']}, LID {lid}")
