"""The document of each line of watch."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import NUMBER, TEXT, Document, Field, list_of, object_field, or_null
from ibkeys.cli.documents.shared import P_KEY, PORT_IDENTITY, TIME

_EVENT: Final = (
    Field("time", TIME, "When it happened last."),
    Field("since", TIME, "When it happened first."),
    Field(
        "count",
        NUMBER,
        "How often since then, or by how much a counter rose (0: it was at its maximum before the watch began).",
    ),
    Field("source", TEXT, "How it was heard: report, counters or opensm-log."),
    Field("kind", TEXT, "The event, as under EVENTS."),
    Field("trap", or_null(NUMBER), "The TrapNumber. Null: a counter."),
    Field(
        "at",
        PORT_IDENTITY,
        "The port that refused the packet, counted it, or reports it. A port that no sweep found has only its LID or "
        "GUID; the rest is null.",
    ),
    Field("from", or_null(PORT_IDENTITY), "The port that sent the packet. Null: not known, or none."),
    Field("to", or_null(PORT_IDENTITY), "The port that the packet was sent to. Null: not known, or none."),
    Field("pkey", or_null(P_KEY), "The P_Key. Null: not known, or none."),
    Field("q_key", or_null(TEXT), "The Q_Key, 0x and 8 digits. Null: not known, or none."),
    Field("partition", or_null(P_KEY), "The partition of the P_Key. Null: no P_Key."),
    Field("partition_name", or_null(TEXT), "Its name in the policy. Null: none, or without --policy."),
    Field("policy_line", or_null(NUMBER), "Its line in the policy. Null: none, or without --policy."),
    Field("method", or_null(TEXT), "The method of an SMP with a wrong M_Key. Null: another event."),
    Field("attribute", or_null(TEXT), "The attribute of that SMP. Null: another event."),
    Field("attribute_modifier", or_null(NUMBER), "The AttributeModifier of that SMP. Null: another event."),
    Field("value", or_null(NUMBER), "The value of the counter. Null: another event."),
    Field("detail", or_null(TEXT), "More information. Null: none."),
    Field("doubtful", list_of(TEXT), "What is uncertain, and why."),
)

WATCH: Final = Document(
    "watch",
    2,
    (
        *(each._replace(optional=True) for each in _EVENT),
        object_field(
            "summary",
            "The last document has only this.",
            Field("told", NUMBER, "Events and counts that were printed."),
            Field("folded", NUMBER, "Repeats that were only counted."),
            Field("reports", NUMBER, "Reports that were received."),
            Field("lost", NUMBER, "Reports that came too fast to be received."),
            Field("sweeps", NUMBER, "Sweeps."),
            Field("failed_sweeps", NUMBER, "Sweeps that failed."),
            optional=True,
        ),
    ),
)
