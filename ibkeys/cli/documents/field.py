"""Documents, their fields, and the kinds of values that fields have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

JsonRow = Mapping[str, Any]
NOTHING: Final = "-"


class JsonType(NamedTuple):
    """How JSON writes a value. What is not given is not restricted.

    ``types``: the names of JSON Schema. ``values``: all that there are. ``pattern``: the regular expression of a text.
    ``items``: of a list. ``fields``: of an object; ``others``: what an object has under names that are no fields.
    ``either``: it is of one of these kinds. ``shared``: its name in common.json, where ``about`` says what it is.
    ``word``: what the man pages call it, where that is not its type; they list no fields of it then.
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
    """A value of a document: its JSON name, which is the column of CSV too, its kind, and what it is, with its unit and
    what null means (``about``; else what the kind says).

    For people: ``title``, and ``text``: how it reads; ``short`` and ``brief``: the same in a table of many ports;
    ``folded``: how it reads in a row that stands for many. ``empty``: how None reads, where it is not unreadable.
    ``optional``: not in every such document.
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
        """The title in a table of many ports."""
        return self.short or self.title

    def in_words(self, row: JsonRow) -> Any:
        """Return the value for people, among those of one port."""
        return self._shown(row, self.text)

    def cell(self, row: JsonRow) -> Any:
        """Return the value for people, in a table."""
        return self._shown(row, self.brief or self.text)

    def folded_cell(self, row: JsonRow) -> Any:
        """Return the value for people that all ports of a folded row have."""
        return self._shown(row, self.folded or self.brief or self.text)

    def _shown(self, row: JsonRow, text: Callable[[JsonRow], Any] | None) -> Any:
        value = text(row) if text else row[self.name]
        return self.empty if value is None else value


class CsvRows(NamedTuple):
    """The rows of CSV: what there is one for, and its columns."""

    each: str
    fields: tuple[Field, ...]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.fields]


NO_ROWS: Final = CsvRows("", ())


class Document(NamedTuple):
    """A document: its name, the number of its shape, which increases when scripts that read it may have to change, its
    fields, and its rows as CSV.

    ``other_rows``: those with another option. ``about``: what the document is, where it is not what the command of its
    name writes. ``page``: the man page that lists its fields, where that is not the command's. ``is_line``: it comes
    before the document of its name, once for each port, and does not name its schema.
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
        """What the document says of itself."""
        return f"ibkeys.{self.name}/{self.number}"


TEXT: Final = JsonType(("string",))
NUMBER: Final = JsonType(("integer",))
DECIMAL: Final = JsonType(("number",))
FLAG: Final = JsonType(("boolean",))
NULL: Final = JsonType(("null",))
OBJECT: Final = JsonType(("object",))
"""An object of which only its command knows the names."""


def maybe(kind: JsonType) -> JsonType:
    """Return the kind of a value that is null too."""
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


def listed(items: JsonType) -> JsonType:
    """Return the kind of a list."""
    return JsonType(("array",), items=items)


def object_of(*fields: Field) -> JsonType:
    """Return the kind of an object with these *fields*."""
    return JsonType(("object",), fields=fields)


def by_name(values: JsonType) -> JsonType:
    """Return the kind of an object whose names are not fixed, such as indexes; its values are of the kind *values*."""
    return JsonType(("object",), others=values)


def shared(name: str, about: str, kind: JsonType, word: str = "") -> JsonType:
    """Return a kind that common.json has under *name*."""
    return kind._replace(shared=name, about=about, word=word)


def parts_of(field: Field) -> tuple[Field, ...]:
    """Return the columns of CSV for the parts of an object: ``peer_port`` for ``port`` of ``peer``."""
    return tuple(each._replace(name=f"{field.name}_{each.name}") for each in field.kind.fields)
