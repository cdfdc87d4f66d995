"""The published schemas and the lists of fields in the man pages: as declared, and they would find a wrong document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import pytest
from jsonschema import Draft202012Validator

import ibkeys.hardware.report
import ibkeys.plan.document
from docs import made
from docs.made.documents import declared, file_of, man_fields, schema_of
from ibkeys.cli.documents.doctor import HARDWARE
from ibkeys.cli.documents.field import (
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonType,
    by_name,
    list_of,
    object_of,
    one_of,
    or_null,
)
from ibkeys.cli.documents.plans import PLAN
from ibkeys.cli.documents.shared import P_KEY, PORT
from tests import documents
from tests.cli.conftest import run

FILES = sorted(documents.SCHEMAS.glob("*.json"))


def test_each_file_is_a_schema_and_says_whose() -> None:
    assert len(FILES) > 50
    for path in FILES:
        found = json.loads(path.read_text())
        Draft202012Validator.check_schema(found)
        assert found["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
        assert found["description"]


def test_what_the_library_writes_itself_is_declared_with_the_same_number() -> None:
    assert (PLAN.schema, HARDWARE.schema) == (ibkeys.plan.document.SCHEMA, ibkeys.hardware.report.SCHEMA)


def test_what_is_made_of_the_declarations_is_in_the_tree() -> None:
    made_now = dict(made.in_tree())
    old = [str(path.relative_to(made.ROOT)) for path, text in made_now.items() if path.read_text() != text]
    assert not old, "run `make docs`, which writes them"
    assert {*FILES} <= made_now.keys(), "a schema that no declaration makes"


@pytest.mark.parametrize("document", declared(), ids=file_of)
def test_each_document_is_listed_in_its_man_page(document: Document) -> None:
    page = made.MAN_PAGES / f"ibkeys-{document.page or document.name}.1"
    heads = re.findall(r"made from ibkeys/cli/documents: (.+)", page.read_text())
    assert file_of(document).removesuffix(".json") in heads


@pytest.mark.parametrize("document", declared(), ids=file_of)
def test_each_field_says_what_it_is(document: Document) -> None:
    silent = [path for path, field in fields_of(document.fields) if not (field.about or field.kind.about)]
    assert not silent


def fields_of(fields: Sequence[Field], prefix: str = "") -> Iterator[tuple[str, Field]]:
    """Yield each field, also those of objects in it, with its path."""
    for field in fields:
        yield prefix + field.name, field
        for kind in kinds_of(field.kind):
            yield from fields_of(kind.fields, f"{prefix}{field.name}.")


def kinds_of(kind: JsonType) -> Iterator[JsonType]:
    """Yield a kind and those of which it is made."""
    yield kind
    for inner in filter(None, (kind.items, kind.others, *kind.either)):
        yield from kinds_of(inner)


def test_a_schema_is_as_strict_as_the_declaration() -> None:
    kind = object_of(
        Field("level", one_of(0, 1), "A number."),
        Field("key", or_null(P_KEY), "A P_Key."),
        Field("names", list_of(or_null(TEXT)), "Names.", optional=True),
        Field("counts", by_name(NUMBER), "Counts."),
    )
    found = schema_of(Document("test", 3, kind.fields))
    held = documents.validator_of(found)
    right = {"schema": "ibkeys.test/3", "level": 1, "key": "0x8001", "names": ["a", None], "counts": {"b": 2}}
    held.validate(right)
    held.validate({**right, "key": None})
    for wrong in (
        {"schema": "ibkeys.test/2"},
        {"level": 2},
        {"key": "0x801"},
        {"key": 0x8001},
        {"names": None},
        {"names": [1]},
        {"counts": {"b": "2"}},
    ):
        assert not held.is_valid({**right, **wrong}), wrong
    assert not held.is_valid({"schema": "ibkeys.test/3", "level": 1, "key": None})


def test_a_list_of_fields_says_what_each_is() -> None:
    ports = Field(
        "ports", list_of(object_of(*PORT, Field("m_key", or_null(TEXT), "The key; see ibkeys-a-b(1)."))), "All."
    )
    assert man_fields(Document("test", 1, (ports,), CsvRows("port", PORT))) == (
        "\\fBibkeys.test/1\\fR has the following; a port is an object with \\fBnode_guid\\fR, \\fBport_guid\\fR, "
        "\\fBnode_desc\\fR, \\fBnode_type\\fR, \\fBport\\fR, \\fBlid\\fR.\n"
        ".TP\n\\fBports\\fR (list of ports)\nAll.\n"
        ".TP\n\\fBports[].m_key\\fR (text or null)\nThe key; see \\fBibkeys\\-a\\-b\\fR(1).\n"
        ".PP\nCSV has a row for each port. Its columns: \\fBnode_guid\\fR, \\fBport_guid\\fR, "
        "\\fBnode_desc\\fR, \\fBnode_type\\fR, \\fBport\\fR, \\fBlid\\fR.\n"
    )


def test_a_document_with_a_name_that_no_schema_has_is_found() -> None:
    written = run("pkey-explain", "0x8001", "-f", "json").json
    documents.check(json.dumps(written))
    with pytest.raises(AssertionError, match="unheard_of"):
        documents.check(json.dumps({**written, "unheard_of": 1}))
    with pytest.raises(AssertionError, match="partition"):
        documents.check(json.dumps({**written, "partition": 1}))


def test_a_document_without_a_schema_is_found() -> None:
    with pytest.raises(AssertionError, match=r"no docs/published/schemas/pkey-explain-7\.json"):
        documents.check('{"schema": "ibkeys.pkey-explain/7"}')


def test_other_text_passes() -> None:
    for text in ("", "a table", '{"$schema": "SARIF"}', '{"schema": "ibkeys.audit/2", cut off'):
        documents.check(text)
