"""Base classes for tables of fields (name, byte, width) and for views of bytes through such a table.

A `Layout` is a view of a fixed number of bytes. Each row of its table is a descriptor: reading it decodes only that
field. `Layout.replace` returns a copy in which only the bits of the named fields differ, so reserved and vendor bits
survive a Get followed by a Set. Byte and bit numbers count from the beginning of the structure, the most significant
bit first, as in the standard. All numbers are big-endian.

A class whose rows overlap or reach beyond the structure raises TypeError when its module is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, Self, TypeVar, overload

from ibkeys.errors import EncodeError, MalformedMad

FieldKind = Literal["number", "hex", "text", "bytes"]
_Value = TypeVar("_Value")


@dataclass(eq=False, repr=False)
class FieldRow(Generic[_Value]):
    """One row of a table: the place of a field and its form in output.

    ``name``: the standard's spelling; ``attr``: the name in Python and JSON. ``byte`` and ``bit``: the place of the
    first bit. ``width``: the number of bits of one element; ``max``: its largest value; ``count``: the number of
    elements. ``kind``: "number" and "hex" differ only in JSON, where "hex" is a string of full width, for keys, GUIDs
    and GIDs. ``unit``: the unit of a number, such as "s". ``secret``: the value is a key, which is masked unless the
    caller asks for keys. ``part_of``: the name of a wider row that contains this one; only such rows may overlap, and
    only with that row.

    ``span`` (slice) and ``stop``: the bytes that have the field, and the offset after them. ``shift`` and ``bits``: the
    place of the field, and its bits, in the big-endian number that these bytes form.
    """

    name: str
    byte: int
    width: int
    bit: int
    count: int
    kind: FieldKind
    unit: str = ""
    secret: bool = False
    part_of: str = ""

    def __post_init__(self) -> None:
        self.attr = ""
        self.stop = self.byte + (self.bit + self.width * self.count + 7) // 8
        self.span = slice(self.byte, self.stop)
        self.shift = 8 * (self.stop - self.byte) - self.bit - self.width * self.count
        self.max = (1 << self.width) - 1
        self.bits = ((1 << (self.width * self.count)) - 1) << self.shift

    def __set_name__(self, owner: type, attr: str) -> None:
        self.attr = attr

    @property
    def first_bit(self) -> int:
        """The number of the first bit of the field in the structure."""
        return 8 * self.byte + self.bit

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Layout, owner: type) -> _Value: ...
    def __get__(self, instance: Layout | None, owner: type) -> Self | _Value:
        return self if instance is None else self.decode(instance.raw)

    def decode(self, raw: bytes | bytearray) -> _Value:
        """Return the value of this field in *raw*, the bytes of the structure."""
        raise AssertionError("a subclass must implement decode")

    def encode(self, value: Any) -> int:
        """Return *value* as a number of the width of this field. Raises EncodeError for a value that does not fit."""
        raise AssertionError("a row is one of the kinds below")

    def patch(self, buffer: bytearray, value: Any) -> None:
        """Write *value* into *buffer*, the bytes of a structure, changing only the bits of this field. Raises
        EncodeError."""
        others = int.from_bytes(buffer[self.span]) & ~self.bits
        buffer[self.span] = (others | self.encode(value) << self.shift).to_bytes(self.stop - self.byte)

    def copy(self, source: bytes, buffer: bytearray) -> None:
        """Copy this field from *source* to *buffer*, the bytes of two structures, changing only the bits of this
        field."""
        old, new = int.from_bytes(buffer[self.span]), int.from_bytes(source[self.span])
        buffer[self.span] = (old & ~self.bits | new & self.bits).to_bytes(self.stop - self.byte)

    def to_json(self, value: Any) -> Any:
        """Return *value* as the JSON documents have it."""
        return value

    def _check_value(self, value: Any, what: str) -> int:
        """Return *value* if it is an integer that fits one element. Raises EncodeError, whose message names the field
        as *what*."""
        if not isinstance(value, int):
            raise EncodeError(f"{what}: {'value' if self.secret else repr(value)} is not an integer")
        if not 0 <= value <= self.max:
            raise EncodeError(f"{what}: {'value' if self.secret else hex(value)} does not fit {self.width} bits")
        return int(value)

    def _number_to_json(self, value: int) -> int | str:
        return f"0x{value:0{self.width // 4}x}" if self.kind == "hex" else value


class NumberRow(FieldRow[int]):
    """A row for one unsigned number."""

    def decode(self, raw: bytes | bytearray) -> int:
        """Return the number in *raw*."""
        return int.from_bytes(raw[self.span]) >> self.shift & self.max

    def encode(self, value: Any) -> int:
        """Return *value* if it fits the field. Raises EncodeError."""
        return self._check_value(value, self.name)

    def to_json(self, value: Any) -> Any:
        """Return the number, or a hex string of full width for the kind "hex"."""
        return self._number_to_json(value)


class _ByteRow(NumberRow):
    """A row for a number within one byte, as most are. It takes a third of the time of a `NumberRow`."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Layout, owner: type) -> int: ...
    def __get__(self, instance: Layout | None, owner: type) -> Self | int:
        return self if instance is None else instance.raw[self.byte] >> self.shift & self.max

    def decode(self, raw: bytes | bytearray) -> int:
        """Return the number."""
        return raw[self.byte] >> self.shift & self.max

    def patch(self, buffer: bytearray, value: Any) -> None:
        """Write *value* into *buffer*, changing this row's bits only. Raises EncodeError."""
        buffer[self.byte] = buffer[self.byte] & ~self.bits | self.encode(value) << self.shift

    def copy(self, source: bytes, buffer: bytearray) -> None:
        """Write this row of *source* into *buffer*, changing this row's bits only."""
        buffer[self.byte] = buffer[self.byte] & ~self.bits | source[self.byte] & self.bits


class ArrayRow(FieldRow[tuple[int, ...]]):
    """A row for ``count`` unsigned numbers of whole bytes each. Its value is a tuple."""

    def decode(self, raw: bytes | bytearray) -> tuple[int, ...]:
        """Return all elements in *raw*."""
        step = self.width // 8
        return tuple(int.from_bytes(raw[at : at + step]) for at in range(self.byte, self.stop, step))

    def encode(self, value: Any) -> int:
        """Return the elements as one number, the first in the highest bits. Raises EncodeError."""
        try:
            values = tuple(value)
        except TypeError:
            raise EncodeError(f"{self.name}: {value!r} is not a sequence of {self.count} numbers") from None
        if len(values) != self.count:
            raise EncodeError(f"{self.name}: {len(values)} elements given, the array has {self.count}")
        total = 0
        for index, element in enumerate(values):
            total = total << self.width | self._check_value(element, f"{self.name}[{index}]")
        return total

    def to_json(self, value: Any) -> Any:
        """Return the elements as a list."""
        return [self._number_to_json(element) for element in value]


class TextRow(FieldRow[str]):
    """A row for UTF-8 text that is padded with NUL bytes; a text of full length has none (NodeDescription)."""

    def decode(self, raw: bytes | bytearray) -> str:
        """Return the text in *raw* up to the first NUL. U+FFFD replaces bytes that are not UTF-8, and characters that a
        terminal cannot show."""
        text = bytes(raw[self.byte : self.stop]).partition(b"\0")[0].decode("utf-8", "replace")
        if text.isprintable():  # true of nearly all texts
            return text
        return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)

    def encode(self, value: Any) -> int:
        """Return the text as UTF-8, padded with NUL, as one number. Raises EncodeError."""
        if not isinstance(value, str):
            raise EncodeError(f"{self.name}: {value!r} is not text")
        data = value.encode("utf-8", "surrogatepass")
        if len(data) > self.stop - self.byte:
            raise EncodeError(f"{self.name}: {len(data)} bytes do not fit into {self.stop - self.byte}")
        return int.from_bytes(data.ljust(self.stop - self.byte, b"\0"))


class BytesRow(FieldRow[bytes]):
    """A row for plain bytes, such as the attribute data of an SMP."""

    def decode(self, raw: bytes | bytearray) -> bytes:
        """Return the bytes of the field in *raw*."""
        return bytes(raw[self.byte : self.stop])

    def encode(self, value: Any) -> int:
        """Return the bytes as one number. Raises EncodeError for more or fewer bytes than the field has, and for a
        value that is not bytes."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise EncodeError(f"{self.name}: bytes are needed, {type(value).__name__} given")
        data = bytes(value)
        if len(data) != self.stop - self.byte:
            raise EncodeError(f"{self.name}: {len(data)} bytes given, {self.stop - self.byte} are needed")
        return int.from_bytes(data)

    def to_json(self, value: Any) -> Any:
        """Return the bytes in hexadecimal."""
        return value.hex()


def field(
    name: str,
    byte: int,
    width: int,
    *,
    bit: int = 0,
    hex: bool = False,
    unit: str = "",
    secret: bool = False,
    part_of: str = "",
) -> NumberRow:
    """Return a row for one number of *width* bits. *bit*: the first bit in *byte*, 0 for the most significant.

    *secret*: the number is a key, which is masked or else shown in hexadecimal. *hex*, *unit*, *part_of*: see
    `FieldRow`.
    """
    kind: FieldKind = "hex" if hex or secret else "number"
    row = _ByteRow if bit + width <= 8 else NumberRow
    return row(name, byte, width, bit, 1, kind, unit, secret, part_of)


def array(name: str, byte: int, width: int, count: int, *, hex: bool = False) -> ArrayRow:
    """Return a row for *count* numbers of *width* bits each, which must be whole bytes. *hex*: hexadecimal in JSON."""
    return ArrayRow(name, byte, width, 0, count, "hex" if hex else "number")


def text(name: str, byte: int, size: int) -> TextRow:
    """Return a row for *size* bytes of UTF-8 text."""
    return TextRow(name, byte, 8, 0, size, "text")


def octets(name: str, byte: int, size: int) -> BytesRow:
    """Return a row for *size* plain bytes."""
    return BytesRow(name, byte, 8, 0, size, "bytes")


MASKED_SUFFIX: Final = "_masked"


class _WithoutDict(type):
    """The metaclass of classes whose objects have no ``__dict__``: a class without ``__slots__`` gets an empty one."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        body.setdefault("__slots__", ())
        return super().__new__(cls, name, bases, body)


class Layout(metaclass=_WithoutDict):
    """A view of exactly ``size`` bytes, with one descriptor for each row of its table.

    ``name``: the standard's spelling of the attribute or record; ``attribute_id``: its number. ``rows``: the rows of
    the table by Python name. ``raw``: the bytes. Two views are equal if they have the same class and the same bytes.
    """

    __slots__ = ("raw",)

    size: ClassVar[int] = 0
    name: ClassVar[str] = ""
    attribute_id: ClassVar[int]
    rows: ClassVar[Mapping[str, FieldRow[Any]]] = {}

    raw: bytes

    def __init__(self, raw: bytes | None = None) -> None:
        """Make a view of *raw*, or of zeros. Raises MalformedMad if *raw* does not have ``size`` bytes."""
        if raw is None:
            raw = bytes(self.size)
        elif len(raw) != self.size:
            raise MalformedMad(f"{type(self).__name__} has {self.size} bytes, {len(raw)} given")
        self.raw = bytes(raw)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {attr: row for attr, row in vars(cls).items() if isinstance(row, FieldRow)}
        cls.rows = {**cls.rows, **own}
        _check_rows(cls.__name__, cls.size, cls.rows)

    @classmethod
    def new(cls, **values: Any) -> Self:
        """Return a view of zeros in which the named fields have *values*. Raises EncodeError as `replace` does."""
        return cls().replace(**values)

    def replace(self, **values: Any) -> Self:
        """Return a copy in which the named fields have *values*, and no other bit differs.

        Raises EncodeError for a value that does not fit its field, and for a name that no field has.
        """
        buffer = bytearray(self.raw)
        for attr, value in values.items():
            row = self.rows.get(attr)
            if row is None:
                raise EncodeError(f"{type(self).__name__} has no field {attr!r}")
            row.patch(buffer, value)
        return type(self)(bytes(buffer))

    def items(self) -> Iterator[tuple[FieldRow[Any], Any]]:
        """Yield (row, value) of each field, in the order of the table."""
        for row in self.rows.values():
            yield row, row.decode(self.raw)

    def to_json(self, show_keys: bool = False) -> dict[str, Any]:
        """Return all fields as JSON, by name. Unless *show_keys*, a secret field is None, and ``NAME_masked`` is
        true."""
        document: dict[str, Any] = {}
        for row, value in self.items():
            if row.secret and not show_keys:
                document[row.attr] = None
                document[row.attr + MASKED_SUFFIX] = True
            else:
                document[row.attr] = row.to_json(value)
        return document

    def masked(self) -> Self:
        """Return a copy in which all secret fields are zero, for logs and captures; this view if it has none."""
        secrets = {row.attr: 0 for row in self.rows.values() if row.secret}
        return self.replace(**secrets) if secrets else self

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Layout) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash((type(self), self.raw))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(_repr_of(row, value) for row, value in self.items() if value)})"


def _repr_of(row: FieldRow[Any], value: Any) -> str:
    """Return one field for `repr`, with secrets masked. Of plain bytes only the number is shown, because they may have
    a key, such as the data of a Set(PortInfo).
    """
    if isinstance(row, BytesRow):
        return f"{row.attr}=<{len(value)} bytes>"
    return f"{row.attr}={'<masked>' if row.secret else row.to_json(value)}"


def _check_rows(owner: str, size: int, rows: Mapping[str, FieldRow[Any]]) -> None:
    """Raise TypeError if *rows* of the class *owner* overlap or reach beyond *size* bytes, or if a row is not within
    the wider row that it is a part of."""
    taken: dict[int, FieldRow[Any]] = {}
    by_name = {row.name: row for row in rows.values()}
    for row in rows.values():
        if not row.part_of and row.stop > size:
            raise TypeError(f"{owner}.{row.name} ends at byte {row.stop}, the structure has {size}")
        span = range(row.first_bit, row.first_bit + row.width * row.count)
        if row.part_of:
            whole = by_name.get(row.part_of)
            if whole is None or span.start < whole.first_bit or span.stop > whole.first_bit + whole.width * whole.count:
                raise TypeError(f"{owner}.{row.name} is not a part of {row.part_of}")
            continue
        for bit in span:
            if bit in taken:
                raise TypeError(f"{owner}: {row.name} overlaps {taken[bit].name} at byte {bit // 8}, bit {bit % 8}")
            taken[bit] = row
