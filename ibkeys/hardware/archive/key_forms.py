"""Searching texts, numbers and bytes for keys, in any form in which a key may be written.

The checks leave keys out when they read values. This search is the second line of defence: a node may have a key as its
name, or in place of a GUID.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

_SIZE: Final = 8
_BETWEEN: Final = re.compile(r"[\s:_.,-]|0x|\\x", re.IGNORECASE)
"""The characters that may be between the digits of a key."""
_HEX_RUN: Final = re.compile(r"[0-9a-f]{9,}")
_DECIMAL_RUN: Final = re.compile(r"[0-9]{10,}")
_BASE64_RUN: Final = re.compile(r"[0-9A-Za-z+/_-]{11,}")
_ORDERS: Final[tuple[Literal["big", "little"], ...]] = ("big", "little")
LONG: Final = 1 << 32
"""A key below this number looks like any other number, so only its spelling with 16 hex digits is searched."""


def _reversed(key: int) -> int:
    """Return *key* with its bytes in the opposite order."""
    return int.from_bytes(key.to_bytes(_SIZE), "little")


def _numbers(key: int) -> Iterator[int]:
    """Yield *key* and *key* with its bytes reversed; also as signed 64-bit numbers where those differ."""
    for number in (key, _reversed(key)):
        yield number
        if number >> 63:
            yield number - (1 << 64)


class KeyForms:
    """Searches for *keys*. The keys are in memory only, and no message of this class contains one.

    The time of a search grows with the text and not with the number of keys: a large fabric has one for each port.
    ``count``: the number of different keys other than 0; ``short``: how many of them are below `LONG`.
    """

    def __init__(self, keys: Iterable[int]) -> None:
        every = {key for key in keys if key}
        self.count, self.short = len(every), sum(key < LONG for key in every)
        long = [key for key in every if key >= LONG]
        self._numbers = {number for key in long for number in _numbers(key)}
        digits = {f"{number:016x}" for key in every for number in (key, _reversed(key))}
        digits |= {f"{number:x}" for key in long for number in (key, _reversed(key)) if number >= LONG}
        self._hex = _SearchedTexts(digits)
        self._decimal = _SearchedTexts({str(abs(number)) for number in self._numbers if abs(number) >= LONG})
        raws = {key.to_bytes(_SIZE, order) for key in long for order in _ORDERS}
        self._bytes = _SearchedTexts({raw.decode("latin-1") for raw in raws})
        encoders = (base64.b64encode, base64.urlsafe_b64encode)
        self._base64 = _SearchedTexts({encode(raw).decode().rstrip("=") for raw in raws for encode in encoders})

    def in_number(self, number: int) -> bool:
        """Return whether *number* is a key."""
        return number in self._numbers

    def in_text(self, text: str) -> bool:
        """Return whether *text* contains a key: its digits, also with separators between them, or its bytes, also in
        base64."""
        lower = text.lower()
        joined = _BETWEEN.sub("", lower)
        in_digits = any(self._in_digits(each) for each in {lower, joined})
        return in_digits or any(map(self._bytes.is_in, _raws(text))) or self._in_base64(text)

    def in_bytes(self, raw: bytes) -> bool:
        """Return whether *raw* contains a key: its bytes, its digits, or its bytes in base64."""
        text = raw.decode("latin-1")
        return self._in_digits(text.lower()) or self._bytes.is_in(text) or self._in_base64(text)

    def _in_base64(self, text: str) -> bool:
        return any(map(self._base64.is_in, _BASE64_RUN.findall(text)))

    def _in_digits(self, lower: str) -> bool:
        hex_runs, decimal_runs = _HEX_RUN.findall(lower), _DECIMAL_RUN.findall(lower)
        return any(map(self._hex.is_in, hex_runs)) or any(map(self._decimal.is_in, decimal_runs))


class _SearchedTexts:
    """Searches a text for any of *texts*. The time depends on the number of their different lengths only."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = set(texts)
        self._ascii = {text for text in self._texts if text.isascii()}
        self._sizes, self._ascii_sizes = ({len(text) for text in texts} for texts in (self._texts, self._ascii))

    def is_in(self, text: str) -> bool:
        """Return whether one of the texts is in *text*."""
        texts = self._ascii if text.isascii() else self._texts
        sizes = self._ascii_sizes if texts is self._ascii else self._sizes
        return any(text[at : at + size] in texts for size in sizes for at in range(len(text) - size + 1))


def _raws(text: str) -> Iterator[str]:
    """Yield the byte strings that *text* may stand for, as text with one character for each byte: each character as one
    byte, and in UTF-8; both also with backslash escapes decoded."""
    for each in {text, _unescaped(text)}:
        yield each
        if not each.isascii():
            yield each.encode("utf-8", "surrogateescape").decode("latin-1")


_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u00[0-9a-fA-F]{2}|[0-7]{3}|[abfnrtv\\])")
_LETTERS: Final = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 0x5C}


def _unescaped(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        body = match[1]
        if body in _LETTERS:
            return chr(_LETTERS[body])
        return chr(int(body.lstrip("xu"), 16) if body[0] in "xu" else int(body, 8) & 0xFF)

    return _ESCAPE.sub(char, text)
