"""Documents, their fields, and the kinds of values that fields have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

Row = Mapping[str, Any]
NOTHING: Final = "-"


class Kind(NamedTuple):
    """How JSON writes a value. What is not given is not restricted.

    ``types``: the names of JSON Schema. ``values``: all that there are. ``pattern``: the regular expression of a text.
    ``items``: of a list. ``fields``: of an object; ``others``: what an object has under names that are no fields.
    ``either``: it is of one of these kinds. ``shared``: its name in common.json, where ``about`` says what it is.
    ``word``: what the man pages call it, where that is not its type; they list no fields of it then.
    """

    types: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    pattern: str = ""
    items: Kind | None = None
    fields: tuple[Field, ...] = ()
    others: Kind | None = None
    either: tuple[Kind, ...] = ()
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
    kind: Kind
    about: str = ""
    title: str = ""
    text: Callable[[Row], Any] | None = None
    short: str = ""
    brief: Callable[[Row], Any] | None = None
    folded: Callable[[Row], Any] | None = None
    empty: str | None = None
    optional: bool = False

    @property
    def short_title(self) -> str:
        """The title in a table of many ports."""
        return self.short or self.title

    def in_words(self, row: Row) -> Any:
        """Return the value for people, among those of one port."""
        return self._shown(row, self.text)

    def cell(self, row: Row) -> Any:
        """Return the value for people, in a table."""
        return self._shown(row, self.brief or self.text)

    def folded_cell(self, row: Row) -> Any:
        """Return the value for people that all ports of a folded row have."""
        return self._shown(row, self.folded or self.brief or self.text)

    def _shown(self, row: Row, text: Callable[[Row], Any] | None) -> Any:
        value = text(row) if text else row[self.name]
        return self.empty if value is None else value


class Rows(NamedTuple):
    """The rows of CSV: what there is one for, and its columns."""

    each: str
    fields: tuple[Field, ...]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.fields]


NO_ROWS: Final = Rows("", ())


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
    rows: Rows = NO_ROWS
    other_rows: Rows = NO_ROWS
    about: str = ""
    page: str = ""
    is_line: bool = False

    @property
    def schema(self) -> str:
        """What the document says of itself."""
        return f"ibkeys.{self.name}/{self.number}"


TEXT: Final = Kind(("string",))
NUMBER: Final = Kind(("integer",))
DECIMAL: Final = Kind(("number",))
FLAG: Final = Kind(("boolean",))
NULL: Final = Kind(("null",))
OBJECT: Final = Kind(("object",))
"""An object of which only its command knows the names."""


def maybe(kind: Kind) -> Kind:
    """Return the kind of a value that is null too."""
    if kind.shared or kind.either:
        return Kind(either=(kind, NULL))
    if kind.values:
        return kind._replace(values=(*kind.values, None))
    return kind._replace(types=(*kind.types, "null"))


def one_of(*values: Any) -> Kind:
    """Return the kind of a value that is one of *values*."""
    return Kind(values=values)


def either(*kinds: Kind) -> Kind:
    """Return the kind of a value that is of one of *kinds*."""
    return Kind(either=kinds)


def listed(items: Kind) -> Kind:
    """Return the kind of a list."""
    return Kind(("array",), items=items)


def object_of(*fields: Field) -> Kind:
    """Return the kind of an object with these *fields*."""
    return Kind(("object",), fields=fields)


def by_name(values: Kind) -> Kind:
    """Return the kind of an object whose names are not fixed, such as indexes; its values are of the kind *values*."""
    return Kind(("object",), others=values)


def shared(name: str, about: str, kind: Kind, word: str = "") -> Kind:
    """Return a kind that common.json has under *name*."""
    return kind._replace(shared=name, about=about, word=word)


def parts_of(field: Field) -> tuple[Field, ...]:
    """Return the columns of CSV for the parts of an object: ``peer_port`` for ``port`` of ``peer``."""
    return tuple(each._replace(name=f"{field.name}_{each.name}") for each in field.kind.fields)
