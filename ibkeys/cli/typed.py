"""Hiding keys that a user typed in the wrong place on the command line: no message may repeat them.

Most messages never repeat such a word (`ibkeys.keys.number.quoted`). This module hides it in all other messages, such
as those of click, and those with names of files, formats and rules. It hides only words of this command line and its
environment variables, but no number that the user calls a GUID.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from ibkeys.keys.number import NOT_SHOWN, looks_like_a_key

_PARTS: Final = re.compile(r"[=:,;@\s]+")
_GROUPED: Final = re.compile(r"[0-9a-fA-F]{4}(?:[:_-][0-9a-fA-F]{4}){3}")
_MOST_DIGITS: Final = 500
"""The most digits of a word that is taken for a number: Python converts no number of many more digits to decimal."""
_watched: tuple[str, ...] = ()
_guids: set[int] = set()


def watch(words: Iterable[str]) -> None:
    """Make `without_keys` hide each of *words*, and each part of a word, that looks like a key.

    The words of an earlier call are no longer hidden. *words* are examined when the first message is written.
    """
    global _watched
    _watched = tuple(words)
    _guids.clear()


def exempt_guid(number: int) -> None:
    """Stop hiding *number*, because the user has called it a GUID."""
    _guids.add(number)


def without_keys(text: str) -> str:
    """Return *text* without typed words that look like a key."""
    for pattern in _patterns(_watched):
        if not any(pattern.fullmatch(f"0x{guid:x}") for guid in _guids):
            text = pattern.sub(NOT_SHOWN, text)
    return text


@lru_cache(maxsize=1)
def _patterns(words: tuple[str, ...]) -> list[re.Pattern[str]]:
    """Return a pattern for each of *words*, and each part of a word, that looks like a key; the longest is first."""
    parts = {part for word in words for part in (word, *_PARTS.split(word), *_GROUPED.findall(word))}
    return [_any_spelling(part) for part in sorted(parts, key=len, reverse=True) if looks_like_a_key(part)]


def _any_spelling(word: str) -> re.Pattern[str]:
    """Return a pattern for *word* in any spelling: also as the same number in hex or decimal."""
    spellings = {re.escape(word)}
    digits = re.sub(r"[\s:_-]", "", word)
    for base in (10, 16) if len(digits) <= _MOST_DIGITS else ():
        try:
            number = int(digits, base)
        except ValueError:
            continue
        spellings |= {rf"(?:0x)?0*{number:x}", rf"0*{number}"}
    return re.compile(rf"(?<![0-9a-zA-Z])(?:{'|'.join(sorted(spellings))})(?![0-9a-zA-Z])", re.IGNORECASE)
