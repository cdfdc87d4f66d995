"""The JSON documents that commands write, held against the schemas that docs/published/schemas has.

The schemas are open: a later version may add names. Here they are closed, so that a name which no schema has is found.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.corpus import DATA

SCHEMAS = DATA.parents[1] / "docs" / "published" / "schemas"
LARGE = 200_000
"""Characters. A longer document has long lists of what shorter ones have too, and takes seconds."""


def check(text: str) -> None:
    """Raise AssertionError for a document of ibkeys in *text*, the output of a command, that is not as its schema says.

    Text that is no document of ibkeys, as a table or SARIF, passes.
    """
    documents = _documents(text) if text.startswith("{") and len(text) < LARGE else []
    named = next((each["schema"] for each in documents if str(each.get("schema")).startswith("ibkeys.")), None)
    for each in documents if named is not None else ():
        wrong = next(validator(file_of(each.get("schema", f"{named}/line"))).iter_errors(each), None)
        assert wrong is None, f"{wrong.json_path} is not as docs/published/schemas has it for {named}: {wrong.message}"


def file_of(schema: str) -> Path:
    """Return the file of a schema: ``ibkeys.audit/2`` is in audit-2.json, and a line before it, of one port, in
    audit-2-line.json."""
    return SCHEMAS / f"{schema.removeprefix('ibkeys.').replace('/', '-')}.json"


@cache
def validator(path: Path) -> Draft202012Validator:
    """Return the validator by the closed form of a schema."""
    assert path.is_file(), f"there is no docs/published/schemas/{path.name}: CONTRIBUTING.md says how to add it"
    return validator_of(closed(path.name))


def validator_of(schema: Any) -> Draft202012Validator:
    """Return the validator by *schema*, which may name what common.json has."""
    common = Resource.from_contents(closed("common.json"), default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource("common.json", common)
    return Draft202012Validator(schema, registry=registry)


def closed(name: str) -> Any:
    """Return a schema in which no object may have names that are not listed, unless it says which else it may have."""
    return _closed(json.loads((SCHEMAS / name).read_text()))


def _closed(value: Any) -> Any:
    if isinstance(value, list):
        return [_closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _closed(each) for name, each in value.items()}
    return {"additionalProperties": False, **found} if isinstance(found.get("properties"), dict) else found


def _documents(text: str) -> list[dict[str, Any]]:
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return []  # cut off, or no JSON at all
