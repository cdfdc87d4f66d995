"""The machinery behind the attribute tables: rows of (name, byte, width) and views over bytes.

A `Layout` is a view over a fixed number of bytes. Each of its rows is a descriptor: reading one decodes only that row,
and `Layout.replace` returns a copy in which only that row's bits differ, so reserved and vendor bits survive a Get
followed by a Set. Byte and bit numbers count from the start of the structure, most significant bit first, as the
standard writes them; everything is big-endian.

A class with rows that overlap or leave the structure cannot be made: importing it fails.
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

    ``name`` is the standard's spelling, ``attr`` the Python (and JSON) name. ``byte`` and ``bit`` give the first bit,
    ``width`` the bits of one element, ``max`` its largest value, ``count`` the elements of an array. ``kind``: "number"
    and "hex" differ only in JSON (a hex string of full width for keys, GUIDs and GIDs). ``secret`` values are masked in
    all output. ``span`` is the slice of the bytes that hold the row, for code that reads them without a view; ``bits``
    are the row's bits in the big-endian number that they form. ``part_of`` names a wider row that contains this one;
    only such rows may overlap, and only with that row.
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
        """Number of the row's first bit in the structure."""
        return 8 * self.byte + self.bit

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Layout, owner: type) -> _Value: ...
    def __get__(self, instance: Layout | None, owner: type) -> Self | _Value:
        return self if instance is None else self.decode(instance.raw)

    def decode(self, raw: bytes | bytearray) -> _Value:
        """Return this row's value in *raw*."""
        raise AssertionError("a row is one of the kinds below")

    def encode(self, value: Any) -> int:
        """Return *value* as the row's bits, not shifted. Raises EncodeError."""
        raise AssertionError("a row is one of the kinds below")

    def patch(self, buffer: bytearray, value: Any) -> None:
        """Write *value* into *buffer*, changing this row's bits only. Raises EncodeError."""
        kept = int.from_bytes(buffer[self.span]) & ~self.bits
        buffer[self.span] = (kept | self.encode(value) << self.shift).to_bytes(self.stop - self.byte)

    def copy(self, source: bytes, buffer: bytearray) -> None:
        """Write this row of *source* into *buffer*, changing this row's bits only."""
        old, new = int.from_bytes(buffer[self.span]), int.from_bytes(source[self.span])
        buffer[self.span] = (old & ~self.bits | new & self.bits).to_bytes(self.stop - self.byte)

    def to_json(self, value: Any) -> Any:
        """Return *value* as the JSON documents have it."""
        return value

    def _checked(self, value: Any, what: str) -> int:
        if not isinstance(value, int):
            raise EncodeError(f"{what}: {'value' if self.secret else repr(value)} is not an integer")
        if not 0 <= value <= self.max:
            raise EncodeError(f"{what}: {'value' if self.secret else hex(value)} does not fit {self.width} bits")
        return int(value)

    def _number_to_json(self, value: int) -> int | str:
        return f"0x{value:0{self.width // 4}x}" if self.kind == "hex" else value


class NumberRow(FieldRow[int]):
    """A row that holds one unsigned number."""

    def decode(self, raw: bytes | bytearray) -> int:
        """Return the number."""
        return int.from_bytes(raw[self.span]) >> self.shift & self.max

    def encode(self, value: Any) -> int:
        """Return a number as it is, if it fits."""
        return self._checked(value, self.name)

    def to_json(self, value: Any) -> Any:
        """Return the number, or a hex string of full width for the kind "hex"."""
        return self._number_to_json(value)


class ArrayRow(FieldRow[tuple[int, ...]]):
    """A row of ``count`` unsigned numbers of whole bytes each. Its value is a tuple."""

    def decode(self, raw: bytes | bytearray) -> tuple[int, ...]:
        """Return all elements."""
        step = self.width // 8
        return tuple(int.from_bytes(raw[at : at + step]) for at in range(self.byte, self.stop, step))

    def encode(self, value: Any) -> int:
        """Return the elements as one big number, the first in the highest bits."""
        try:
            values = tuple(value)
        except TypeError:
            raise EncodeError(f"{self.name}: {value!r} is not a sequence of {self.count} numbers") from None
        if len(values) != self.count:
            raise EncodeError(f"{self.name}: {len(values)} elements given, the array has {self.count}")
        total = 0
        for index, element in enumerate(values):
            total = total << self.width | self._checked(element, f"{self.name}[{index}]")
        return total

    def to_json(self, value: Any) -> Any:
        """Return the elements as a list."""
        return [self._number_to_json(element) for element in value]


class TextRow(FieldRow[str]):
    """A row of UTF-8 text, padded with NUL and not terminated when full (NodeDescription)."""

    def decode(self, raw: bytes | bytearray) -> str:
        """Return the text up to the first NUL; characters that a terminal cannot show become U+FFFD."""
        text = bytes(raw[self.byte : self.stop]).partition(b"\0")[0].decode("utf-8", "replace")
        if text.isprintable():  # nearly all
            return text
        return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)

    def encode(self, value: Any) -> int:
        """Return the text as UTF-8, padded with NUL."""
        if not isinstance(value, str):
            raise EncodeError(f"{self.name}: {value!r} is not text")
        data = value.encode("utf-8", "surrogatepass")
        if len(data) > self.stop - self.byte:
            raise EncodeError(f"{self.name}: {len(data)} bytes do not fit into {self.stop - self.byte}")
        return int.from_bytes(data.ljust(self.stop - self.byte, b"\0"))


class BytesRow(FieldRow[bytes]):
    """A row of plain bytes, such as the attribute data of an SMP."""

    def decode(self, raw: bytes | bytearray) -> bytes:
        """Return the bytes."""
        return bytes(raw[self.byte : self.stop])

    def encode(self, value: Any) -> int:
        """Return the bytes as one big number."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise EncodeError(f"{self.name}: bytes are needed, {type(value).__name__} given")
        data = bytes(value)
        if len(data) != self.stop - self.byte:
            raise EncodeError(f"{self.name}: {len(data)} bytes given, {self.stop - self.byte} are needed")
        return int.from_bytes(data)

    def to_json(self, value: Any) -> Any:
        """Return the bytes as hex."""
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
    """Return a row of one number. ``bit`` is the first bit inside ``byte``, 0 for the most significant.

    A ``secret`` is a key: hexadecimal where it is shown at all.
    """
    return NumberRow(name, byte, width, bit, 1, "hex" if hex or secret else "number", unit, secret, part_of)


def array(name: str, byte: int, width: int, count: int, *, hex: bool = False) -> ArrayRow:
    """Return a row of *count* numbers of *width* bits (whole bytes)."""
    return ArrayRow(name, byte, width, 0, count, "hex" if hex else "number")


def text(name: str, byte: int, size: int) -> TextRow:
    """Return a row of *size* bytes of UTF-8 text."""
    return TextRow(name, byte, 8, 0, size, "text")


def octets(name: str, byte: int, size: int) -> BytesRow:
    """Return a row of *size* plain bytes."""
    return BytesRow(name, byte, 8, 0, size, "bytes")


MASKED_SUFFIX: Final = "_masked"


class _WithoutDict(type):
    """Makes classes whose objects have the attributes of ``__slots__`` only, even if a class does not define it."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        body.setdefault("__slots__", ())
        return super().__new__(cls, name, bases, body)


class Layout(metaclass=_WithoutDict):
    """A view over exactly ``size`` bytes, with one descriptor for each row of its table.

    ``name`` is the spelling of an attribute or record in the standard, ``attribute_id`` its number. Two views are equal
    when they have the same class and the same bytes.
    """

    __slots__ = ("raw",)

    size: ClassVar[int] = 0
    name: ClassVar[str] = ""
    attribute_id: ClassVar[int]
    rows: ClassVar[Mapping[str, FieldRow[Any]]] = {}

    raw: bytes

    def __init__(self, raw: bytes | None = None) -> None:
        """Wrap *raw*, or zeros. Raises MalformedMad when the number of bytes is not ``size``."""
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
        """Return a view over zeros with the given fields set. Raises EncodeError."""
        return cls().replace(**values)

    def replace(self, **values: Any) -> Self:
        """Return a copy in which only the named fields' bits differ.

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
        """Yield (row, value) in table order."""
        for row in self.rows.values():
            yield row, row.decode(self.raw)

    def to_json(self, show_keys: bool = False) -> dict[str, Any]:
        """Return all fields under their JSON names.

        Secret fields are ``None`` beside ``"NAME_masked": true`` unless *show_keys*.
        """
        document: dict[str, Any] = {}
        for row, value in self.items():
            if row.secret and not show_keys:
                document[row.attr] = None
                document[row.attr + MASKED_SUFFIX] = True
            else:
                document[row.attr] = row.to_json(value)
        return document

    def masked(self) -> Self:
        """Return a copy whose secret fields are zero, for logs and captures."""
        secrets = {row.attr: 0 for row in self.rows.values() if row.secret}
        return self.replace(**secrets) if secrets else self

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Layout) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash((type(self), self.raw))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(_shown(row, value) for row, value in self.items() if value)})"


def _shown(row: FieldRow[Any], value: Any) -> str:
    """Return a row for `repr`. Plain bytes may hold a key (the data of a Set(PortInfo)): only their number is shown."""
    if isinstance(row, BytesRow):
        return f"{row.attr}=<{len(value)} bytes>"
    return f"{row.attr}={'<masked>' if row.secret else row.to_json(value)}"


def _check_rows(owner: str, size: int, rows: Mapping[str, FieldRow[Any]]) -> None:
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
