"""The published schemas: each is one, has the number that its command writes, and would find a wrong document."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from ibkeys.cli.render import SHAPES, schema
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


@pytest.mark.parametrize("command", SHAPES)
def test_a_number_above_1_is_that_of_a_file(command: str) -> None:
    assert documents.file_of(schema(command)).is_file()


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
