"""Folded sets of names, as ClusterShell's ``nodeset`` writes them: ``stage[1-48],tank[01-04,07]``.

Brackets have numbers and ranges, ``1-9/2`` with a step; numbers that begin with a zero keep their width. ``,`` joins
two sets, ``!`` removes names, ``&`` keeps the names in both, ``^`` those in exactly one; from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import product
from math import prod
from typing import Final

from ibkeys.grouping import grouped

_NAME: Final = r"(?:[^][,!&^]|\[[^][]*\])+"
_SET: Final = re.compile(f"{_NAME}(?:[,!&^]{_NAME})*")
_OPERAND: Final = re.compile(f"([,!&^]?)({_NAME})")
_PART: Final = re.compile(r"\[([^][]*)\]|([^][]+)")
_RANGE: Final = re.compile(r"([0-9]+)(?:-([0-9]+)(?:/([0-9]+))?)?", re.ASCII)
_DIGITS: Final = re.compile("([0-9]+)")

_Axes = tuple[tuple[str, ...], ...]
"""The values of each number in a group of names. The names are all combinations of these values."""


def unfold(text: str, most: int) -> tuple[str, ...]:
    """Return the names of a folded set, each once.

    Raises ValueError for an invalid set, and OverflowError, with the number of names, if the set or a part of it has
    more than *most*.
    """
    if not _SET.fullmatch(text):
        raise ValueError("a name or a bracket is missing")
    found: dict[str, None] = {}
    for operator, pattern in _OPERAND.findall(text):
        names = dict.fromkeys(_names(pattern, most))
        if operator == "!":
            found = {name: None for name in found if name not in names}
        elif operator == "&":
            found = {name: None for name in found if name in names}
        elif operator == "^":
            found = {name: None for name in (*found, *names) if (name in found) != (name in names)}
        else:
            found |= names
        if len(found) > most:
            raise OverflowError(len(found))
    return tuple(found)


def _names(pattern: str, most: int) -> Iterator[str]:
    parts = [[literal] if literal else _numbers(ranges, most) for ranges, literal in _PART.findall(pattern)]
    count = prod(map(len, parts))
    if count > most:
        raise OverflowError(count)
    return map("".join, product(*parts))


def _numbers(ranges: str, most: int) -> list[str]:
    """Return the numbers of ``1-3,007``."""
    numbers: list[str] = []
    for each in ranges.split(","):
        found = _RANGE.fullmatch(each.strip())
        if found is None:
            raise ValueError(f"[{ranges}] is no list of numbers and ranges")
        first, last, step = found[1], found[2] or found[1], int(found[3] or 1)
        width = _width(first)
        if int(last) < int(first) or step == 0 or _width(last) not in (0, width) or (width and len(last) != width):
            raise ValueError(f"{each.strip()} is no range: from the smaller number to the larger, padded to one width")
        found_now = range(int(first), int(last) + 1, step)
        if len(numbers) + len(found_now) > most:
            raise OverflowError(len(numbers) + len(found_now))
        numbers += [f"{number:0{width}}" for number in found_now]
    return numbers


def fold(names: Iterable[str]) -> str:
    """Return *names*, which have no character of the notation, as one folded set, in natural order."""
    split = (_DIGITS.split(name) for name in dict.fromkeys(names))
    alike = grouped(split, lambda parts: tuple(parts[::2]))
    return ",".join(
        _pattern(texts, axes)
        for texts, same in sorted(alike.items())
        for axes in _products([tuple((number,) for number in parts[1::2]) for parts in same])
    )


def _products(sets: list[_Axes]) -> list[_Axes]:
    """Join *sets*, which have no name in common, and return the few products that together have the same names.

    Sets that differ in one axis alone are joined, the last axis first.
    """
    while True:
        before = len(sets)
        for at in reversed(range(len(sets[0]))):
            sets = _joined(sets, at)
        if len(sets) == before:
            return sorted(sets, key=lambda axes: [_in_order(numbers[0]) for numbers in axes])


def _joined(sets: list[_Axes], at: int) -> list[_Axes]:
    alike = grouped(sets, lambda axes: (axes[:at], axes[at + 1 :]))
    return [
        (*left, _sorted(number for axes in same for number in axes[at]), *right)
        for (left, right), same in alike.items()
    ]


def _pattern(texts: tuple[str, ...], axes: _Axes) -> str:
    shown = [numbers[0] if len(numbers) == 1 else f"[{ranges(numbers)}]" for numbers in axes]
    return "".join(text + number for text, number in zip(texts, [*shown, ""], strict=True))


def ranges(numbers: Collection[str]) -> str:
    """Return decimal *numbers* as ``1-3,07``: in order, consecutive numbers as a range. A number that is padded with
    zeros is in a range only with others of its width."""
    runs: list[list[str]] = []
    for number in _sorted(numbers):
        if runs and number == _after(runs[-1][0], runs[-1][-1]):
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _after(first: str, last: str) -> str | None:
    """Return the number that follows *last*, the end of a range from *first*; None if *first* is padded and the number
    is wider."""
    width = _width(first)
    following = f"{int(last) + 1:0{width}}"
    return following if not width or len(following) == width else None


def _width(number: str) -> int:
    """Return the number of digits to which a number is padded; 0 if it is not padded."""
    return len(number) if number[0] == "0" and len(number) > 1 else 0


def _sorted(numbers: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(numbers, key=_in_order))


def _in_order(number: str) -> tuple[int, str]:
    return len(number), number
