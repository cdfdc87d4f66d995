"""The cables of a map: those between many switches of two levels are a rail with a branch to each, others are lines.

Sixteen spines over ninety leaves have 1,440 cables, which as lines are one grey area; as a rail they are 106 branches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

from ibkeys.audit.pictures.fabric_map import FabricMap

_LINES: Final = 6
"""So many lines between some switches can be followed by eye."""
_RAILS: Final = 24
"""Rails below one level; each takes some room beside the others."""


@dataclass(frozen=True, slots=True)
class Rail:
    """Switches of a level, each linked to each of ``below``, all by one cable or all by several (``trunk``)."""

    above: tuple[int, ...]
    below: tuple[int, ...]
    trunk: bool


@dataclass(frozen=True, slots=True)
class MapLine:
    """One or several cables (``trunk``) between two boxes, the box of the higher level first."""

    one: int
    other: int
    trunk: bool


def rails_and_lines(made: FabricMap) -> tuple[list[Rail], list[MapLine]]:
    """Return all links of *made*, each once; a box is its place in ``made.boxes``."""
    above: dict[tuple[int, bool], set[int]] = defaultdict(set)
    lines = []
    for (one, other), cables in made.links.items():
        near, far = made.boxes[one].level, made.boxes[other].level
        if near is not None and far is not None and near < far:
            one, other, near, far = other, one, far, near
        trunk = cables > 1 and far is not None
        if near is not None and far is not None and near == far + 1:
            above[other, trunk].add(one)
        else:
            lines.append(MapLine(one, other, trunk))
    below: dict[tuple[int | None, tuple[int, ...], bool], list[int]] = defaultdict(list)
    for (box, trunk), linked in above.items():
        below[made.boxes[box].level, tuple(sorted(linked)), trunk].append(box)
    rails: list[Rail] = []
    drawn: Counter[int | None] = Counter()
    for (level, linked_to, trunk), boxes in sorted(below.items(), key=lambda item: -len(item[0][1]) * len(item[1])):
        if len(boxes) * len(linked_to) > _LINES and drawn[level] < _RAILS:
            rails.append(Rail(linked_to, tuple(boxes), trunk))
            drawn[level] += 1
        else:
            lines += [MapLine(one, other, trunk) for other in boxes for one in linked_to]
    return rails, lines
