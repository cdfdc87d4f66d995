"""Reading words and numbers of partitions.conf as OpenSM's C code does, and the meaning of the codes for MTU and
rate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MTU_BYTES: Final = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
"""MTU code → bytes (IBA 14.2.5.6, NeighborMTU)."""

#  code   Gb/s (IBA 15.2.5.16, PathRecord.Rate)
RATE_GBPS: Final = {
    2: "2.5",
    3: "10",
    4: "30",
    5: "5",
    6: "20",
    7: "40",
    8: "60",
    9: "80",
    10: "120",
    11: "14",
    12: "56",
    13: "112",
    14: "168",
    15: "25",
    16: "100",
    17: "200",
    18: "300",
    19: "28",
    20: "50",
    21: "400",
    22: "600",
    23: "800",
    24: "1200",
}
"""Rate code → Gb/s, as text."""

RATES_OF_NEWER_OPENSM: Final = frozenset({23, 24})
"""The rate codes with which OpenSM 3.3.23 makes no group (its ib_rate_is_valid); a newer one may."""

_HIGHEST_OF_SUBNET: Final = 0x40
"""The bit of a code that means the highest value that the subnet has."""

SCOPES: Final = {1: "interface-local", 2: "link-local", 5: "site-local", 8: "organization-local", 14: "global"}
"""Scope nibble of a multicast GID → its name (RFC 4291, 2.7)."""

BLANKS: Final = " \t\n"
"""The characters that OpenSM strips from both ends of a word. A carriage return is not among them."""

_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_MAX: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class ParsedNumber:
    """The result of C's strtoull(text, &end, 0).

    ``value``: the number, 0 if there is none. ``rest``: the text after it, or the whole text if there is none.
    ``is_number``: whether there is a number. ``is_octal``: whether it is read as octal because of a leading 0.
    ``is_negative``: whether it has a minus sign.
    """

    value: int
    rest: str
    is_number: bool
    is_octal: bool = False
    is_negative: bool = False


def c_number(text: str) -> ParsedNumber:
    """Return the number at the beginning of *text*, as strtoull with base 0 reads it: ``0x`` hexadecimal, a leading 0
    octal, else decimal. A negative number is counted down from 2**64, and one that is too large becomes 2**64 - 1.
    """
    match = _NUMBER.match(text)
    if not match:
        return ParsedNumber(0, text, is_number=False)
    digits = match[2]
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    base = 16 if digits[:2] in ("0x", "0X") else 8 if is_octal else 10
    value = int(digits, base) if base != 10 or len(digits) <= 20 else _MAX + 1
    if value > _MAX:
        value = _MAX
    elif match[1] == "-":
        value = -value & _MAX
    return ParsedNumber(value, text[match.end() :], is_number=True, is_octal=is_octal, is_negative=match[1] == "-")


def abbreviates(word: str, full: str) -> bool:
    """Return whether OpenSM reads *word* as *full*. It compares only as many characters as *word* has, so "" matches
    too."""
    return full.startswith(word)


def makes_group(code: int, codes: Mapping[int, str] | Mapping[int, int]) -> bool:
    """Return whether OpenSM makes a multicast group with this code of the MTU or rate (ERR 1B26). *codes*: `MTU_BYTES`
    or `RATE_GBPS`."""
    return bool(code & _HIGHEST_OF_SUBNET) or code & _HIGHEST_OF_SUBNET - 1 in codes


def mtu_in_words(code: int) -> str:
    """Return an MTU code in words: ``4096 bytes`` for 5, ``no MTU code (9)`` for 9."""
    size = MTU_BYTES.get(code)
    return f"{size} bytes" if size else f"no MTU code ({code})"


def rate_in_words(code: int) -> str:
    """Return a rate code in words: ``40 Gb/s`` for 7, ``no rate code (1)`` for 1."""
    rate = RATE_GBPS.get(code)
    return f"{rate} Gb/s" if rate else f"no rate code ({code})"


def scope_in_words(nibble: int) -> str:
    """Return the name of a scope nibble: ``link-local`` for 2, ``scope 3`` for 3."""
    return SCOPES.get(nibble, f"scope {nibble}")


def rate_of_code(code: int) -> float | None:
    """Return the rate of a code in Gb/s; None for an unknown code."""
    text = RATE_GBPS.get(code)
    return None if text is None else float(text)


def code_above(rate: float) -> int | None:
    """Return the lowest code whose rate is above *rate* (Gb/s); None if there is none. Older subnet managers are most
    likely to know the lowest code."""
    return min((code for code, text in RATE_GBPS.items() if float(text) > rate), default=None)
