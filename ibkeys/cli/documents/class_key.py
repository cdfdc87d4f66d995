"""The document about keys of management classes other than subnet management: classkey-show."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NOTHING,
    NUMBER,
    OBJECT,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonRow,
    list_field,
    or_null,
)
from ibkeys.cli.documents.shared import ERRORS, PORT, UNREACHED

_STATE_TEXT: Final = {
    "set": "set",
    "zero": "not set (0): the class is not protected",
    "hidden": "set, and not shown",
    "absent": "the port does not have this class",
    "silent": "unknown: no answer",
    "refused": "unknown: refused",
    "unconfirmed": "unknown: zeros of a port that may not have this class",
    "not-asked": "unknown: not queried",
}


def _key(row: JsonRow) -> str:
    shown = next(iter((row["key_info"] or {}).values()), None)
    return shown if shown is not None and row["class_key_state"] == "set" else str(row["class_key_state"])


def _key_in_words(row: JsonRow) -> str:
    shown = _key(row)
    text = _STATE_TEXT[row["class_key_state"]]
    return f"{text}, {shown}" if shown != row["class_key_state"] else text


def _known(row: JsonRow) -> str:
    return NOTHING if row["known_key"] is None else "the port's" if row["known_key"] else "another"


CLASS_KEY_VALUES: Final = (
    Field("class", TEXT, "The class: cc, vs, n2n or b.", title="Class"),
    Field(
        "class_key_state",
        TEXT,
        "set, zero, hidden, absent, silent, refused, unconfirmed or not-asked.",
        title="Key",
        text=_key_in_words,
        brief=_key,
    ),
    Field(
        "protect_bit",
        or_null(NUMBER),
        "The protect bit; 1: the port shows the key only to those who send it. Null: no answer.",
        title="Protect bit",
        short="Protect",
        empty=NOTHING,
    ),
    Field("lease_period", or_null(NUMBER), "The lease period in seconds. Null: no answer.", "Lease (s)", empty=NOTHING),
    Field(
        "violations",
        or_null(NUMBER),
        "How many MADs with a wrong key the port has counted. Null: no answer.",
        title="Violations",
        empty=NOTHING,
    ),
    Field(
        "known_key",
        or_null(FLAG),
        "Whether the port has the known key with which it was queried. Null: without a known key, or no answer.",
        title="Known key",
        text=_known,
    ),
    Field("detail", or_null(TEXT), "The answer in words. Null: nothing to say.", "Answer"),
)

CLASSKEY_SHOW: Final = Document(
    "classkey-show",
    1,
    (
        list_field(
            "ports",
            "One for each port and class.",
            *PORT,
            *CLASS_KEY_VALUES[:-1],
            Field(
                "key_info",
                or_null(OBJECT),
                "The fields of CongestionKeyInfo, VSKeyInfo, N2NKeyInfo or BKeyInfo as in ibkeys-decode(1). "
                "Null: no answer.",
            ),
            CLASS_KEY_VALUES[-1],
        ),
        ERRORS,
        UNREACHED,
    ),
    CsvRows("port and class", (*PORT, *CLASS_KEY_VALUES)),
)
