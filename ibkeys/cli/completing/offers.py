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
"""Most words of one completion. There is a limit because a shell's script takes time for each word."""
LONGEST: Final = 64
"""Most characters of an offered word; a NodeDescription has 64 bytes."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.,+-]*(?: [A-Za-z0-9_.,+-]+)*", re.ASCII)


def is_plain(word: str) -> bool:
    """Return whether no shell gives a character of *word* a meaning.

    Plain are letters, digits, ``_ . , + -`` and single blanks within. Not plain are quotes, ``$``, backquotes, globs,
    and ``:``, ``=`` and ``@``, at which bash ends a word; nor a dash at the beginning, because the word would be an
    option. So names like ``MF0;leaf1:SX6036/U1`` are not plain.
    """
    return len(word) <= LONGEST and _PLAIN.fullmatch(word) is not None


def offer(words: Iterable[str] | Mapping[str, str], incomplete: str) -> list[Item]:
    """Return the offers for the plain *words* that begin with *incomplete*, sorted.

    *words*: a mapping has a help text for each word. Of more than `MOST_OFFERED` words only an even selection is
    returned. It has the first and the last word, so that the shell still inserts the beginning that all have in common.
    """
    helps = words if isinstance(words, Mapping) else {}
    offered = sorted({word for word in words if word.startswith(incomplete) and is_plain(word)})
    if len(offered) > MOST_OFFERED:
        last = len(offered) - 1
        offered = [offered[at * last // (MOST_OFFERED - 1)] for at in range(MOST_OFFERED)]
    return [CompletionItem(word, help=helps.get(word)) for word in offered]


def offer_list(words: Mapping[str, str], incomplete: str) -> list[Item]:
    """Return the offers for the last word of a list with commas. Words that are in the list already are left out.

    *words*: the allowed words, in capitals, each with a help text. *incomplete*: the list as far as it was typed.
    """
    before, comma, last = incomplete.upper().rpartition(",")
    present = before.split(",")
    lists = {
        f"{before}{comma}{word}": text for word, text in words.items() if word not in present and word.startswith(last)
    }
    return [CompletionItem(word, help=text) for word, text in lists.items() if _PLAIN.fullmatch(word)]
