"""The numbers of a pasted text: LIDs, GUIDs, P_Keys and others, each with its place, and the keys that are in it.

A text is hostile, and may hold keys. So only numbers leave this module, each checked against the range of its kind, and
a number that follows the name of a key is never returned. A number of 64 bits without a name could be a key too: it is
returned as a GUID only after a word such as ``GUID`` or ``port``, or if it begins with the prefix of a maker of
InfiniBand adapters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK


class NumberKind(StrEnum):
    """The kinds of numbers. The value is the name of the place in a command."""

    LID = "lid"
    """Any LID; the first one."""
    LID1 = "lid1"
    """The LID of the sender, or the first one of two."""
    LID2 = "lid2"
    """The LID of the receiver, or the second one."""
    GUID = "guid"
    GUID2 = "guid2"
    """The second GUID."""
    P_KEY = "pkey"
    P_KEY2 = "pkey2"
    Q_KEY = "qkey"
    PORT = "port"
    ROUTE = "route"
    INDEX = "index"
    """An index of a P_Key table."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a text. ``at``: its place. ``text``: as ibkeys prints it, and commands take it."""

    kind: NumberKind
    value: int
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers in a text, and how many keys it holds. ``numbers``: in their order. ``keys``: how many different keys
    other than 0 it has."""

    numbers: tuple[Number, ...]
    keys: int


# Prefixes (OUI) with which GUIDs of InfiniBand devices begin: Mellanox and NVIDIA, Intel and QLogic, Voltaire, Cisco,
# Oracle. Source: the public list of the IEEE.
_MAKERS: Final = frozenset(
    bytes.fromhex(each)
    for each in [
        "0002c9",
        "001397",
        "001175",
        "00066a",
        "0005ad",
        "0008f1",
        "0010e0",
        "002128",
        "043f72",
        "08c0eb",
        "0c42a1",
        "1070fd",
        "1c34da",
        "2c5eab",
        "248a07",
        "3825f3",
        "506b4b",
        "5000e6",
        "58a2e1",
        "5c2573",
        "6433aa",
        "7c8c09",
        "7cfe90",
        "900a84",
        "946dae",
        "98039b",
        "9c0591",
        "9c63c0",
        "a088c2",
        "ac1f6b",
        "b0cf0e",
        "b45cb5",
        "b83fd2",
        "b8599f",
        "b8cef6",
        "b8e924",
        "c470bd",
        "c8e065",
        "cc40f3",
        "d09466",
        "e09d73",
        "e41d2d",
        "e8ebd3",
        "e89e49",
        "ec0d9a",
        "f02178",
        "f45214",
        "fc6a1c",
    ]
)

_NUMBER: Final = r"(?:0x[0-9a-f]+|[0-9]+)"
_SEP: Final = r"[\s:=#(\[\"']{0,4}"
_KEY_NAME: Final = (
    r"(?:(?<![a-z])(?:old|new|wrong|bad)?[ _-]?(?:(?:m|sm|sa) |(?:m|sm|sa|am|b|vs|cc|n2n|class|service)[_-]?)keys?"
    r"(?:[ _-](?:old|new|[0-9](?![0-9a-fx]))|[0-9](?=[^0-9a-z]))?(?![a-z_])|--?(?:smkey|m_key|y)\b)"
)
_SECRET: Final = re.compile(
    rf"{_KEY_NAME}[^0-9a-z\n]{{0,48}}"
    r"(?:(?P<base64>[0-9a-z+/]{11}=(?!=))"
    r"|(?:0x(?=[0-9a-f])|(?=[0-9])|(?=[0-9a-f]{16}\b)|(?=(?:[0-9a-f]{4}[:_-]){3}))(?P<key>[0-9a-f]+(?:[:_-][0-9a-f]{4}){0,3}))"
)
_LONG_SECRET: Final = re.compile(
    rf"(?:{_KEY_NAME}|(?<![a-z])(?<![pq][ _-])keys?(?![a-z_]))"
    r"(?:\((?!0x)[^()\n]{1,24}\)|\b(?:is|now|was|to|hex|value)\b|[^0-9a-z]){1,48}+"
    r"(?:0x(?=[0-9a-f]{9})|(?=[0-9a-f]{16}\b)|(?=(?:[0-9a-f]{4}[:_-]){3}[0-9a-f]{4})|(?=(?:[0-9a-f]{2}[:-]){7}))"
    r"(?P<key>[0-9a-f]+(?:[:_-][0-9a-f]{2,4})*)"
)
"""A number that is too long for anything but a key or a GUID: also on the next line, and after a few other words."""
_CACHE_LINE: Final = re.compile(r"^\s*0x[0-9a-f]{16}[ \t]+0x(?P<key>[0-9a-f]{16})\s*$", re.MULTILINE)
"""A line of OpenSM's guid2mkey."""
_HARDWARE: Final = re.compile(r"(?<![0-9a-f:])(?:[0-9a-f]{2}:){19}[0-9a-f]{2}(?![0-9a-f:])")
_BYTES: Final = re.compile(r"(?<![0-9a-f:])(?:[0-9a-f]{2}:){7}[0-9a-f]{2}(?![0-9a-f:])")
_WORDS: Final = re.compile(r"(?<![0-9a-f:])(?:[0-9a-f]{4}:){3}[0-9a-f]{4}(?![0-9a-f:])")
_GID: Final = re.compile(r"(?<![0-9a-f:.])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![0-9a-f:])")
_LONG: Final = re.compile(
    r"(?<![0-9a-z_])(?:(?P<x>0x)?(?P<hex>[0-9a-f]{16})|0x(?P<short>[0-9a-f]{11,15}))(?![0-9a-z_])"
)
_NAMED_GUID: Final = re.compile(rf"(?:guids?|(?<![a-z])ports?(?= ?0x)){_SEP}0x(?P<hex>[0-9a-f]{{1,16}})(?![0-9a-z_])")
_GUID_BEFORE: Final = re.compile(
    r"(?:guids?|nodes?|ports?|(?<![a-z])h?ca|switch|sw|router|src|dst|gid|remote|[hsr]-)(?:[\s:=(\[\"'<]|is|for|of){0,6}$"
)
_NO_GUID_BEFORE: Final = re.compile(
    r"(?:tid|transid|transaction ?id|mask|attr_?mod|addr|key|prefix|cookie)[\s:=(]{0,4}$"
)
_GUID_AND: Final = re.compile(r"(?:0x)?[0-9a-f:]{1,47}['\")]?[ \t]*(?:and|to|<->|->|,|vs\.?)[ \t]*")
_LID: Final = re.compile(
    rf"(?<![a-z0-9])(?P<of>[sd]?lid[12]?|base ?lid|lids){_SEP}(?P<lid>{_NUMBER})(?![0-9a-z_.])(?!-[0-9])"
)
_P_KEY: Final = re.compile(
    r"(?:(?<![a-z])|(?<=ib_))(?:p_?keys?|partition(?: ?key)?)(?: value)?(?P<of>[ _-]?(?:index|idx|ix)\w*)?"
    r"[\s:=#(\[\"'@]{0,5}(?:(?P<hex>0x[0-9a-f]+)|(?P<plain>[0-9]+))(?![0-9a-z_.])"
)
_CHILD: Final = re.compile(r"(?<![0-9a-z])ib[a-z0-9]{0,12}\.(?P<hex>[0-9a-f]{4})(?![0-9a-z])")
_INDEX: Final = re.compile(r"(?:nccl_ib_pkey|mc_pkey_index|ib_pkey_index)\b[^0-9\n]{0,30}(?P<index>[0-9]{1,5})\b")
_Q_KEY: Final = re.compile(rf"q_?key{_SEP}(?P<qkey>{_NUMBER})(?![0-9a-z_])")
_PORT: Final = re.compile(r"(?<![a-z])port(?: ?num(?:ber)?)?[\s:=#]{1,3}(?P<port>[0-9]{1,3})(?![0-9a-z_.:])")
_ROUTE: Final = re.compile(
    r"(?:dr path|direct(?:ed)?[ -]route|initial path)"
    r"(?: slid [0-9]+; ?dlid [0-9]+; ?|(?! slid )[^0-9\n]{0,12})"
    r"(?P<route>0(?:,[0-9]{1,3}){0,63})(?![0-9,])"
)
_LAST_UNICAST: Final = 0xBFFF


def read_numbers(text: str) -> Reading:
    """Return the numbers of *text*, each with its place. Of the keys in it only their count is returned."""
    low = text.lower()
    keys = {*_keys(low)}
    found: list[Number] = []
    taken = bytearray(len(low))
    """1 at each place that was read already."""
    for match in _secrets(low):
        _take(taken, match)
    for pattern, read in _READERS:
        for match in pattern.finditer(low):
            if any(taken[match.start() : match.end()]):
                continue
            numbers = [each for each in read(match, low, found) if each.value not in keys or each.value <= 0xFFFF]
            if numbers:
                _take(taken, match)
                found += numbers
    encoded = {match["base64"] for match in _SECRET.finditer(low)} - {None}
    named = {*map(_digits, _secrets(low))} - {""}
    return Reading(tuple(sorted(found, key=lambda each: each.at)), len(named | encoded))


def _take(taken: bytearray, match: re.Match[str]) -> None:
    start, end = match.span()
    taken[start:end] = b"\1" * (end - start)


def _secrets(low: str) -> Iterator[re.Match[str]]:
    """Yield the places where *low* names a key."""
    for pattern in (_SECRET, _LONG_SECRET, _CACHE_LINE):
        yield from pattern.finditer(low)


def _keys(low: str) -> Iterator[int]:
    """Yield the keys that *low* names as such, except 0. Without 0x a key may be a hex or a decimal number."""
    for match in _secrets(low):
        if digits := _digits(match):
            yield from (int(digits, base) for base in ((16, 10) if digits.isdigit() else (16,)))


def _digits(match: re.Match[str]) -> str:
    """Return the digits of a key without leading zeros; an empty text for 0, and for a key in base64."""
    return re.sub(r"[:_-]", "", match["key"] or "")[:20].lstrip("0")


def _hardware(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    raw = bytes.fromhex(match[0].replace(":", ""))
    yield from _guid(int.from_bytes(raw[12:]), match.start())


def _groups(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    yield from _guid_or_key(int(match[0].replace(":", ""), 16), match.start(), low, found)


def _gid(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    try:
        raw = IPv6Address(match[0]).packed
    except AddressValueError:
        return
    if raw[0] != 0xFF:
        if raw[:2] in (b"\xfe\x80", b"\xfe\xc0"):
            yield from _guid(int.from_bytes(raw[8:]), match.start())
    elif raw[2:4] in (b"\x40\x1b", b"\x60\x1b"):
        yield from _p_key(int.from_bytes(raw[4:6]), match.start())


def _long(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    yield from _guid_or_key(int(match["hex"] or match["short"], 16), match.start(), low, found)


def _guid_or_key(value: int, at: int, low: str, found: list[Number]) -> Iterator[Number]:
    """Yield *value* if it can be told from a key: by the word before it, or by the maker's prefix."""
    before = low[max(0, at - 24) : at]
    if _NO_GUID_BEFORE.search(before):
        return
    is_named = _GUID_BEFORE.search(before) is not None or _follows_a_guid(low, at, found)
    if is_named or value.to_bytes(8)[:3] in _MAKERS:
        yield from _guid(value, at)


def _follows_a_guid(low: str, at: int, found: list[Number]) -> bool:
    """Return whether nothing but "and" or the like is between the last GUID before *at* and *at*."""
    last = max((each.at for each in found if each.kind is NumberKind.GUID and each.at < at), default=None)
    return last is not None and _GUID_AND.fullmatch(low[last:at]) is not None


def _named_guid(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    yield from _guid(int(match["hex"], 16), match.start("hex"))


def _guid(value: int, at: int) -> Iterator[Number]:
    if 0 < value < (1 << 64) - 1:
        yield Number(NumberKind.GUID, value, f"0x{value:016x}", at)


def _lid(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    value = _number(match["lid"])
    kind = {"slid": NumberKind.LID1, "lid1": NumberKind.LID1, "dlid": NumberKind.LID2, "lid2": NumberKind.LID2}.get(
        match["of"], NumberKind.LID
    )
    if 0 < value <= _LAST_UNICAST:
        yield Number(kind, value, str(value), match.start())


def _named_p_key(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    text = match["hex"] or match["plain"]
    if match["of"] is not None:
        yield from _index(_number(text), match.start())
    elif match["hex"] or len(text) > 2:  # without 0x: four digits as other tools print P_Keys, or a decimal number
        is_hex = match["hex"] or (len(text) == 4 and text[0] in "0789")
        yield from _p_key(int(text, 16) if is_hex else int(text[:9]), match.start())


def _child(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    yield from _p_key(int(match["hex"], 16), match.start())


def _p_key(value: int, at: int) -> Iterator[Number]:
    if value & PARTITION_MASK and value <= FULL_BIT | PARTITION_MASK:
        yield Number(NumberKind.P_KEY, value, f"0x{value:04x}", at)


def _named_index(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    yield from _index(int(match["index"]), match.start())


def _index(value: int, at: int) -> Iterator[Number]:
    if value < 0xFFFF:
        yield Number(NumberKind.INDEX, value, str(value), at)


def _q_key(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    value = _number(match["qkey"])
    if value <= 0xFFFF_FFFF:
        yield Number(NumberKind.Q_KEY, value, f"0x{value:08x}", match.start())


def _port(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    value = int(match["port"])
    if value < 0xFF:
        yield Number(NumberKind.PORT, value, str(value), match.start())


def _route(match: re.Match[str], low: str, found: list[Number]) -> Iterator[Number]:
    hops = [int(each) for each in match["route"].split(",")]
    if all(0 < hop < 0xFF for hop in hops[1:]):
        yield Number(NumberKind.ROUTE, len(hops), ",".join(map(str, hops)), match.start())


def _number(text: str) -> int:
    return int(text, 16) if text.startswith("0x") else int(text[:20])


_READERS: Final = (
    (_HARDWARE, _hardware),
    (_BYTES, _groups),
    (_WORDS, _groups),
    (_GID, _gid),
    (_LONG, _long),
    (_NAMED_GUID, _named_guid),
    (_ROUTE, _route),
    (_LID, _lid),
    (_INDEX, _named_index),
    (_P_KEY, _named_p_key),
    (_CHILD, _child),
    (_Q_KEY, _q_key),
    (_PORT, _port),
)
