"""Changing an input as damage and malice do: bits, bytes, lines, numbers, words of the grammar, its end."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

NUMBERS = (
    b"-1", b"0", b"0x", b"255", b"65535", b"65536", b"4294967296", b"18446744073709551615", b"18446744073709551616",
    b"0xffffffffffffffff", b"1e400", b"9" * 5000,
)  # fmt: skip
WORDS = (
    b"\0", b"\xff\xfe", b"\r\n", b"\n\n", b"\t", b'"', b",", b"{", b"}", b"[" * 300, b"\xe2\x80\xae", b"\xed\xa0\x80",
    b"ffffffffffffffff", b"0" * 5000, *NUMBERS,
)  # fmt: skip
"""What every grammar has to stand."""
VALUES = (None, True, 0, -1, 255, 1 << 64, 1e300, "", "0", "0x8010", "\udc80", "a\nb", [], {}, [[]], {"": None})
"""The same of JSON."""


def mutate(data: bytes, dice: random.Random, words: Sequence[bytes] = (), others: Sequence[bytes] = ()) -> bytes:
    """Return *data* with a few things changed. *words*: of its grammar; *others*: inputs to take a part of."""
    for _ in range(dice.choice((1, 1, 2, 3, 8))):
        changed = _with_value_changed(data, dice) if data[:1] in (b"{", b"[") and dice.randrange(2) else None
        data = changed if changed is not None else _changed(data, dice, words, others)
    return data


def _changed(data: bytes, dice: random.Random, words: Sequence[bytes], others: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(data) + 1)
    match dice.randrange(9):
        case 0 if data:
            at = at % len(data)
            return data[:at] + bytes((data[at] ^ 1 << dice.randrange(8),)) + data[at + 1 :]
        case 1:
            return data[:at] + dice.randbytes(dice.randrange(1, 9)) + data[at + dice.randrange(9) :]
        case 2:
            return data[:at]
        case 3 | 4:
            word = dice.choice(words if words and dice.randrange(4) else WORDS)
            return data[:at] + word + data[at + dice.choice((0, 0, len(word))) :]
        case 5:
            return _with_lines_changed(data, dice)
        case 6:
            return data[:at] + data[at + dice.randrange(64) :]
        case 7 if others:
            other = dice.choice(others)
            start = dice.randrange(len(other) + 1)
            return data[:at] + other[start : start + dice.randrange(200)] + data[at:]
    size, to = dice.randrange(200), dice.randrange(len(data) + 1)
    return data[:to] + data[at : at + size] + data[to:]


def _with_lines_changed(data: bytes, dice: random.Random) -> bytes:
    """Two lines change places, or one is left out or stands there many times."""
    lines = data.split(b"\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    if dice.randrange(2):
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines[one : one + 1] = [lines[one]] * dice.choice((0, 2, 2, 50))
    return b"\n".join(lines)


def _with_value_changed(data: bytes, dice: random.Random) -> bytes | None:
    """Return a JSON document with one value replaced, by another of its own too, or left out; None if it is none."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            places += [(value, key) for key in (value if isinstance(value, dict) else range(len(value)))]
            waiting += value.values() if isinstance(value, dict) else value
    if not places:
        return None
    where, key = dice.choice(places)
    if dice.randrange(6):
        of, name = dice.choice(places)
        where[key] = dice.choice((*VALUES, json.loads(json.dumps(of[name]))))
    else:
        del where[key]
    return json.dumps(document).encode()
