"""The map of a fabric as SVG: levels of switches from left to right, hosts on the right, one line for each box.

The file is coloured in one way. The page has all colourings in one picture; three radio buttons choose, without a
script. What a colour says stands in the box as a letter or a word too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ibkeys.audit.findings import SEVERITIES
from ibkeys.audit.pictures.fabric_map import CLEAN, NO_KEY, UNREAD, Box, Colouring, FabricMap
from ibkeys.audit.pictures.key_sets import letter
from ibkeys.audit.pictures.svg import element, fitting, text, text_width

FILLS: Final = ("#9fd3f5", "#f5c66b", "#7fd1b0", "#f3ec8f", "#e3b3cd", "#f0a27a", "#b7b7f0")
"""For sets of P_Keys; after Okabe and Ito, light enough for black letters."""
REST: Final = "#d5d5d5"
_COLOURED: Final = 3 * len(FILLS)
"""Sets with a colour of their own, or with another outline; after that, the letter alone tells."""
_LEVELS: Final[Mapping[str, str]] = {NO_KEY: "#f0a27a", "0": "#f5c66b", "1": "#f3ec8f", "2": "#9fd3f5", "3": "#7fd1b0"}
_SEVERITIES: Final[Mapping[str, str]] = dict(
    zip(map(str, SEVERITIES), ("#f28b82", "#f5b07a", "#f3dc8f", "#b9d4f0", "#d9dde2"), strict=True)
)

_ROW: Final = 20
_BOX: Final = 16
_SWITCH: Final = 190
_HOSTS: Final = 380
_GAP: Final = 90
_EDGE: Final = 12
_TAG: Final = 30
"""Least room for the word of a colouring."""
_LISTED: Final = 30
"""Sets of P_Keys that the legend of a file explains."""

_BASE: Final = """
.map { --page: #ffffff; --text: #191d22; --line: #9aa5b1; --clear: #eef2f5; }
@media screen and (prefers-color-scheme: dark) {
  .map { --page: #14171a; --text: #e9ecef; --line: #55606b; --clear: #c9d1d8; }
}
.map .page { fill: var(--page); }
.map text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #111111; } .map text.out { fill: var(--text); }
.map .box { fill: var(--clear); stroke: #4f5a65; } .map .link { stroke: var(--line); fill: none; opacity: .6; }
.map .trunk { stroke-width: 2.5; }
"""


def map_svg(made: FabricMap, colouring: Colouring) -> str:
    """Return the map as an SVG file, coloured in one way."""
    plan = _Plan(made)
    legend = [entry for entry in made.legend[colouring] if entry[0] in {box.looks.by(colouring) for box in made.boxes}]
    more = len(legend) - _LISTED
    lines = legend[:_LISTED] + ([("", f"and {more:,} more sets of P_Keys")] if more > 0 else [])
    shown = [(word, fitting(meaning, plan.width - 100)) for word, meaning in lines]
    height = plan.height + _ROW * (len(shown) + bool(made.left_out)) + _EDGE
    parts = [
        element("style", _BASE + fill_style(made, colouring, ".map")),
        element("rect", class_="page", width=plan.width, height=height),
        *plan.links(),
        *plan.boxes([colouring]),
        *_legend(shown, colouring, plan.height),
    ]
    if made.left_out:
        parts.append(element("text", text(made.left_out), class_="out", x=_EDGE, y=height - _EDGE))
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _svg(parts, plan.width, height, made) + "\n"


def map_part(made: FabricMap) -> str:
    """Return the map as an element for a page that has `map_style`, with all colourings in it."""
    plan = _Plan(made)
    ground = element("rect", class_="page", width=plan.width, height=plan.height)
    return _svg([ground, *plan.links(), *plan.boxes(list(made.legend))], plan.width, plan.height, made)


def map_style(made: FabricMap) -> str:
    """Return the style of a page with `map_part`: ``#by-level:checked`` before ``.maps`` chooses that colouring."""
    parts = [_BASE, ".maps .tag, .meaning { display: none; }\n"]
    for colouring in made.legend:
        chosen = f"#by-{colouring}:checked ~ "
        parts.append(f"{chosen}.maps .tag.{colouring} {{ display: inline; }}\n")
        parts.append(f"{chosen}.meaning.{colouring} {{ display: block; }}\n")
        parts.append(fill_style(made, colouring, f"{chosen}*"))
    return "".join(parts)


def fill_style(made: FabricMap, colouring: Colouring, scope: str) -> str:
    """Return the fills of one colouring, for boxes within *scope*."""
    fills: dict[str, str] = {}
    if colouring == "partition":
        for index, _ in enumerate(made.legend[colouring][:_COLOURED]):
            turn, colour = divmod(index, len(FILLS))
            outline = ("", " stroke-dasharray: 4 2;", " stroke-width: 2.5;")[turn]
            fills[letter(index)] = f"fill: {FILLS[colour]};{outline}"
    else:
        colours = _LEVELS if colouring == "level" else _SEVERITIES
        fills = {word: f"fill: {colour};" for word, colour in colours.items()}
    rules = (f"{scope} .{class_of(colouring, word)} {{ {fill} }}\n" for word, fill in fills.items())
    return f"{scope} .{class_of(colouring, UNREAD)} {{ fill: #ffffff; stroke-dasharray: 2 3; }}\n" + "".join(rules)


class _Plan:
    """Where each box stands. The leaves stand beside their hosts, switches above them by those they are linked to."""

    def __init__(self, made: FabricMap) -> None:
        self._made = made
        levels = [box.level for box in made.boxes if box.level is not None]
        self._top = max(levels, default=0)
        self._hosts_x = _EDGE + (self._top + 1) * (_SWITCH + _GAP) if levels else _EDGE
        self.width = self._hosts_x + _HOSTS + _EDGE
        self._y: dict[int, float] = {}
        rows = self._place_leaves()
        most = max((levels.count(level) for level in set(levels)), default=0)
        self.height = 2 * _EDGE + _ROW * max(rows, most, 1)
        for level in range(1, self._top + 1):
            self._place(level)

    def _place_leaves(self) -> int:
        """Place the leaves and the hosts, and return how many lines that takes."""
        behind: dict[int, list[int]] = {}
        hosts = [index for index, box in enumerate(self._made.boxes) if box.level is None]
        for one, other in self._made.links:
            if self._made.boxes[other].level is None:
                behind.setdefault(one, []).append(other)
        row = 0
        for index, box in enumerate(self._made.boxes):
            if box.level == 0:
                mine = behind.get(index, [])
                for offset, host in enumerate(mine):
                    self._y[host] = _EDGE + (row + offset) * _ROW
                self._y[index] = _EDGE + (row + (max(len(mine), 1) - 1) / 2) * _ROW
                row += max(len(mine), 1)
        for host in hosts:
            if host not in self._y:
                self._y[host] = _EDGE + row * _ROW
                row += 1
        return row

    def _place(self, level: int) -> None:
        """Spread the switches of a level over the height, in the order of the middle of what they are linked to."""
        linked: dict[int, list[float]] = {}
        for one, other in self._made.links:
            for here, there in ((one, other), (other, one)):
                if self._made.boxes[here].level == level and there in self._y:
                    linked.setdefault(here, []).append(self._y[there])
        mine = [index for index, box in enumerate(self._made.boxes) if box.level == level]
        middle = {index: sum(linked[index]) / len(linked[index]) if index in linked else 0.0 for index in mine}
        step = (self.height - 2 * _EDGE) / len(mine)
        for place, index in enumerate(sorted(mine, key=lambda index: (middle[index], index))):
            self._y[index] = _EDGE + (place + 0.5) * step - _ROW / 2

    def _x(self, box: Box) -> int:
        return self._hosts_x if box.level is None else _EDGE + (self._top - box.level) * (_SWITCH + _GAP)

    def links(self) -> Iterator[str]:
        """Yield the cables: those between two boxes as one line, thicker where there are several between switches."""
        lines: dict[bool, list[str]] = {False: [], True: []}
        for (one, other), cables in self._made.links.items():
            near, far = self._made.boxes[one], self._made.boxes[other]
            if near.level is not None and far.level is not None and near.level < far.level:
                one, other, near, far = other, one, far, near
            y, there = (round(self._y[index] + _BOX / 2, 1) for index in (one, other))
            if near.level == far.level:  # within a level: a bow on the left of it
                x = self._x(near)
                line = f"M{x} {y:g}C{x - 40} {y:g} {x - 40} {there:g} {x} {there:g}"
            else:
                line = f"M{self._x(near) + _SWITCH} {y:g}L{self._x(far)} {there:g}"
            lines[cables > 1 and far.level is not None].append(line)
        for trunk, drawn in lines.items():
            if drawn:
                yield element("path", class_="link trunk" if trunk else "link", d="".join(drawn))

    def boxes(self, colourings: Sequence[Colouring]) -> Iterator[str]:
        """Yield the boxes with their names, and for each of *colourings* its class and its word."""
        room = {colouring: self._room(colouring) for colouring in colourings}
        widest = max(room.values(), default=0)
        for index, box in enumerate(self._made.boxes):
            x, y = self._x(box), round(self._y[index], 1)
            width = _HOSTS if box.level is None else _SWITCH
            classes = " ".join(["box", *(class_of(each, box.looks.by(each)) for each in colourings)])
            name = ", ".join(box.names)
            ports = f"{box.count:,}: " if box.count > 1 else ""
            title = element("title", text(fitting(f"{ports}{name}", 3000)))
            yield element("rect", title, class_=classes, x=x, y=f"{y:g}", width=width, height=_BOX, rx=3)
            for each in colourings:
                word = box.looks.by(each)
                yield element("text", text(word), class_=f"tag {each}", x=x + 5, y=f"{y + 12:g}")
            shown = fitting(f"{ports}{name}", width - widest - 14)
            yield element("text", text(shown), x=x + widest + 8, y=f"{y + 12:g}")

    def _room(self, colouring: Colouring) -> int:
        return max(_TAG, *(text_width(box.looks.by(colouring)) + 6 for box in self._made.boxes), 0)


def _legend(entries: Sequence[tuple[str, str]], colouring: Colouring, top: int) -> Iterator[str]:
    for index, (word, meaning) in enumerate(entries):
        y = top + index * _ROW
        if word:
            yield element("rect", class_=f"box {class_of(colouring, word)}", x=_EDGE, y=y, width=64, height=_BOX, rx=3)
            yield element("text", text(word), x=_EDGE + 5, y=y + 12)
        yield element("text", text(meaning), class_="out", x=_EDGE + 72, y=y + 12)


def class_of(colouring: Colouring, word: str) -> str:
    """Return the class of boxes that show *word*; what has no colour of its own has one too, and no rule."""
    return f"{colouring[0]}-{ {UNREAD: 'unread', CLEAN: 'clean'}.get(word, word) }"


def _svg(parts: Sequence[str], width: int, height: int, made: FabricMap) -> str:
    switches = sum(box.level is not None for box in made.boxes)
    hosts = sum(box.count for box in made.boxes if box.level is None)
    return element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="map",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=f"{switches} switches and {hosts} ports behind them",
    )
