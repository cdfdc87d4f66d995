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
    list_of,
    object_of,
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
        Field(
            "keys",
            object_of(
                Field("sm_key", or_null(TEXT), "The new sm_key. Null: without -K, or not applied."),
                Field("sa_key", or_null(TEXT), "The new sa_key. Null: without -K, or not applied."),
            ),
            "The new keys.",
        ),
        Field("goes_on", FLAG, "Whether an interrupted change is finished."),
        Field(
            "files",
            list_of(
                object_of(
                    _HOST,
                    _PATH,
                    Field("opensms", list_of(TEXT), "The OpenSMs that read it."),
                    Field("changes", object_of(*_STATES), "What it has before the change."),
                )
            ),
            "The options files that change.",
        ),
        Field(
            "managers",
            list_of(
                object_of(
                    Field("port_guid", GUID, "Its port."),
                    Field("port", TEXT, "The same in words."),
                    Field("state", or_null(TEXT), "Its SMState. Null: no answer."),
                )
            ),
            "The subnet managers of the fabric.",
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
