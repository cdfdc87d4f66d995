"""The documents of an audit: audit, audit --explain."""

from __future__ import annotations

from typing import Final

from ibkeys.audit.findings import PROFILES
from ibkeys.cli.documents.field import TEXT, CsvRows, Document, Field, list_of, object_of, or_null
from ibkeys.cli.documents.reach import INBOUND_CHECK
from ibkeys.cli.documents.shared import COVERAGE, LOOKED_AT, MOVED, PORT, RULE_COUNTS, RULE_RESULT, TIME

_RULE: Final = {each.name: each for each in RULE_RESULT.fields}
_ROW: Final = (
    *(_RULE[each] for each in ("rule", "title", "severity", "result")),
    *PORT,
    Field("message", or_null(TEXT), "What the rule says, in words."),
    Field("evidence", or_null(TEXT), "What was read, as JSON."),
    Field("waiver", or_null(TEXT), "Why it is waived, and until when."),
    _RULE["remedy"],
)

AUDIT: Final = Document(
    "audit",
    2,
    (
        Field("profile", TEXT, "The profile: lab, hpc, cloud or cloud-secured."),
        Field("policy", or_null(TEXT), "The file of --policy. Null: without it."),
        INBOUND_CHECK,
        Field("taken", TIME, "When the fabric was read."),
        Field("source", TEXT, "The local port or the snapshot from which it was read."),
        LOOKED_AT,
        Field("summary", RULE_COUNTS),
        Field("results", list_of(RULE_RESULT), "What each rule says, in the order of the catalogue."),
        Field("coverage", COVERAGE),
        Field("moved", or_null(list_of(MOVED)), "What moved since --baseline. Null: without it."),
    ),
    CsvRows("port that fails, is unknown or is waived, and for each other rule", _ROW),
)
WITHOUT_REMEDY: Final = CsvRows(AUDIT.rows.each, _ROW[:-1])
"""The rows of an audit with --no-remedy."""

EXPLANATION: Final = (
    _RULE["rule"],
    _RULE["title"],
    Field("group", TEXT, "What the rules of its group are about."),
    Field(
        "severity",
        object_of(*(Field(each, TEXT, "Its severity in this profile.") for each in reversed(PROFILES))),
        "Its severity in each profile.",
    ),
    Field("evidence", TEXT, "What the rule looks at."),
    Field("why", TEXT, "Why it matters."),
    Field("remedy", TEXT, "What to do."),
    Field("false_positives", TEXT, "When the rule may be wrong."),
    Field("sources", list_of(TEXT), "From what the rule follows."),
)
AUDIT_EXPLAIN: Final = Document(
    "audit-explain",
    1,
    EXPLANATION,
    CsvRows("rule", EXPLANATION),
    about="What `ibkeys audit --explain ID -f json` writes",
    page="audit",
)
