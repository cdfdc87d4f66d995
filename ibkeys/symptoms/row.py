"""The rows of the table: a symptom, its causes, and the command that decides whether a cause is the right one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ibkeys.symptoms.numbers import NumberKind

_PLACE: Final = re.compile(r"\{([a-z_0-9]+)\}")
_BLANK: Final = re.compile(r" ([*?+]?)")


def _any_blank(blank: re.Match[str]) -> str:
    return r"\s" + (blank[1] or "+")


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of a symptom.

    ``name``: for tests and JSON. ``text``: the cause in a sentence. ``commands``: command lines of ibkeys without
    ``ibkeys``, with places such as ``{lid}`` for numbers of the text; the first whose numbers are known is printed.
    They only read. Empty: no command of ibkeys decides. ``shows``: the output that confirms this cause. ``remedy``: the
    remedy for this cause.
    """

    name: str
    text: str
    commands: tuple[str, ...] = ()
    shows: str = ""
    remedy: str = ""

    def command(self, numbers: dict[NumberKind, str]) -> tuple[str, ...] | None:
        """Return the words of the first command whose numbers *numbers* has, filled in; None if there is none."""
        for line in self.commands:
            if places_of(line) <= numbers.keys():
                return tuple(_PLACE.sub(lambda place: numbers[NumberKind(place[1])], word) for word in line.split())
        return None


def places_of(line: str) -> set[NumberKind]:
    """Return the kinds of the numbers that a command line needs."""
    return {NumberKind(name) for name in _PLACE.findall(line)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """A row of the table.

    ``name``: its identifier. ``title``: its heading. ``patterns``: regular expressions; a blank stands for any white
    space, and case does not matter. ``example``: such a text. ``meaning``: the meaning of the text. ``causes``: the
    likely ones, the most likely first. ``unknown``: facts that the text does not show. ``source``: where the wording
    and the meaning are from. ``leaks``: the secret that such a text holds, and the user's action; "" for none.
    ``rank``: 0 for a text that has one meaning, 1 for one that follows from another fault, 2 for one that says little:
    such a row is left out beside others. ``words``: more words to find it by.
    """

    name: str
    title: str
    patterns: tuple[str, ...] = ()
    example: str
    meaning: str
    causes: tuple[Cause, ...] = ()
    unknown: str = ""
    source: str
    leaks: str = ""
    rank: int = 0
    words: str = ""

    def compiled(self) -> tuple[re.Pattern[str], ...]:
        """Return the patterns, compiled. Raises re.error for a wrong one."""
        return tuple(re.compile(_BLANK.sub(_any_blank, each), re.IGNORECASE | re.ASCII) for each in self.patterns)
