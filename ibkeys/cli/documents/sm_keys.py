"""The document about a change of sm_key and sa_key: smkey-rotate."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    DECIMAL,
    FLAG,
    TEXT,
    CsvRows,
    Document,
    Field,
    list_field,
    list_of,
    object_field,
    one_of,
    or_null,
)
from ibkeys.cli.documents.shared import APPLIED, DRY_RUN, GUID, INTERLOCKS, NOTES

_HOST: Final = Field("host", or_null(TEXT), "The host of the file. Null: this one.")
_PATH: Final = Field("path", TEXT, "The options file.")
_STATES: Final = tuple(
    Field(each, one_of("new", "default", "zero", "set"), f"What the file has as {each} before the change.")
    for each in ("sm_key", "sa_key")
)

SMKEY_ROTATE: Final = Document(
    "smkey-rotate",
    1,
    (
        DRY_RUN,
        APPLIED,
        object_field(
            "keys",
            "The new keys.",
            Field("sm_key", or_null(TEXT), "The new sm_key. Null: without -K, or not applied."),
            Field("sa_key", or_null(TEXT), "The new sa_key. Null: without -K, or not applied."),
        ),
        Field("goes_on", FLAG, "Whether an interrupted change is finished."),
        list_field(
            "files",
            "The options files that change.",
            _HOST,
            _PATH,
            Field("opensms", list_of(TEXT), "The OpenSMs that read it."),
            object_field("changes", "What it has before the change.", *_STATES),
        ),
        list_field(
            "managers",
            "The subnet managers of the fabric.",
            Field("port_guid", GUID, "Its port."),
            Field("port", TEXT, "The same in words."),
            Field("state", or_null(TEXT), "Its SMState. Null: no answer."),
        ),
        Field(
            "polling_seconds",
            or_null(DECIMAL),
            "After how many seconds a standby would become master; the change takes at most half. Null: none would.",
        ),
        NOTES,
        INTERLOCKS,
    ),
    CsvRows("options file", (_HOST, _PATH, *_STATES)),
)
