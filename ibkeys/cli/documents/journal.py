"""The document about operations in the journal: journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ibkeys.cli.documents.field import (
    FLAG,
    NOTHING,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonRow,
    list_field,
    list_of,
    object_of,
    one_of,
    or_null,
)
from ibkeys.cli.documents.plans import REHEARSAL
from ibkeys.cli.documents.shared import CHANGE, PORT, TIME
from ibkeys.printable import cut


def _unless_empty(name: str) -> Callable[[JsonRow], Any]:
    return lambda row: row[name] or None


def _text_or_null(name: str, about: str, title: str) -> Field:
    """Return a text field that is null for an operation of an earlier version of ibkeys, which did not record it."""
    null = "Null: an operation of an earlier version."
    return Field(name, or_null(TEXT), f"{about} {null}", title, _unless_empty(name), empty=NOTHING)


def _list_or_null(name: str, about: str, title: str = "") -> Field:
    return _text_or_null(name, about, title)._replace(kind=or_null(list_of(TEXT)))


_STARTED: Final = Field("started", TIME, "When it was started.", "Started")
_ORIGIN: Final = (
    _text_or_null("user", "Who started it.", "User"),
    _text_or_null("host", "On which host.", "Host"),
    _list_or_null("overrides", "The interlocks that were overridden.", "Overrides"),
    _list_or_null(
        "options",
        "The options that were given, without what may be a key; for partition-add and the like first the subject.",
    ),
)
_OPEN_OR_NOTHING: Final = "Null: it is not open, or nothing does."
_COMMAND: Final = "command"


_LONGEST_SUBJECT: Final = 32


def _command(row: JsonRow) -> str:
    command, undoes, subject = row[_COMMAND], row["undoes"], row["subject"]
    if subject is not None:
        return f"{command} {cut(subject, _LONGEST_SUBJECT)}"
    return command if undoes is None else f"{command} of {undoes}"


OPERATION: Final = (
    Field("id", NUMBER, "Its number.", "Id"),
    Field(_COMMAND, TEXT, "The command.", "Command", _command),
    Field("state", TEXT, "open, done, undone or failed.", "State"),
    _STARTED,
    Field("finished", or_null(TIME), "When it ended. Null: it did not.", "Finished", empty=NOTHING),
    Field("ports", NUMBER, "How many ports it changed.", "Ports"),
    Field("unproven", NUMBER, "Sets and files whose effect was not proven, or was disproved.", "Unproven Sets"),
    Field("unconfirmed", FLAG, "Whether it waits for its confirmation."),
    *_ORIGIN,
    Field("undoes", or_null(NUMBER), "The operation that it undoes. Null: it is no undo."),
    Field("undone_by", or_null(NUMBER), "The operation that undid it. Null: none did."),
    Field("finish_with", or_null(TEXT), f"The command that finishes it. {_OPEN_OR_NOTHING}"),
    Field("roll_back_with", or_null(TEXT), f"The command that rolls it back. {_OPEN_OR_NOTHING}"),
    Field(
        "close_with",
        or_null(TEXT),
        "The command that only ends its record, where another user or program has changed what it set, or only ports "
        f"are left that are not there. {_OPEN_OR_NOTHING}",
    ),
    Field(
        "rollback",
        one_of("unfinished", "refused", None),
        "Of an operation that was not confirmed and that is not rolled back: refused, because another user or program "
        "has changed what it wrote, or unfinished. Null: of all others.",
    ),
    Field(
        "step",
        or_null(TEXT),
        "The step in which it was interrupted, or which it is in. Null: between two steps, or it makes none.",
    ),
    Field("waiting", NUMBER, "Ports of a run over M_Keys that it has yet to change."),
    Field(
        "method",
        or_null(TEXT),
        "How an apply or a run over M_Keys was made, or what is undone: direct, opensm or ufm. Null: of all others.",
    ),
    Field(
        "subject",
        or_null(TEXT),
        "Of partition-add and the like: the partitions and the words that name ports; of replace: the adapters. An "
        "earlier version recorded the partition only. Null: of all others.",
    ),
)

_STATUS: Final = Field("status", one_of("pending", "done", "failed"), "done: it was proven by a fresh read.")
_CHANGE: Final = (*PORT, _STATUS._replace(kind=TEXT), *CHANGE)
FILE: Final = (
    Field("host", or_null(TEXT), "Its host. Null: this one."),
    Field("path", TEXT, "Its path."),
    _STATUS._replace(kind=TEXT),
    Field(
        "bytes_before",
        or_null(NUMBER),
        "Its size before. Null: no such file, or one of keys, or only its mode changed.",
    ),
    Field(
        "bytes_after", or_null(NUMBER), "Its size after. Null: no such file, or one of keys, or only its mode changed."
    ),
    Field(
        "mode_before", or_null(TEXT), "Its mode before, octal, of a file that was closed to other users. Null: else."
    ),
    Field("mode_after", or_null(TEXT), "Its mode after. Null: else."),
)
_STEP: Final = object_of(
    Field("name", TEXT, "Its name."),
    Field("begun", TIME, "When it was begun."),
    _STATUS,
)


def _with_id(field: Field) -> Field:
    return field._replace(optional=True, about=f"{field.about} Only with ID.")


JOURNAL: Final = Document(
    "journal",
    2,
    (
        list_field(
            "operations",
            "The operations, the oldest first.",
            *OPERATION,
            Field(
                "starts",
                list_of(object_of(_STARTED, *_ORIGIN)),
                "One for each command that started it or went on with it.",
            ),
        ),
        _with_id(Field("steps", list_of(_STEP), "The steps in the order in which they were begun.")),
        _with_id(list_field("changes", "What each Set overwrote.", *_CHANGE)),
        _with_id(
            Field("rehearsal", REHEARSAL, "The last rehearsal of the plan of an apply before it started. Null: none.")
        ),
        _with_id(list_field("files", "The files that were replaced, or closed to other users.", *FILE)),
    ),
    CsvRows("operation", OPERATION),
    CsvRows("value that was overwritten, with ID", _CHANGE),
)
