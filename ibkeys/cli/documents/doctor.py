"""The documents about this host and real hardware: doctor, and report.json of doctor --report."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonType,
    list_field,
    list_of,
    object_of,
    one_of,
    or_null,
)
from ibkeys.cli.documents.shared import FINDING, OUTCOMES

_CHECK: Final = (
    Field("name", or_null(TEXT), "What is checked."),
    Field("ok", or_null(FLAG), "Whether it is fine. Null: a note."),
    Field("detail", or_null(TEXT), "What was found."),
    Field("advice", or_null(TEXT), "What to do. Null: nothing."),
)
_SETTING: Final = object_of(
    Field("name", TEXT, "The option."),
    Field("value", JsonType(("string", "integer", "boolean", "array", "null"), items=TEXT), "Its value. Null: none."),
    Field(
        "source",
        one_of("command line", "environment", "site file", "ibdiag.conf", "default"),
        "Where the value comes from.",
    ),
)
_SUMMARY: Final = Field("summary", OUTCOMES)
_FINDINGS: Final = Field("findings", list_of(FINDING), "What each check found.")

DOCTOR: Final = Document(
    "doctor",
    2,
    (
        list_field("checks", "The checks.", *_CHECK),
        Field("problems", NUMBER, "How many of them are not fine."),
        Field(
            "settings",
            list_of(_SETTING),
            "The options that a site file may set: ibkeys.toml(5). Of a secret only @FILE is shown.",
        ),
        Field(
            "report",
            or_null(object_of(Field("file", TEXT, "The archive."), _SUMMARY, _FINDINGS)),
            "What --report found. Null: without it.",
        ),
    ),
    CsvRows(
        "check and each finding; of a finding, ok is 1 (same) or 0 (differs), and advice is the assumption",
        _CHECK,
    ),
)
HARDWARE: Final = Document(
    "hardware",
    1,
    (
        Field("ibkeys", TEXT, "The version of ibkeys."),
        Field("taken", JsonType(("string",), pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), "The day of the report in UTC."),
        Field("simulated", FLAG, "Whether the subnet was simulated by ibkeys."),
        Field("hashed", FLAG, "Whether GUIDs, LIDs and names are hashed."),
        Field("keys_looked_for", NUMBER, "How many keys the files of the archive were searched for."),
        Field(
            "short_keys",
            NUMBER,
            "How many of these keys are below 2^32 and were searched for by their 16 digits only.",
        ),
        _SUMMARY,
        _FINDINGS,
    ),
    about="What report.json has, in the archive that `ibkeys doctor --report` writes",
    page="doctor",
)
