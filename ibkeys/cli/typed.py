"""Keys typed in the wrong place on the command line, which no message may repeat.

Most messages never repeat such a word (`ibkeys.keys.number.quoted`); this is the net below them, for those of click and
for names of files, formats and rules. Only words of this command line (and of its variables) are looked for, and a
number that the user called a GUID is none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from ibkeys.keys.number import NOT_SHOWN, looks_like_a_key

_PARTS: Final = re.compile(r"[=:,;@\s]+")
_GROUPED: Final = re.compile(r"[0-9a-fA-F]{4}(?:[:_-][0-9a-fA-F]{4}){3}")
_watched: tuple[str, ...] = ()
_guids: set[int] = set()


def watch(words: Iterable[str]) -> None:
    """Hide those of *words*, or of their parts, that look like a key; what was watched before is forgotten. They are
    examined when the first message is written."""
    global _watched
    _watched = tuple(words)
    _guids.clear()


def is_a_guid(number: int) -> None:
    """Show *number* after all: the user said that it is a GUID."""
    _guids.add(number)


def without_keys(text: str) -> str:
    """Return *text* without what was typed and looks like a key."""
    for pattern in _patterns(_watched):
        if not any(pattern.fullmatch(f"0x{guid:x}") for guid in _guids):
            text = pattern.sub(NOT_SHOWN, text)
    return text


@lru_cache(maxsize=1)
def _patterns(words: tuple[str, ...]) -> list[re.Pattern[str]]:
    """Return what matches those of *words*, and of their parts, that look like a key; the longest comes first."""
    parts = {part for word in words for part in (word, *_PARTS.split(word), *_GROUPED.findall(word))}
    return [_any_spelling(part) for part in sorted(parts, key=len, reverse=True) if looks_like_a_key(part)]


def _any_spelling(word: str) -> re.Pattern[str]:
    """Match *word*, also as the same number in hex or decimal."""
    spellings = {re.escape(word)}
    digits = re.sub(r"[\s:_-]", "", word)
    for base in (10, 16):
        try:
            number = int(digits, base)
        except ValueError:
            continue
        spellings |= {rf"(?:0x)?0*{number:x}", rf"0*{number}"}
    return re.compile(rf"(?<![0-9a-zA-Z])(?:{'|'.join(sorted(spellings))})(?![0-9a-zA-Z])", re.IGNORECASE)
