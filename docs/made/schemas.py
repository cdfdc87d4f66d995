"""The page of the JSON Schema files: for each document where its schema is, and what stands at its top."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

_ABOUT: Final = """# JSON documents

Every command with `-f json` writes a document that names its schema, for example `"schema": "ibkeys.audit/2"`. The
schema is a file of JSON Schema, draft 2020-12, in the folder schemas of this site; common.json has what several of them
use. Every document that the tests produce is held against its schema, up to a size of 200,000 characters.

- The number increases when scripts that read the document may have to change.
- **A later version may add names without a new number.** So the schemas permit names that they do not list. The tests
  do not.
- null means that a value could not be read or does not exist. Names in *required* are always there.
- What a name means is in the man page of the command, and as *description* in the schema.

"""
_MAN_PAGE: Final = re.compile(r"(ibkeys[\w-]*)\((\d)\)")


def page(folder: Path) -> str:
    """Return the text of the page: the files in *folder*, each with the names and types of its document."""
    text = _ABOUT
    for path in sorted(folder.glob("*.json")):
        schema = json.loads(path.read_text())
        about = _MAN_PAGE.sub(r"{doc}`man/\1.\2`", schema["description"])
        text += f"## {schema['title']}\n\n{about} "
        text += f'Schema: <a href="../schemas/{path.name}">{path.name}</a>.\n\n'
        text += "".join(f"- `{name}`: {_of(each)}\n" for name, each in schema.get("properties", {}).items())
        text += "".join(f"- {_words(name)}: {_of_common(each)}\n" for name, each in schema.get("$defs", {}).items())
        text += "\n"
    return text


def _of(schema: dict[str, Any]) -> str:
    return _type(schema) + (f". {schema['description']}" if "description" in schema else "")


def _of_common(schema: dict[str, Any]) -> str:
    names = ", ".join(f"`{name}`" for name in schema.get("properties", ()))
    return f"{_type(schema)}. {schema['description']}" + (f" Names: {names}." if names else "")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _type(schema: dict[str, Any]) -> str:
    """Return the type of a value in a few words."""
    if "$ref" in schema:
        return f"[{_words(str(schema['$ref']).rpartition('/')[2])}](#common)"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    found = schema.get("type", "any value")
    words = [found] if isinstance(found, str) else list(found)
    if isinstance(schema.get("items"), dict):
        words[words.index("array")] = f"array of {_type(schema['items'])}"
    return " or ".join(words)
