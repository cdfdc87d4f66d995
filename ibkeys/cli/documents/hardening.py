"""The document of harden: the steps that fix an audit's findings."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.audit import AUDIT
from ibkeys.cli.documents.field import FLAG, TEXT, CsvRows, Document, Field, list_field, list_of, object_of, or_null
from ibkeys.cli.documents.shared import APPLIED, DRY_RUN, INTERLOCKS, NOTES

_AUDIT: Final = object_of(*AUDIT.fields)._replace(word="object")
_STEP: Final = object_of(
    Field("step", TEXT, "Its name."),
    Field("title", TEXT, "What it does."),
    Field("command", TEXT, "The command that does the same."),
    Field("rules", list_of(TEXT), "The rules that it is for."),
    Field("changes", list_of(TEXT), "What it changes, in words."),
    Field("way_back", or_null(TEXT), "How it is rolled back. Null: its effect is not known, and it would be refused."),
    Field("refusals", list_of(TEXT), "Why it would be refused."),
)
_REMAINING: Final = (
    Field("rule", TEXT, "The rule, as PK005."),
    Field("title", TEXT, "What it checks."),
    Field("severity", TEXT, "critical, high, medium, low or info."),
    Field("result", TEXT, "fail or unknown."),
    Field("in_power", FLAG, "Whether a step of this command can fix it."),
    Field("to_do", TEXT, "What to do."),
)
_CHANGES: Final = Field(
    "changes",
    list_of(TEXT),
    "What changes, in words: when ibkeys-resume(1) or ibkeys-undo(1) takes part_enforce alone on or back. All else but "
    "`dry_run`, `applied` and `unmade` is left out then.",
    optional=True,
)


HARDEN: Final = Document(
    "harden",
    2,
    (
        DRY_RUN,
        APPLIED,
        _CHANGES,
        Field("steps", list_of(_STEP), "The steps, in their order.", optional=True),
        NOTES._replace(optional=True),
        INTERLOCKS._replace(optional=True),
        list_field("left", "The rules that remain at --fail-on or worse.", *_REMAINING, optional=True),
        Field("audit", _AUDIT, "The last audit, as in ibkeys-audit(1).", optional=True),
        Field("unmade", list_of(TEXT), "What a step did not do."),
    ),
    CsvRows("remaining rule", _REMAINING),
    CsvRows("change of part_enforce alone", (Field("change", TEXT),)),
)
