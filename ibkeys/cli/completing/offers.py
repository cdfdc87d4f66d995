"""The words and files that are offered to a shell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    Item = CompletionItem[str]
else:  # no generic class before click 8.5
    Item = Any

MOST_OFFERED: Final = 500
"""Most words of one completion: a shell's script takes time for each."""
LONGEST: Final = 64
"""Most characters of an offered word; a NodeDescription has 64 bytes."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.,+-]*(?: [A-Za-z0-9_.,+-]+)*", re.ASCII)


def is_plain(word: str) -> bool:
    """Return whether no shell gives a character of *word* a meaning.

    That is so for letters, digits, ``_ . , + -`` and single blanks within; not for quotes, ``$``, backquotes or globs,
    for ``:``, ``=`` or ``@``, at which bash ends a word, or for a dash at the beginning, where the word would be an
    option. So names like ``MF0;leaf1:SX6036/U1`` are not offered.
    """
    return len(word) <= LONGEST and _PLAIN.fullmatch(word) is not None


def offer(words: Iterable[str] | Mapping[str, str], incomplete: str) -> list[Item]:
    """Return those of *words* that begin with *incomplete*, sorted; a mapping has a help text for each.

    Of more than `MOST_OFFERED` words an even selection with the first and the last is returned, so that the shell still
    inserts the beginning that all have in common.
    """
    helps = words if isinstance(words, Mapping) else {}
    found = sorted({word for word in words if word.startswith(incomplete) and is_plain(word)})
    if len(found) > MOST_OFFERED:
        last = len(found) - 1
        found = [found[at * last // (MOST_OFFERED - 1)] for at in range(MOST_OFFERED)]
    return [CompletionItem(word, help=helps.get(word)) for word in found]


def offer_list(words: Mapping[str, str], incomplete: str) -> list[Item]:
    """Return the offers for the last word of a list with commas, without the words that are in the list already."""
    before, comma, last = incomplete.upper().rpartition(",")
    had = before.split(",")
    whole = {
        f"{before}{comma}{word}": text for word, text in words.items() if word not in had and word.startswith(last)
    }
    return [CompletionItem(word, help=text) for word, text in whole.items() if _PLAIN.fullmatch(word)]
