"""An options file of OpenSM as the journal keeps it: a reference to the key store in place of each key.

A reference is ``@KIND:NAME:SPELLING``: the kind of the key, the name of its row of the key store
(`ibkeys.store.keystore.schema`; earlier versions wrote its number), and the spelling of the number, so that it is
restored byte for byte. The kind ``m_key`` is that of the line that OpenSM obeys, ``sm_key`` and ``sa_key`` are those of
all lines that OpenSM reads. ``other`` is a key that only this module keeps: a ``cc_key``, an earlier ``m_key``, and a
long number on a line that names one of these but has no effect on OpenSM (a comment, ``m_key = 0x..``). If a key that
is found so, or is in the key store, stands elsewhere in the file too, a reference replaces it there as well. M_Key 0,
and SM_Key and SA_Key 1, which every OpenSM has by default, do not count as keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from ibkeys.errors import FileFormatError
from ibkeys.host.replacing.conversions import FileConversions
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.opensm.options_file import assignments, number_of, read_options, unquoted
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sm_keys import SmKeys

ReferenceKind = Literal["m_key", "sm_key", "sa_key", "other"]

MASK: Final = b"(not shown)"
_KINDS: Final[dict[bytes, ReferenceKind]] = {
    b"m_key": "m_key",
    b"sm_key": "sm_key",
    b"sa_key": "sa_key",
    b"cc_key": "other",
}
_NO_KEY: Final[dict[ReferenceKind, int]] = {"m_key": 0, "sm_key": 1, "sa_key": 1, "other": 0}
"""The highest value that is not a key."""
_LONG: Final = 1 << 16
"""Least value that counts as a possible key on a line that OpenSM does not read."""
_VERY_LONG: Final = 1 << 32
"""Least value of a number in any comment that is not shown."""
_NAME: Final = re.compile(rb"(?<![0-9A-Za-z_])(m_key|sm_key|sa_key|cc_key)(?![0-9A-Za-z_])", re.IGNORECASE)
_NUMBER: Final = re.compile(rb"(?<![0-9A-Za-z_])[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)(?![0-9A-Za-z_])")
_REFERENCE: Final = re.compile(
    rb"(@+)(m_key|sm_key|sa_key|other):(?:([0-9]{1,18}|[0-9a-f]{32}):([+-]?[dox][0-9]{1,4}U?[lum01]*))?"
)
_FOUND: Final = "found in an opensm.conf"


@dataclass(frozen=True, slots=True)
class _Place:
    """A number that is a key, with its place in the file, sign included."""

    start: int
    end: int
    kind: ReferenceKind
    value: int


def key_references(store: KeyStore) -> FileConversions:
    """Return the conversions between options files of OpenSM and their form in the journal, with *store* for the keys.
    ``record`` first puts keys that the store does not have into it. It raises FileFormatError if restoring would not
    give the same bytes. ``restore`` raises FileFormatError for an invalid reference, and KeyGone for a key that *store*
    does not have. Both raise StoreError and StoreSealed. ``mask`` needs no key store.
    """
    return FileConversions(
        record=lambda data: _recorded(data, store), restore=lambda data: _restored(data, store), mask=without_keys
    )


def without_keys(data: bytes) -> bytes:
    """Return *data* for people to read: without keys, and without long numbers in comments."""
    places = {each.start: each.end for each in _with_the_same(data, _keys(data))}
    numbers = [each for each in _behind_names(data) if _magnitude(each[0]) >= _LONG]
    for comment in re.finditer(rb"#[^\n]*", data):
        numbers += [each for each in _NUMBER.finditer(data, *comment.span()) if _magnitude(each[0]) >= _VERY_LONG]
    for number in numbers:
        places[number.start()] = max(number.end(), places.get(number.start(), 0))
    ends = [*sorted(places.items()), (len(data), len(data))]
    return data[: ends[0][0]] + b"".join(MASK + data[one[1] : other[0]] for one, other in pairwise(ends))


def _recorded(data: bytes, store: KeyStore) -> bytes:
    refs = _Refs(store)
    with store.in_one_transaction():
        places = _keys(data)
        refs.put(places)
    out, at = [], 0
    for each in _with_the_same(data, places, refs.known()):
        written = data[each.start : each.end]
        out += [_escaped(data[at : each.start]), f"@{each.kind}:{refs.of(each)}:{_spelling(written)}".encode()]
        at = each.end
    recorded = b"".join((*out, _escaped(data[at:])))
    if _restored(recorded, store) != data:
        raise FileFormatError(
            "it has a key in a comment or in an unusual form, which the journal could not restore byte "
            "for byte: put the key on a line of its own"
        )
    return recorded


def _restored(data: bytes, store: KeyStore) -> bytes:
    refs = _Refs(store)

    def of_one(found: re.Match[bytes]) -> bytes:
        signs, kind, ref, spelling = found.groups()
        if len(signs) > 1:
            return found[0][1:]
        if ref is None:
            raise FileFormatError("the journal's copy of an opensm.conf has a reference that names no key")
        return _written(refs.value(kind.decode(), ref.decode()), spelling.decode())

    return _REFERENCE.sub(of_one, data)


def _escaped(data: bytes) -> bytes:
    """Return *data* with an escape before every text that looks like a reference."""
    return _REFERENCE.sub(lambda found: b"@" + found[0], data)


# --- finding keys -----------------------------------------------------------------------------------------------------


def _keys(data: bytes) -> list[_Place]:
    """Return the keys in lines that OpenSM reads, and in lines that only people read."""
    read = list(_read_by_opensm(data))
    starts = {each.start for each in read}
    found = [each for each in read if each.value > _NO_KEY[each.kind]]
    return sorted([*found, *(each for each in _named(data) if each.start not in starts)], key=lambda each: each.start)


def _read_by_opensm(data: bytes) -> Iterator[_Place]:
    m_key = read_options(data).values.get("m_key")
    for line in assignments(data):
        kind = _KINDS.get(line.name)
        value = number_of(unquoted(line.text), 64)
        number = _NUMBER.search(line.text)
        if kind is None or value is None or number is None:
            continue
        if kind == "m_key" and MKey(value) != m_key:
            kind = "other"
        yield _Place(line.start + number.start(), line.start + number.end(), kind, value)


def _named(data: bytes) -> Iterator[_Place]:
    """Yield each long number behind the name of a key on its line."""
    for number in _behind_names(data):
        value = _value(number[0])
        if value is not None and value >= _LONG:
            yield _Place(*number.span(), "other", value)


def _behind_names(data: bytes) -> Iterator[re.Match[bytes]]:
    end = 0
    for name in _NAME.finditer(data):
        start = max(end, name.end())
        line_end = data.find(b"\n", start)
        end = len(data) if line_end < 0 else line_end
        yield from _NUMBER.finditer(data, start, end)


def _with_the_same(data: bytes, places: list[_Place], known: dict[int, ReferenceKind] | None = None) -> list[_Place]:
    """Return *places* and all other places of the same keys, or of *known* keys, in the order of the file."""
    kinds = {**(known or {}), **{each.value: each.kind for each in places}}
    taken = {each.start for each in places}
    more = []
    for number in _NUMBER.finditer(data):
        value = _value(number[0])
        if value is not None and value >= _LONG and value in kinds and number.start() not in taken:
            more.append(_Place(*number.span(), kinds[value], value))
    return sorted([*places, *more], key=lambda each: each.start)


# --- the key store ----------------------------------------------------------------------------------------------------


class _Refs:
    """Rows of the key store and keys, both ways."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._sm_keys = SmKeys(store)
        self._rows: dict[tuple[ReferenceKind, int], str] = {}
        self._read()

    def _read(self) -> None:
        self._rows = {("m_key", key.reveal()): name for key, name in self._store.subnet_key_names().items()}
        names = self._sm_keys.names()
        self._rows |= {(row.kind, row.sm_key.reveal()): names[row.ref] for row in self._sm_keys.rows()}

    def put(self, places: list[_Place]) -> None:
        """Store the keys that are not there yet."""
        missing = {(each.kind, each.value): None for each in places if (each.kind, each.value) not in self._rows}
        for kind, value in missing:
            if kind == "m_key":
                self._store.put_subnet_key(MKey(value), _FOUND)
            else:
                self._sm_keys.put_imported(kind, SMKey(value), _FOUND)
        if missing:
            self._read()

    def known(self) -> dict[int, ReferenceKind]:
        """Return the kind of each key of the store."""
        return {value: kind for kind, value in self._rows}

    def of(self, place: _Place) -> str:
        return self._rows[place.kind, place.value]

    def value(self, kind: str, name: str) -> int:
        """Return the key of a row. Raises KeyGone, StoreError, and FileFormatError if the row is of another kind."""
        if kind == "m_key":
            return self._store.subnet_key_named(name).reveal()
        row = self._sm_keys.named(name)
        if row.kind != kind:
            raise FileFormatError(f"the journal's copy of an opensm.conf refers to a {kind}, which is a {row.kind}")
        return row.sm_key.reveal()


# --- spelling ---------------------------------------------------------------------------------------------------------


def _value(written: bytes) -> int | None:
    """Return the value of a number as C reads it, or of a decimal one with leading zeros; None past 64 bits."""
    value = number_of(written, 64)
    if value is None and written.isdigit() and len(written) <= 64:
        value = int(written)
    return value if value is not None and value < 1 << 64 else None


def _magnitude(written: bytes) -> int:
    digits = written.lstrip(b"+-")
    return int(digits, 16) if digits[:2].lower() == b"0x" else int(digits) if len(digits) < 4000 else _VERY_LONG


_FORMS: Final[dict[str, Callable[[int], str]]] = {"d": str, "o": "{:o}".format, "x": "{:x}".format}


def _spelling(written: bytes) -> str:
    """Return the spelling of a number: sign, base, number of digits, and the capital letters of a hexadecimal one:
    ``u`` all, ``l`` none, else ``m`` and 1 or 0 for each letter; ``U`` in front of that for ``0X``."""
    text = written.decode("ascii")
    sign = text[:1] if text[:1] in "+-" else ""
    digits = text[len(sign) :]
    if digits[:2] in ("0x", "0X"):
        letters = [letter for letter in digits[2:] if letter.isalpha()]
        flags = "".join("1" if letter.isupper() else "0" for letter in letters)
        case = "l" if "1" not in flags else "u" if "0" not in flags else f"m{flags}"
        return f"{sign}x{len(digits) - 2}{'U' if digits[1] == 'X' else ''}{case}"
    is_octal = digits[0] == "0" and not {*digits} & {"8", "9"}
    return f"{sign}{'o' if is_octal else 'd'}{len(digits)}"


_SPELLING: Final = re.compile(r"([+-]?)([dox])([0-9]+)(U?)(u|l|m[01]+|)")


def _written(value: int, spelling: str) -> bytes:
    """Return *value* in this *spelling*. Raises FileFormatError if *spelling* is invalid."""
    found = _SPELLING.fullmatch(spelling)
    if found is None:
        raise FileFormatError("the journal's copy of an opensm.conf has a reference with an invalid spelling")
    sign, base, width, prefix, case = found.groups()
    magnitude = (1 << 64) - value if sign == "-" and value else value
    digits = _FORMS[base](magnitude).zfill(int(width))
    if base != "x":
        return f"{sign}{digits}".encode()
    if case == "u":
        digits = digits.upper()
    elif case not in ("", "l"):
        flags = iter(case[1:])
        digits = "".join(each.upper() if each.isalpha() and next(flags, "0") == "1" else each for each in digits)
    return f"{sign}0{'X' if prefix else 'x'}{digits}".encode()
