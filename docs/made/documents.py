"""The JSON Schema files and the man pages' lists of fields, made from the declarations in ibkeys/cli/documents."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from ibkeys.cli import documents
from ibkeys.cli.documents import shared
from ibkeys.cli.documents.field import Document, Field, JsonType
from ibkeys.cli.documents.shared import PORT

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_WIDTH: Final = 118


def declared() -> list[Document]:
    """Return every document that is declared, by the name of its schema file."""
    modules = [import_module(f"{documents.__name__}.{each.name}") for each in pkgutil.iter_modules(documents.__path__)]
    found = {file_of(each): each for module in modules for each in vars(module).values() if isinstance(each, Document)}
    return [document for _, document in sorted(found.items())]


def file_of(document: Document) -> str:
    """Return the name of a document's schema file: ``audit-2.json``, and for a line before it ``audit-2-line.json``."""
    return f"{document.name}-{document.number}{'-line' if document.is_line else ''}.json"


# --- JSON Schema ------------------------------------------------------------------------------------------------------


def schemas() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each schema file."""
    yield "common.json", _text(_common())
    for document in declared():
        yield file_of(document), _text(schema_of(document))


def _common() -> dict[str, Any]:
    kinds = [each for each in vars(shared).values() if isinstance(each, JsonType) and each.shared]
    kinds += [each.kind for each in vars(shared).values() if isinstance(each, Field) and each.kind.shared]
    return {
        "$schema": _DRAFT,
        "title": "common",
        "description": "What the documents have in common.",
        "$defs": {kind.shared: {"description": kind.about, **_value(kind._replace(shared=""))} for kind in kinds},
    }


def schema_of(document: Document) -> dict[str, Any]:
    """Return the schema of a document."""
    found = _value(JsonType(("object",), fields=document.fields))
    if not document.is_line:
        found["properties"] = {"schema": {"const": document.schema}, **found["properties"]}
        found["required"] = ["schema", *found.get("required", ())]
    title = document.schema + (" (a line)" if document.is_line else "")
    return {"$schema": _DRAFT, "title": title, "description": f"{_about(document)} describes it.", **found}


def _about(document: Document) -> str:
    command = f"`ibkeys {document.name} -f json`"
    what = document.about or f"What {command} writes"
    if document.is_line:
        what = f"A line of {command}, one for each port, before the last line"
    return f"{what}; ibkeys-{_page(document)}(1)"


def _page(document: Document) -> str:
    return document.page or document.name


def _value(kind: JsonType) -> dict[str, Any]:
    """Return the schema of a value."""
    if kind.shared:
        return {"$ref": f"common.json#/$defs/{kind.shared}"}
    if kind.either:
        return {"anyOf": list(map(_value, kind.either))}
    if kind.values:
        return {"enum": list(kind.values)}
    found: dict[str, Any] = {}
    if kind.types:
        found["type"] = kind.types[0] if len(kind.types) == 1 else list(kind.types)
    if kind.pattern:
        found["pattern"] = kind.pattern
    if kind.items is not None:
        found["items"] = _value(kind.items)
    if kind.fields:
        found["properties"] = {each.name: _property(each) for each in kind.fields}
        found["required"] = [each.name for each in kind.fields if not each.optional]
    if kind.others is not None:
        found["additionalProperties"] = _value(kind.others) or True
    return {key: value for key, value in found.items() if key != "required" or value}


def _property(field: Field) -> dict[str, Any]:
    return {**({"description": field.about} if field.about else {}), **_value(field.kind)}


def _text(schema: dict[str, Any]) -> str:
    return _lines(schema, 0, 0) + "\n"


def _lines(value: Any, indent: int, before: int) -> str:
    """Return JSON, an object on one line where that fits behind the *before* characters that stand there, a list of
    names on one line."""
    flat = json.dumps(value)
    is_list_of_names = isinstance(value, list) and not any(isinstance(each, dict | list) for each in value)
    if is_list_of_names or not isinstance(value, dict | list) or (indent and indent + before + len(flat) < _WIDTH):
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_lines(each, inner, len(key) + 4)}" for key, each in value.items()]
    else:
        items = [_lines(each, inner, 0) for each in value]
    blanks = " " * inner
    ends = "{}" if isinstance(value, dict) else "[]"
    return f"{ends[0]}\n{blanks}" + f",\n{blanks}".join(items) + f"\n{' ' * indent}{ends[1]}"


# --- man pages --------------------------------------------------------------------------------------------------------

_MADE: Final = re.compile(
    r'(?P<head>\.\\" made from ibkeys/cli/documents: (?P<name>.+)\n)(?:.*\n)*?(?P<end>\.\\" end\n)'
)
_REFERENCE: Final = re.compile(r"\b(ibkeys(?:\\-\w+)*(?:\.\w+)?)\((\d)\)")
_WORDS: Final = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "array": "list",
    "null": "null",
}
_OF: Final = {"string": " of text", "integer": " of numbers", "object": " of objects", "array": " of lists"}


def with_fields(page: str) -> str:
    """Return the text of a man page, in which the lists of fields are as declared.

    Raises KeyError for a page that names a document that is not declared.
    """
    named = {file_of(document).removesuffix(".json"): document for document in declared()}
    return _MADE.sub(lambda found: _listed(found, named), page)


def _listed(found: re.Match[str], named: dict[str, Document]) -> str:
    head = "" if found.string[: found.start()].endswith(".SH JSON\n") else ".PP\n"
    return found["head"] + head + man_fields(named[found["name"]]) + found["end"]


def man_fields(document: Document) -> str:
    """Return the list of a document's fields as a man page has it, and the columns of CSV."""
    entries = "".join(_entries(document.fields, ""))
    head = "Each line before the last" if document.is_line else f"\\fB{_roff(document.schema)}\\fR"
    keys = _names(each.name for each in PORT)
    if _is_port(document.fields):
        head += f" has the keys of a port ({keys}) and:"
    elif re.search(r"\((list of )?port", entries):
        head += f" has the following; a port is an object with {keys}."
    else:
        head += " has:"
    text = f"{head}\n{entries}"
    for rows in (each for each in (document.rows, document.other_rows) if each.fields):
        text += f".PP\nCSV has a row for each {_roff(rows.each)}. Its columns: {_names(rows.columns)}.\n"
    return text


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"\\fB{_roff(name)}\\fR" for name in names)


def _entries(fields: tuple[Field, ...], prefix: str) -> Iterator[str]:
    """Yield the entry of each field, and after it those of the fields in it, without those that every port has."""
    for field in fields[len(PORT) :] if _is_port(fields) else fields:
        missing = ", not always there" if field.optional else ""
        head = f".TP\n\\fB{_roff(prefix + field.name)}\\fR ({_words(field.kind)}{missing})\n"
        yield f"{head}{_roff(field.about or field.kind.about)}\n"
        inner, path = _object_in(field.kind, prefix + field.name)
        if not inner.word:
            yield from _entries(inner.fields, f"{path}.")


def _is_port(fields: tuple[Field, ...]) -> bool:
    return fields[: len(PORT)] == PORT


def _object_in(kind: JsonType, path: str) -> tuple[JsonType, str]:
    """Return the object whose fields are those of a value, which may be a list of such or null, and its path."""
    while kind.items is not None:
        kind, path = kind.items, f"{path}[]"
    found = next((each for each in kind.either if each.fields or each.items), None)
    return _object_in(found, path) if found is not None else (kind, path)


def _words(kind: JsonType) -> str:
    """Return in words what a value may be."""
    if kind.word:
        return kind.word
    if kind.values:
        return _choice([str(each) if each is not None else "null" for each in kind.values])
    if kind.either:
        return _choice(list(map(_words, kind.either)))
    words = [_WORDS[each] for each in kind.types] or ["any value"]
    if kind.fields and _is_port(kind.fields):
        words[0] = "port"
    if kind.items is not None and kind.items.types:
        words[0] += " of ports" if _is_port(kind.items.fields) else _OF.get(kind.items.types[0], "")
    return _choice(words)


def _choice(words: list[str]) -> str:
    parts = list(dict.fromkeys(part for each in words for part in each.split(" or ")))
    return " or ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _roff(text: str) -> str:
    """Return *text* as a man page has it: names in backticks and other pages in bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = _REFERENCE.sub(r"\\fB\1\\fR(\2)", re.sub("`([^`]*)`", r"\\fB\1\\fR", text))
    return f"\\&{text}" if text.startswith((".", "'")) else text
