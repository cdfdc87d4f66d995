"""Documents, their fields, and the kinds of values that fields have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

JsonRow = Mapping[str, Any]
NOTHING: Final = "-"


class JsonType(NamedTuple):
    """How JSON writes a value. An empty part restricts nothing.

    ``types``: the types by their names in JSON Schema. ``values``: all allowed values. ``pattern``: the regular
    expression that a text matches. ``items``: the kind of a list's items. ``fields``: the fields of an object;
    ``others``: the kind of an object's values under any other name. ``either``: the kinds of which a value has one.
    ``shared``: the name of this kind in common.json, and ``about`` its description there. ``word``: the name of the
    kind in the man pages, if it is not the name of the type; the man pages then do not list its fields.
    """

    types: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    pattern: str = ""
    items: JsonType | None = None
    fields: tuple[Field, ...] = ()
    others: JsonType | None = None
    either: tuple[JsonType, ...] = ()
    shared: str = ""
    about: str = ""
    word: str = ""


class Field(NamedTuple):
    """One value of a document.

    ``name``: its JSON name, and its column in CSV. ``about``: its meaning and unit, and the meaning of null; if empty,
    the description of the kind holds. ``optional``: whether some documents lack the field.

    In text for people: ``title`` names the value, and ``text`` is a function that puts it into words. ``short`` and
    ``brief`` replace ``title`` and ``text`` in a table of many ports. ``folded`` puts the value into words in a row
    that stands for many ports. ``empty``: the word for None, if None does not mean that the value could not be read.
    """

    name: str
    kind: JsonType
    about: str = ""
    title: str = ""
    text: Callable[[JsonRow], Any] | None = None
    short: str = ""
    brief: Callable[[JsonRow], Any] | None = None
    folded: Callable[[JsonRow], Any] | None = None
    empty: str | None = None
    optional: bool = False

    @property
    def short_title(self) -> str:
        """Return the title in a table of many ports."""
        return self.short or self.title

    def in_words(self, row: JsonRow) -> Any:
        """Return the value in words, for the list of one port's values."""
        return self._shown(row, self.text)

    def cell(self, row: JsonRow) -> Any:
        """Return the value in words, for a table."""
        return self._shown(row, self.brief or self.text)

    def folded_cell(self, row: JsonRow) -> Any:
        """Return the value in words for a folded row: the words are the same for all ports of the row."""
        return self._shown(row, self.folded or self.brief or self.text)

    def _shown(self, row: JsonRow, text: Callable[[JsonRow], Any] | None) -> Any:
        value = text(row) if text else row[self.name]
        return self.empty if value is None else value


class CsvRows(NamedTuple):
    """The rows of CSV: the thing that one row is about, and the columns."""

    each: str
    fields: tuple[Field, ...]

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return [field.name for field in self.fields]


NO_ROWS: Final = CsvRows("", ())


class Document(NamedTuple):
    """A document: its name, its number, its fields, and its rows as CSV.

    ``number`` increases when scripts that read the document may have to change. ``other_rows``: the rows that the
    command writes with another option. ``about``: a description, if the document is not the output of the command of
    this name. ``page``: the man page that lists the fields, if it is not the page of the command of this name.
    ``is_line``: whether it is one line of output for each port, before the document of the same name; a line has no
    schema.
    """

    name: str
    number: int
    fields: tuple[Field, ...]
    rows: CsvRows = NO_ROWS
    other_rows: CsvRows = NO_ROWS
    about: str = ""
    page: str = ""
    is_line: bool = False

    @property
    def schema(self) -> str:
        """Return the name and number that the document carries: ``ibkeys.audit/2``."""
        return f"ibkeys.{self.name}/{self.number}"


TEXT: Final = JsonType(("string",))
NUMBER: Final = JsonType(("integer",))
DECIMAL: Final = JsonType(("number",))
FLAG: Final = JsonType(("boolean",))
NULL: Final = JsonType(("null",))
OBJECT: Final = JsonType(("object",))
"""An object with any names; the command that writes it chooses them."""


def or_null(kind: JsonType) -> JsonType:
    """Return the kind of a value that may also be null."""
    if kind.shared or kind.either:
        return JsonType(either=(kind, NULL))
    if kind.values:
        return kind._replace(values=(*kind.values, None))
    return kind._replace(types=(*kind.types, "null"))


def one_of(*values: Any) -> JsonType:
    """Return the kind of a value that is one of *values*."""
    return JsonType(values=values)


def either(*kinds: JsonType) -> JsonType:
    """Return the kind of a value that is of one of *kinds*."""
    return JsonType(either=kinds)


def list_of(items: JsonType) -> JsonType:
    """Return the kind of a list of *items*."""
    return JsonType(("array",), items=items)


def object_of(*fields: Field) -> JsonType:
    """Return the kind of an object with these *fields*."""
    return JsonType(("object",), fields=fields)


def object_field(name: str, about: str, *fields: Field, optional: bool = False) -> Field:
    """Return a field whose value is an object with *fields*."""
    return Field(name, object_of(*fields), about, optional=optional)


def list_field(name: str, about: str, *fields: Field, optional: bool = False) -> Field:
    """Return a field whose value is a list of objects with *fields*."""
    return Field(name, list_of(object_of(*fields)), about, optional=optional)


def by_name(values: JsonType) -> JsonType:
    """Return the kind of an object whose names are not fixed, such as indexes; its values are of the kind *values*."""
    return JsonType(("object",), others=values)


def shared(name: str, about: str, kind: JsonType, word: str = "") -> JsonType:
    """Return *kind* with a definition of its own in common.json. *name*, *about*: the name and description of that
    definition. *word*: as in `JsonType`."""
    return kind._replace(shared=name, about=about, word=word)


def parts_of(field: Field) -> tuple[Field, ...]:
    """Return a column of CSV for each field of the object *field*: ``peer_port`` for ``port`` of ``peer``."""
    return tuple(each._replace(name=f"{field.name}_{each.name}") for each in field.kind.fields)
