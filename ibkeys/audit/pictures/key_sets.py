"""Sets of P_Keys in pictures of a fabric: each has a letter, with the P_Keys in words beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

KeySet = tuple[int, ...]
"""The P_Keys of a node's end ports, or of one port, each once, by number."""


def key_text(key: int, names: Mapping[int, str]) -> str:
    """Return a P_Key in words: ``0x0010 tenant-a full``."""
    name = names.get(key & 0x7FFF)
    membership = "full" if key & 0x8000 else "limited"
    return f"0x{key & 0x7FFF:04x}{f' {name}' if name else ''} {membership}"


def by_use(sets: Iterable[KeySet | None]) -> dict[KeySet, int]:
    """Return how often each set of P_Keys occurs, the most frequent first, because these get the clearest colours.
    Empty sets and None are left out.
    """
    usage = Counter(keys for keys in sets if keys)
    return dict(sorted(usage.items(), key=lambda each: (-each[1], each[0])))


def letter(index: int) -> str:
    """Return A, B, ... Z, AA, AB, ..."""
    letters = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters
