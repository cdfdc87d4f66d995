"""The layout of a map: the position of each box and cable. Lengths are pixels.

The cables between many switches of two levels are drawn as a rail with a branch to each switch; other cables are lines.
Sixteen spines over ninety leaves have 1,440 cables, which as lines are one grey area; as a rail they are 106 branches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.audit.pictures.fabric_map import Box, Colouring, FabricMap
from ibkeys.audit.pictures.svg import text_width
from ibkeys.grouping import gathered

ROW: Final = 20
BOX: Final = 16
EDGE: Final = 12
_TAG: Final = 30
"""Least room for the word of a colouring."""
_BETWEEN: Final = 14
"""From one rail to the next."""
_GAP: Final = 90
_BOW: Final = 110
"""How far a cable within a level is bent to the left, at most."""
_SWITCH: Final = (110, 300)
_HOSTS: Final = (160, 420)
"""Least and most width of a box; names that need more are cut."""
_LINES: Final = 6
"""So many lines between some switches can be followed by eye."""
_RAILS: Final = 24
"""The most rails below one level; each takes some room beside the others."""


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
    """Return all links of *made*, each once, as rails and lines. They name a box by its index in ``made.boxes``."""
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


class MapLayout:
    """The positions of boxes and cables. The leaves are beside their hosts; a switch of a higher level is near the
    switches that it is linked to. Every box begins on a line of `ROW` pixels; the first line begins at *top*.
    """

    def __init__(self, made: FabricMap, colourings: Sequence[Colouring], top: int = EDGE) -> None:
        self._made = made
        self._top = top
        self.tag = max((_tag(made, colouring) for colouring in colourings), default=_TAG)
        self._widths = self._box_widths()
        self._rails, self._lines = rails_and_lines(made)
        levels = [box.level for box in made.boxes if box.level is not None]
        self._left = self._level_places(max(levels, default=-1))
        self.width = self._left[None] + self._widths[None] + EDGE
        self._row: dict[int, int] = {}
        rows = self._place_leaves()
        most = max((levels.count(level) for level in set(levels)), default=0)
        self.rows = max(rows, most, 1)
        self.height = top + self.rows * ROW + EDGE
        for level in range(1, max(levels, default=0) + 1):
            self._place(level)

    def row(self, index: int) -> int:
        """Return the line of a box, from 0."""
        return self._row[index]

    def top_of(self, row: int) -> int:
        """Return the height at which the line *row* begins, in pixels."""
        return self._top + row * ROW

    def place(self, index: int) -> tuple[int, int, int]:
        """Return left, top and width of a box."""
        level = self._made.boxes[index].level
        return self._left[level], self.top_of(self._row[index]), self._widths[level]

    def _box_widths(self) -> dict[int | None, int]:
        needed: dict[int | None, int] = {None: 0}
        for box in self._made.boxes:
            needed[box.level] = max(needed.get(box.level, 0), text_width(caption(box)) + self.tag + 14)
        limits = {level: _HOSTS if level is None else _SWITCH for level in needed}
        return {level: min(max(width, limits[level][0]), limits[level][1]) for level, width in needed.items()}

    def _level_places(self, top: int) -> dict[int | None, int]:
        """Return where each level begins: the highest on the left, the hosts (None) on the right."""
        places: dict[int | None, int] = {}
        # a bow goes three quarters as far as the points that bend it
        bows = any(
            self._made.boxes[line.one].level == self._made.boxes[line.other].level == top for line in self._lines
        )
        x = EDGE + (_BOW * 3 // 4 if bows else 0)
        for level in range(top, -1, -1):
            places[level] = x
            rails = sum(self._made.boxes[rail.below[0]].level == level - 1 for rail in self._rails)
            x += self._widths.get(level, 0) + max(_GAP, (rails + 3) * _BETWEEN)
        return {**places, None: x}

    def _place_leaves(self) -> int:
        """Place the leaves and the hosts, and return how many lines that takes."""
        hosts = [index for index, box in enumerate(self._made.boxes) if box.level is None]
        behind = gathered(link for link in self._made.links if self._made.boxes[link[1]].level is None)
        row = 0
        for index, box in enumerate(self._made.boxes):
            if box.level == 0:
                mine = behind.get(index, [])
                self._row.update({host: row + offset for offset, host in enumerate(mine)})
                self._row[index] = row + (max(len(mine), 1) - 1) // 2
                row += max(len(mine), 1)
        for host in hosts:
            if host not in self._row:
                self._row[host] = row
                row += 1
        return row

    def _place(self, level: int) -> None:
        """Spread the switches of a level over the height, ordered by the mean position of the nodes that they are
        linked to."""
        mine = {index for index, box in enumerate(self._made.boxes) if box.level == level}
        both_ways = (*self._made.links, *((other, one) for one, other in self._made.links))
        linked = gathered((here, self._row[there]) for here, there in both_ways if here in mine and there in self._row)
        middle = {index: sum(linked[index]) / len(linked[index]) if index in linked else 0.0 for index in mine}
        for place, index in enumerate(sorted(mine, key=lambda index: (middle[index], index))):
            self._row[index] = int((place + 0.5) * self.rows / len(mine))

    # --- cables ---------------------------------------------------------------------------------------------------

    def links(self) -> Iterator[tuple[str, str]]:
        """Yield class and path of the cables: lines, rails with their branches, dots where these meet."""
        paths: dict[str, list[str]] = {}
        for line in self._lines:
            paths.setdefault("link trunk" if line.trunk else "link", []).append(self._line(line))
        used: dict[int | None, int] = {}
        for rail in self._rails:
            level = self._made.boxes[rail.above[0]].level
            used[level] = used.get(level, 0) + 1
            x = self._left[level] + self._widths[level] + _GAP // 4 + used[level] * _BETWEEN
            paths.setdefault("rail trunk" if rail.trunk else "rail", []).append(self._rail(rail, x))
            meets = (f"M{x} {self._middle(index)}h0" for index in (*rail.above, *rail.below))
            paths.setdefault("dots", []).append("".join(meets))
        for name, drawn in paths.items():
            yield name, "".join(drawn)

    def _middle(self, index: int) -> int:
        return self.top_of(self._row[index]) + BOX // 2

    def _line(self, line: MapLine) -> str:
        near, far = self._made.boxes[line.one].level, self._made.boxes[line.other].level
        y, there = self._middle(line.one), self._middle(line.other)
        x = self._left[near]
        if near == far:  # within a level: a bow on the left of it
            bow = min(_BOW, 20 + abs(there - y) // 4)
            return f"M{x} {y}C{x - bow} {y} {x - bow} {there} {x} {there}"
        return f"M{x + self._widths[near]} {y}L{self._left[far]} {there}"

    def _rail(self, rail: Rail, x: int) -> str:
        above, below = (self._made.boxes[some[0]].level for some in (rail.above, rail.below))
        ends = [self._middle(index) for index in (*rail.above, *rail.below)]
        right = self._left[above] + self._widths[above]
        branches = [f"M{right} {self._middle(index)}H{x}" for index in rail.above]
        branches += [f"M{x} {self._middle(index)}H{self._left[below]}" for index in rail.below]
        return f"M{x} {min(ends)}V{max(ends)}" + "".join(branches)


def caption(box: Box) -> str:
    """Return the text of a box: its names and, if it stands for several ports, their number."""
    return (f"{box.count:,}: " if box.count > 1 else "") + ", ".join(box.names)


def _tag(made: FabricMap, colouring: Colouring) -> int:
    return max(_TAG, *(text_width(box.looks.by(colouring)) + 6 for box in made.boxes), 0)
