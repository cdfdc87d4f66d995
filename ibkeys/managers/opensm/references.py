"""Converting an options file of OpenSM for the journal, with a reference to the key store in place of each key, and
back.

A reference is ``@KIND:NAME:SPELLING``: the kind of the key, the name of its row in the key store
(`ibkeys.store.keystore.schema`; earlier versions wrote the row's number), and the spelling of the number, so that it
can be restored byte for byte.

``m_key`` is the kind of the M_Key that is in force by this file; ``sm_key`` and ``sa_key`` are the kinds of these keys
in all lines that OpenSM reads. Every other key has the kind ``other``: a ``cc_key``, the ``m_key`` of an earlier line,
and a long number after the name of a key on a line that OpenSM does not read (a comment, ``m_key = 0x..``). A key that
was found in this way, or that is in the key store, is replaced wherever it is in the file. A key 0, and SM_Key and
SA_Key 1, which every OpenSM has by default, do not count as keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from ibkeys.errors import FileFormatError
from ibkeys.host.replacing.conversions import FileConversions
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.opensm.options_file import assignments, number_of, read_options, without_quotes
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
"""Kind → the highest value that does not count as a key."""
_LONG: Final = 1 << 16
"""The least number that counts as a possible key on a line that OpenSM does not read."""
_VERY_LONG: Final = 1 << 32
"""The least number in a comment that is masked for people, because it may be a key."""
_NAME: Final = re.compile(rb"(?<![0-9A-Za-z_])(m_key|sm_key|sa_key|cc_key)(?![0-9A-Za-z_])", re.IGNORECASE)
_NUMBER: Final = re.compile(rb"(?<![0-9A-Za-z_])[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)(?![0-9A-Za-z_])")
_DIGITS: Final = re.compile(rb"(?<![0-9A-Za-z_])[+-]?(?:[0-9]|[0-9a-fA-F]{9})[-+0-9A-Za-z_]*")
"""A number, or a malformed one, such as ``0x1122334455667788-5566`` and ``aabbccddeeff0011``."""
_REST_OF_WORD: Final = re.compile(rb"[-+0-9A-Za-z_]+")
_REFERENCE: Final = re.compile(
    rb"(@+)(m_key|sm_key|sa_key|other):(?:([0-9]{1,18}|[0-9a-f]{32}):([+-]?[dox][0-9]{1,4}U?[lum01]*))?"
)
_ORIGIN: Final = "found in an opensm.conf"


@dataclass(frozen=True, slots=True)
class _Place:
    """A key in a file. ``start``, ``end``: the offsets of its number, with the sign, in bytes."""

    start: int
    end: int
    kind: ReferenceKind
    value: int


def key_references(store: KeyStore) -> FileConversions:
    """Return the conversions of options files of OpenSM for the journal. *store*: the key store to which their
    references refer.

    ``record`` puts keys that *store* does not have into it. It raises FileFormatError if ``restore`` would not return
    the same bytes. ``restore`` raises FileFormatError for an invalid reference, and KeyGone for a key that *store* does
    not have any more. Both raise StoreError and StoreSealed. ``mask`` does not use *store*.
    """
    return FileConversions(
        record=lambda data: _record(data, store), restore=lambda data: _restore(data, store), mask=without_keys
    )


def size_of_recorded(data: bytes) -> int:
    """Return the size of the file of which the journal keeps *data*: each reference has the number of digits of its
    key."""

    def placeholder(found: re.Match[bytes]) -> bytes:
        if len(found[1]) > 1:
            return found[0][1:]
        spelling = _SPELLING.fullmatch((found[4] or b"").decode())
        if spelling is None:
            return found[0]
        sign, base, width, _, _ = spelling.groups()
        return bytes(len(sign) + (2 if base == "x" else 0) + int(width))

    return len(_REFERENCE.sub(placeholder, data))


def without_keys(data: bytes) -> bytes:
    """Return the options file *data* for people to read: the words that begin with a key, and the long numbers in
    comments, are masked."""
    places = {each.start: each.end for each in _add_other_places(data, _find_keys(data))}
    numbers = [each for each in _after_names(data, _DIGITS) if _may_be_key(each[0])]
    for comment in re.finditer(rb"#[^\n]*", data):
        numbers += [each for each in _NUMBER.finditer(data, *comment.span()) if _magnitude(each[0]) >= _VERY_LONG]
    for number in numbers:
        places[number.start()] = max(number.end(), places.get(number.start(), 0))
    shown, at = [], 0
    for start, end in sorted(places.items()):
        if start >= at:
            shown += [data[at:start], MASK]
            rest = _REST_OF_WORD.match(data, end)
            at = rest.end() if rest is not None else end
    return b"".join((*shown, data[at:]))


def _record(data: bytes, store: KeyStore) -> bytes:
    key_rows = _KeyRows(store)
    with store.in_one_transaction():
        places = _find_keys(data)
        key_rows.put(places)
    out, at = [], 0
    for each in _add_other_places(data, places, key_rows.known()):
        written = data[each.start : each.end]
        out += [_escape(data[at : each.start]), f"@{each.kind}:{key_rows.of(each)}:{_spelling(written)}".encode()]
        at = each.end
    recorded = b"".join((*out, _escape(data[at:])))
    if _restore(recorded, store) != data:
        raise FileFormatError(
            "it has a key in a comment or in an unusual form, which the journal could not restore byte "
            "for byte: put the key on a line of its own"
        )
    return recorded


def _restore(data: bytes, store: KeyStore) -> bytes:
    key_rows = _KeyRows(store)

    def restore_one(found: re.Match[bytes]) -> bytes:
        signs, kind, ref, spelling = found.groups()
        if len(signs) > 1:
            return found[0][1:]
        if ref is None:
            raise FileFormatError("the journal's copy of an opensm.conf has a reference that names no key")
        return _spell(key_rows.value(kind.decode(), ref.decode()), spelling.decode())

    return _REFERENCE.sub(restore_one, data)


def _escape(data: bytes) -> bytes:
    """Return *data* with an escape before every text that looks like a reference."""
    return _REFERENCE.sub(lambda found: b"@" + found[0], data)


def _find_keys(data: bytes) -> list[_Place]:
    """Return the keys in the file, in order: those in lines that OpenSM reads, and long numbers after the name of a key
    in other lines."""
    read = list(_read_by_opensm(data))
    starts = {each.start for each in read}
    found = [each for each in read if each.value > _NO_KEY[each.kind]]
    return sorted(
        [*found, *(each for each in _find_numbers_of_keys(data) if each.start not in starts)],
        key=lambda each: each.start,
    )


def _read_by_opensm(data: bytes) -> Iterator[_Place]:
    m_key = read_options(data).values.get("m_key")
    for line in assignments(data):
        kind = _KINDS.get(line.name)
        value = number_of(without_quotes(line.text), 64)
        number = _NUMBER.search(line.text)
        if kind is None or value is None or number is None:
            continue
        if kind == "m_key" and MKey(value) != m_key:
            kind = "other"
        yield _Place(line.start + number.start(), line.start + number.end(), kind, value)


def _find_numbers_of_keys(data: bytes) -> Iterator[_Place]:
    """Yield each long number that follows the name of a key on the same line."""
    for number in _after_names(data, _NUMBER):
        value = _parse_number(number[0])
        if value is not None and value >= _LONG:
            yield _Place(*number.span(), "other", value)


def _after_names(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    end = 0
    for name in _NAME.finditer(data):
        start = max(end, name.end())
        line_end = data.find(b"\n", start)
        end = len(data) if line_end < 0 else line_end
        yield from pattern.finditer(data, start, end)


def _add_other_places(data: bytes, places: list[_Place], known: dict[int, ReferenceKind] | None = None) -> list[_Place]:
    """Return *places* and all other places in *data* with the same keys, or with *known* keys (value → kind), in the
    order of the file. Keys below `_LONG` are not searched for."""
    kinds = {**(known or {}), **{each.value: each.kind for each in places}}
    starts = {each.start for each in places}
    more = []
    for number in _NUMBER.finditer(data):
        value = _parse_number(number[0])
        if value is not None and value >= _LONG and value in kinds and number.start() not in starts:
            more.append(_Place(*number.span(), kinds[value], value))
    return sorted([*places, *more], key=lambda each: each.start)


class _KeyRows:
    """Finds the row of the key store for a key, and the key for a row."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._sm_keys = SmKeys(store)

    @cached_property
    def _rows(self) -> dict[tuple[ReferenceKind, int], str]:
        """The name of the row of each key. Read when first needed: to restore a file, one row is read for each key."""
        rows: dict[tuple[ReferenceKind, int], str] = {
            ("m_key", key.reveal()): name for key, name in self._store.subnet_key_names().items()
        }
        names = self._sm_keys.names()
        return rows | {(row.kind, row.sm_key.reveal()): names[row.ref] for row in self._sm_keys.rows()}

    def put(self, places: list[_Place]) -> None:
        """Put the keys of *places* that the key store does not have into it. Raises StoreError."""
        missing = {(each.kind, each.value): None for each in places if (each.kind, each.value) not in self._rows}
        for kind, value in missing:
            if kind == "m_key":
                self._store.put_subnet_key(MKey(value), _ORIGIN)
            else:
                self._sm_keys.put_imported(kind, SMKey(value), _ORIGIN)
        if missing:
            del self._rows  # read again

    def known(self) -> dict[int, ReferenceKind]:
        """Return the keys in the store, each value with its kind."""
        return {value: kind for kind, value in self._rows}

    def of(self, place: _Place) -> str:
        return self._rows[place.kind, place.value]

    def value(self, kind: str, name: str) -> int:
        """Return the key in the row *name*. Raises KeyGone if there is no such row any more, FileFormatError if its key
        is of another kind than *kind*, StoreError."""
        if kind == "m_key":
            return self._store.subnet_key_named(name).reveal()
        row = self._sm_keys.named(name)
        if row.kind != kind:
            raise FileFormatError(f"the journal's copy of an opensm.conf refers to a {kind}, which is a {row.kind}")
        return row.sm_key.reveal()


def _parse_number(written: bytes) -> int | None:
    """Return the value of a number as C reads it; None for more than 64 bits. A number that is no octal one in spite of
    its leading zeros is read as decimal."""
    value = number_of(written, 64)
    if value is None and written.isdigit() and len(written) <= 64:
        value = int(written)
    return value if value is not None and value < 1 << 64 else None


def _may_be_key(word: bytes) -> bool:
    """Return whether a word after the name of a key is a long number, or a malformed one of as many digits."""
    if _NUMBER.fullmatch(word):
        return _magnitude(word) >= _LONG
    return len(re.findall(rb"[0-9a-fA-F]", word)) > 4


def _magnitude(written: bytes) -> int:
    digits = written.lstrip(b"+-")
    return int(digits, 16) if digits[:2].lower() == b"0x" else int(digits) if len(digits) < 4000 else _VERY_LONG


_FORMS: Final[dict[str, Callable[[int], str]]] = {"d": str, "o": "{:o}".format, "x": "{:x}".format}


def _spelling(written: bytes) -> str:
    """Return the spelling of a number: its sign; its base ``d``, ``o`` or ``x``; its number of digits. For a
    hexadecimal number follow ``U`` if its prefix is ``0X``, and the case of its letters: ``u`` all capital, ``l`` all
    small, or ``m`` with 1 for each capital and 0 for each small letter."""
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


def _spell(value: int, spelling: str) -> bytes:
    """Return *value* as a number with this *spelling*, as `_spelling` returns it. Raises FileFormatError if *spelling*
    is invalid."""
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
