"""The documents about single values and texts: decode, explain, pkey-check, pkey-explain, qkey-explain."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    CsvRows,
    Document,
    Field,
    list_field,
    list_of,
    or_null,
)
from ibkeys.cli.documents.shared import MEMBERSHIP, P_KEY

DECODE: Final = Document(
    "decode",
    1,
    (
        Field("mad", or_null(OBJECT), "The header of the MAD, field by field. Null: a bare attribute.", optional=True),
        Field("attribute", or_null(TEXT), "The name of the attribute. Null: ibkeys does not know it.", optional=True),
        Field(
            "fields",
            or_null(OBJECT),
            "The fields of the attribute, as numbers. A key is null without -K, and another name with _masked is true. "
            "Null: ibkeys does not know the layout.",
            optional=True,
        ),
        Field("error", TEXT, "Why a line of standard input could not be decoded; all else is left out.", optional=True),
    ),
    CsvRows(
        "field",
        (
            Field("part", TEXT, "mad or fields."),
            Field("name", TEXT, "The name of the field."),
            Field("value", TEXT, "Its value."),
        ),
    ),
)

_CHECKED: Final = (
    Field("a", P_KEY, "The first P_Key."),
    Field("b", P_KEY, "The second P_Key."),
    Field("can_talk", FLAG, "Whether ports with these two can talk."),
    Field("reason", TEXT, "Why."),
)
PKEY_CHECK: Final = Document("pkey-check", 1, _CHECKED, CsvRows("pair", _CHECKED))

_PKEY: Final = (
    Field("pkey", P_KEY, "The P_Key."),
    Field("partition", P_KEY, "The P_Key without its membership bit."),
    Field("membership", MEMBERSHIP, "What the membership bit says: full or limited."),
    Field("valid", FLAG, "Whether its partition is not 0; one of partition 0 matches nothing."),
    Field("default", FLAG, "Whether it is of the default partition: 0xffff or 0x7fff."),
    Field("meaning", TEXT, "What it means."),
    Field("qp0", TEXT, "How it affects SMPs."),
    Field("qp1", TEXT, "How it affects GMPs."),
    Field("queue_pairs", TEXT, "How it affects UD, RC and UC queue pairs."),
    Field("raw_packets", TEXT, "How it affects raw packets."),
    Field("reliable_datagram", TEXT, "How it affects RD (reliable datagram)."),
)
PKEY_EXPLAIN: Final = Document("pkey-explain", 1, _PKEY, CsvRows("P_Key", _PKEY))

_QKEY: Final = (
    Field("q_key", TEXT, "The Q_Key, 0x and 8 digits."),
    Field("kind", TEXT, "Its kind."),
    Field("privileged", FLAG, "Whether only privileged consumers can send with it."),
    Field("meaning", TEXT, "What it can be used for."),
    Field("receiver", TEXT, "What the receiver does with it."),
    Field("set_by", TEXT, "Who sets it."),
    Field("difference", TEXT, "How it differs from a P_Key."),
)
QKEY_EXPLAIN: Final = Document("qkey-explain", 1, _QKEY, CsvRows("Q_Key", _QKEY))

_CAUSE: Final = (
    Field("cause", TEXT, "The name of the cause."),
    Field("text", TEXT, "The cause in words."),
    Field("command", or_null(TEXT), "The command that decides, to be typed as it is. Null: no command of ibkeys does."),
    Field("shows", or_null(TEXT), "What its output shows if this is the cause. Null: there is no command."),
    Field("remedy", or_null(TEXT), "What to do then. Null: the output of the command says it."),
)
EXPLAIN: Final = Document(
    "explain",
    1,
    (
        Field("keys", NUMBER, "How many keys were found in the text. None of them is in this document."),
        list_field(
            "answers",
            "What is known about the text, the likeliest first. Empty: nothing.",
            Field("symptom", TEXT, "The name of the symptom, as ibkeys-symptoms(7) has it."),
            Field("title", TEXT, "What it is."),
            Field("meaning", TEXT, "What the text says."),
            Field("details", list_of(TEXT), "What values in the text mean."),
            list_field(
                "numbers",
                "Numbers near the words that were recognized.",
                Field("kind", TEXT, "Its kind: lid, guid, pkey, qkey, port, route or index."),
                Field("value", TEXT, "The number, as commands take it."),
            ),
            Field("leaks", or_null(TEXT), "The secret that the text holds, and what to do. Null: none."),
            Field("unknown", or_null(TEXT), "What the text does not say. Null: nothing."),
            Field("source", TEXT, "Where wording and meaning are from."),
            list_field("causes", "The likely causes, the likeliest first.", *_CAUSE),
        ),
    ),
    CsvRows("cause", (Field("symptom", TEXT, "The name of the symptom."), *_CAUSE)),
)
