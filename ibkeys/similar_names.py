"""Known names that are similar to an unknown one: ``; did you mean gpu-a03?``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ibkeys.grouping import grouped
from ibkeys.printable import clean

_NEAR: Final = 3
_CUTOFF: Final = 0.6
_MUCH: Final = 0.05
"""A name that is less like the word than the nearest one, by so much of the measure of difflib, is left out."""
_ZEROS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean a, b or c?`` for the end of a message, "" if no name in *known* is similar to *word*."""
    return did_you_mean_any([word], known)


def did_you_mean_any(words: Iterable[str], known: Iterable[str], most: int = _NEAR) -> str:
    """Return the question of `did_you_mean` for several unknown words."""
    names = list(known)
    return did_you_mean_one_of([name for word in words for name in near_names(word, names, most)], most)


def did_you_mean_one_of(near: Iterable[str], most: int = _NEAR) -> str:
    """Return the question about *near*, the similar names that were found; "" if there is none. A name with a blank is
    quoted.
    """
    shown = [repr(name) if " " in name else clean(name) for name in list(dict.fromkeys(near))[:most]]
    if not shown:
        return ""
    last = shown.pop()
    return f"; did you mean {', '.join(shown)} or {last}?" if shown else f"; did you mean {last}?"


def near_names(word: str, known: Iterable[str], most: int = _NEAR) -> list[str]:
    """Return at most *most* names of *known* that are similar to *word*, the nearest first.

    If names differ only in case or in zeros before a number (``gpu-a3`` and ``gpu-a03``), only these are returned: for
    difflib alone gpu-a30 is as near.
    """
    spellings = grouped(dict.fromkeys(known), _plain)
    same = spellings.get(_plain(word))
    if same:
        return same[:most]
    import difflib  # a tenth of a command's start, and only mistakes need it

    near = difflib.get_close_matches(_plain(word), spellings, most, _CUTOFF)
    ratios = [difflib.SequenceMatcher(None, plain, _plain(word)).ratio() for plain in near]
    near = [plain for plain, ratio in zip(near, ratios, strict=True) if ratio > ratios[0] - _MUCH]
    return [name for plain in near for name in spellings[plain]][:most]


def near_nodes(word: str, descriptions: Iterable[str]) -> list[str]:
    """Return those of *descriptions* (``gpu-a03 mlx5_0``) that *word* may mean. *word* may name the device too, or the
    host alone.
    """
    named: dict[str, dict[str, None]] = {}
    for description in descriptions:
        for name in (description, description.partition(" ")[0]):
            named.setdefault(name, {})[description] = None
    return list(dict.fromkeys(each for name in near_names(word, named) for each in named[name]))


def _plain(name: str) -> str:
    return _ZEROS.sub("", name).casefold()
