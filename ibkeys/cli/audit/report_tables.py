"""Tables for a report's pages: changes between snapshots, and operations of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ibkeys.audit.formats.report_pages import ReportTable, Text
from ibkeys.audit.formats.words import count, time_text
from ibkeys.cli.comparing.words import in_words
from ibkeys.cli.documents.journal import OPERATION
from ibkeys.cli.tools.journal import change_in_words, changed_rows, in_one_line, operation_document
from ibkeys.fabric.compare import Comparison, compare
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.grouping import grouped
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import Runs
from ibkeys.topology.moves import move_in_words
from ibkeys.topology.names.folded import FoldedNames
from ibkeys.topology.nodes import Port

T = TypeVar("T")

_NAMELESS: Final = "name not readable"
_CAME_OR_WENT: Final = {"added": "came", "removed": "is gone"}


def what_changed(before: Snapshot, after: Snapshot) -> tuple[Text, list[ReportTable]]:
    """Return the differences between two snapshots as text and tables.

    Equal changes of many ports are one line with their names folded.
    """
    comparison = compare(before, after)
    return _about_changes(comparison, before, after), _changes(comparison, before, after)


def _about_changes(comparison: Comparison, before: Snapshot, after: Snapshot) -> Text:
    counts = (
        (len(comparison.moves.moved), "move"),
        (len(_nodes(comparison)), "node"),
        (len(_links(comparison)), "link"),
        (len(comparison.changes), "change"),
    )
    texts = [count(number, what) for number, what in counts if number]
    sentences = []
    if comparison.unknown:
        sentences.append(f"{count(len(comparison.unknown), 'thing')} could not be compared, because it was not read.")
    if not comparison.keys_comparable:
        sentences.append("It is not known whether a key changed: the fingerprints were made with two secrets.")
    if comparison.keys_hidden:
        sentences.append(
            f"{count(len(comparison.keys_hidden), 'port')} hid the M_Key: it is not known whether it changed."
        )
    facts = {"Before": time_text(before.about.finished), "After": time_text(after.about.finished)}
    return Text("What changed", ", ".join(texts) or "Nothing changed", sentences, facts)


def _changes(comparison: Comparison, before: Snapshot, after: Snapshot) -> list[ReportTable]:
    """Return the changes as tables. Equal changes of many ports are one line with their names folded."""
    more = "ibkeys diff has them all"
    names = FoldedNames(port.identity() for each in (before, after) for port in each.fabric.ports())
    moved = [(move_in_words(each.to_json()),) for each in comparison.moves.moved]
    ports = _folded(comparison.changes, lambda each: each.port, lambda each: in_words(each.to_json()), names)
    unknown = _folded(comparison.unknown, lambda each: each.port, lambda each: f"{each.what}: {each.why}", names)
    tables = (
        ReportTable("Moved", ("What",), moved, more),
        ReportTable("Nodes", ("Node", "What it is", "It"), _nodes(comparison), more),
        ReportTable("Links", ("From", "To", "It"), _links(comparison), more),
        ReportTable("Ports", ("What changed", "How many", "Which ports"), ports, more),
        ReportTable("Not compared", ("What", "How many", "Which ports"), unknown, more),
    )
    return [each for each in tables if each.lines]


def _nodes(changed: Comparison) -> list[tuple[str, str, str]]:
    return [
        (node.description or _NAMELESS, f"{node.type_name} 0x{node.guid:016x}", _CAME_OR_WENT[what])
        for what, nodes in changed.unexplained_nodes()
        for node in nodes
    ]


def _links(changed: Comparison) -> list[tuple[str, str, str]]:
    return [
        (str(ends[0]), str(ends[1]), _CAME_OR_WENT[what])
        for what, links in changed.unexplained_links()
        for ends in links
    ]


def _folded(
    things: Iterable[T], port: Callable[[T], Port], text_of: Callable[[T], str], names: FoldedNames
) -> list[tuple[str, str, str]]:
    """Return one row for each text about ports: the text, the number of ports, and their folded names.

    *port*, *text_of*: return the port of a thing, and its text.
    """
    return [
        (text, count(len(same), "port"), ", ".join(names.words(port(thing).identity() for thing in same)))
        for text, same in grouped(things, text_of).items()
    ]


def what_was_done(path: Path) -> tuple[Text, list[ReportTable]]:
    """Return a journal's operations as text and tables. Raises StoreError."""
    with Journal.read(path) as journal:
        operations = [in_one_line(operation_document(record)) for record in journal.list_operations()]
        rows = [
            (each["id"], row)
            for each in operations
            for removals in [Runs(journal).removals(each["id"])]
            for entry in journal.entries(each["id"])
            for row in changed_rows(entry, removals)
        ]
    for each in operations:
        each.update({name: time_text(each[name]) for name in ("started", "finished") if each[name] is not None})
    shown = [field._replace(empty="") for field in OPERATION if field.title]
    lines = [[str(field.cell(each)) for field in shown] for each in operations]
    still_open = sum(each["state"] == "open" for each in operations)
    sentences = [f"{count(still_open, 'operation')} did not finish: ibkeys undo rolls them back."] if still_open else []
    tone = "warn" if still_open else ""
    facts = {"Journal": str(path)}
    text = Text("What changing commands did", count(len(lines), "operation"), sentences, facts, tone)
    columns = ("Id", "What", "How many", "Which ports")
    tables = (
        ReportTable("Operations", [field.title for field in shown], lines, "ibkeys journal has them all"),
        ReportTable("What they wrote", columns, _written(rows), "ibkeys journal ID has all"),
    )
    return text, [each for each in tables if each.lines]


def _written(rows: Sequence[tuple[int, dict[str, Any]]]) -> list[tuple[str, str, str, str]]:
    """Return the values that operations wrote, as lines of a table. Equal values of many ports are one line.

    *rows*: each is the id of an operation and one changed value.
    """
    names = FoldedNames(row for _, row in rows)
    groups = grouped(rows, lambda written: (written[0], change_in_words(written[1])))
    return [
        (str(operation), text, count(len(same), "port"), ", ".join(names.words(row for _, row in same)))
        for (operation, text), same in groups.items()
    ]
