"""The host in the name of a node, and known names that are similar to an unknown one: ``; did you mean gpu-a03?``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ibkeys.grouping import grouped
from ibkeys.printable import clean

_MOST_NAMES: Final = 3
_CUTOFF: Final = 0.6
_MARGIN: Final = 0.05
"""A name is left out if its similarity, as difflib measures it, is less than that of the nearest name by so much."""
_NO_WORD: Final = re.compile(r"[ \t;&|<>()$`*?!#~\"'\\]")
_ZEROS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")


def split_description(description: str) -> tuple[str, str | None]:
    """Return the host's name and the device of a node description; None if it names no device."""
    host, _, device = description.strip().partition(" ")
    return host, device.strip() or None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean a, b or c?`` for the end of a message, "" if no name in *known* is similar to *word*."""
    return did_you_mean_any([word], known)


def did_you_mean_any(words: Iterable[str], known: Iterable[str], most: int = _MOST_NAMES) -> str:
    """Return the question of `did_you_mean` for several unknown words."""
    names = list(known)
    return did_you_mean_one_of([name for word in words for name in near_names(word, names, most)], most)


def did_you_mean_one_of(similar: Iterable[str], most: int = _MOST_NAMES) -> str:
    """Return the question about the similar names *similar*; "" if there are none. A name that a shell would not
    take as one word is quoted."""
    quoted = [repr(name) if _NO_WORD.search(name) else clean(name) for name in list(dict.fromkeys(similar))[:most]]
    if not quoted:
        return ""
    last = quoted.pop()
    return f"; did you mean {', '.join(quoted)} or {last}?" if quoted else f"; did you mean {last}?"


def near_names(word: str, known: Iterable[str], most: int = _MOST_NAMES) -> list[str]:
    """Return at most *most* names of *known* that are similar to *word*, the nearest first.

    If some names differ from *word* only in case or in zeros before a number (``gpu-a3`` and ``gpu-a03``), only these
    are returned. difflib alone would find gpu-a30 as similar.
    """
    spellings = grouped(dict.fromkeys(known), _plain)
    same = spellings.get(_plain(word))
    if same:
        return same[:most]
    import difflib  # not at the top: it takes a tenth of the start of a command, and only mistakes need it

    near = difflib.get_close_matches(_plain(word), spellings, most, _CUTOFF)
    ratios = [difflib.SequenceMatcher(None, plain, _plain(word)).ratio() for plain in near]
    near = [plain for plain, ratio in zip(near, ratios, strict=True) if ratio > ratios[0] - _MARGIN]
    return [name for plain in near for name in spellings[plain]][:most]


def near_nodes(word: str, descriptions: Iterable[str]) -> list[str]:
    """Return the NodeDescriptions (``gpu-a03 mlx5_0``) among *descriptions* that *word* may mean.

    *word* may be the name of a host alone, or with the device.
    """
    named: dict[str, dict[str, None]] = {}
    for description in descriptions:
        for name in (description, split_description(description)[0]):
            named.setdefault(name, {})[description] = None
    return list(dict.fromkeys(each for name in near_names(word, named) for each in named[name]))


def _plain(name: str) -> str:
    return _ZEROS.sub("", name).casefold()
