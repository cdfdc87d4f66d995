"""The map of a fabric as SVG: levels of switches from left to right, hosts on the right, one line for each box.

The file has one colouring. The page has all colourings in one picture; three radio buttons choose, without a script. A
letter or word in the box repeats the meaning of its colour.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from ibkeys.audit.findings import SEVERITIES
from ibkeys.audit.pictures.fabric_map import CLEAN, NO_KEY, UNREAD, Colouring, FabricMap
from ibkeys.audit.pictures.key_sets import letter
from ibkeys.audit.pictures.map_plan import BOX, EDGE, ROW, MapLayout, caption
from ibkeys.audit.pictures.svg import broken, element, file_of, fitting, picture, text

FILLS: Final = ("#9fd3f5", "#f5c66b", "#7fd1b0", "#f3ec8f", "#e3b3cd", "#f0a27a", "#b7b7f0")
"""For sets of P_Keys; after Okabe and Ito, light enough for black letters."""
REST: Final = "#d5d5d5"
_COLOURED: Final = 3 * len(FILLS)
"""Sets with a colour of their own, or with another outline; after that, only the letter distinguishes them."""
_LEVELS: Final[Mapping[str, str]] = {NO_KEY: "#f0a27a", "0": "#f5c66b", "1": "#f3ec8f", "2": "#9fd3f5", "3": "#7fd1b0"}
_SEVERITIES: Final[Mapping[str, str]] = dict(
    zip(map(str, SEVERITIES), ("#f28b82", "#f5b07a", "#f3dc8f", "#b9d4f0", "#d9dde2"), strict=True)
)

_SHEET: Final = 1.35
"""The height of a sheet of A4 divided by its width."""

_BASE: Final = """
.map { --page: #ffffff; --text: #191d22; --line: #9aa5b1; --clear: #eef2f5; }
@media screen and (prefers-color-scheme: dark) {
  .map { --page: #14171a; --text: #e9ecef; --line: #55606b; --clear: #c9d1d8; }
}
.map .page { fill: var(--page); }
.map text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #111111; } .map text.out { fill: var(--text); }
.map .box { fill: var(--clear); stroke: #4f5a65; } .map path { stroke: var(--line); fill: none; }
.map .link { opacity: .6; } .map .trunk { stroke-width: 2.5; }
.map .dots { stroke-width: 6; stroke-linecap: round; }
"""


def map_svg(made: FabricMap, colouring: Colouring) -> str:
    """Return the map as an SVG file with one colouring, below the meaning of each of its words."""
    used = {box.looks.by(colouring) for box in made.boxes}
    entries = [entry for entry in made.legend[colouring] if entry[0] in used]
    entries += [("", made.left_out)] if made.left_out else []
    width = MapLayout(made, [colouring]).width - 100
    shown = [
        (word if at == 0 else "", line) for word, meaning in entries for at, line in enumerate(broken(meaning, width))
    ]
    plan = MapLayout(made, [colouring], 2 * EDGE + ROW * len(shown))
    parts = [
        element("style", _BASE + fill_style(made, colouring, ".map")),
        element("rect", class_="page", width=plan.width, height=plan.height),
        *_legend(shown, colouring),
        *_drawing(made, plan, [colouring], range(plan.rows)),
    ]
    return file_of(_svg(parts, plan.width, plan.height, made))


def map_part(made: FabricMap) -> str:
    """Return the map, with all colourings, for a page that has `map_style`. The map is several SVGs, one below the
    other. Each is as high as a sheet of paper, so that no page break cuts a box in two.
    """
    colourings = list(made.legend)
    plan = MapLayout(made, colourings)
    sheet = int(plan.width * _SHEET) // ROW
    starts = range(0, plan.rows, sheet)
    return "".join(_sheet(made, plan, range(first, min(first + sheet, plan.rows))) for first in starts)


def _sheet(made: FabricMap, plan: MapLayout, rows: range) -> str:
    first, last = rows[0] == 0, rows[-1] == plan.rows - 1
    top = 0 if first else plan.top_of(rows[0]) - (ROW - BOX) // 2
    foot = plan.height if last else plan.top_of(rows[-1] + 1) - (ROW - BOX) // 2
    ground = element("rect", class_="page", y=top, width=plan.width, height=foot - top)
    drawing = _drawing(made, plan, list(made.legend), rows)
    return _svg([ground, *drawing], plan.width, foot - top, made, top)


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
    """Return the style rules with the fills of one colouring, for boxes within *scope*."""
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


def _drawing(made: FabricMap, plan: MapLayout, colourings: Sequence[Colouring], rows: Container[int]) -> Iterator[str]:
    """Yield the cables, and the boxes in some *rows* with their names; a box has the class and the word of each of
    *colourings*."""
    for name, path in plan.links():
        yield element("path", class_=name, d=path)
    for index, box in enumerate(made.boxes):
        if plan.row(index) not in rows:
            continue
        x, y, width = plan.place(index)
        classes = " ".join(["box", *(class_of(each, box.looks.by(each)) for each in colourings)])
        title = element("title", text(fitting(caption(box), 3000)))
        yield element("rect", title, class_=classes, x=x, y=y, width=width, height=BOX, rx=3)
        for each in colourings:
            yield element("text", text(box.looks.by(each)), class_=f"tag {each}", x=x + 5, y=y + 12)
        yield element("text", text(fitting(caption(box), width - plan.tag - 14)), x=x + plan.tag + 8, y=y + 12)


def _legend(entries: Sequence[tuple[str, str]], colouring: Colouring) -> Iterator[str]:
    for index, (word, meaning) in enumerate(entries):
        y = EDGE + index * ROW
        if word:
            yield element("rect", class_=f"box {class_of(colouring, word)}", x=EDGE, y=y, width=64, height=BOX, rx=3)
            yield element("text", text(word), x=EDGE + 5, y=y + 12)
        yield element("text", text(meaning), class_="out", x=EDGE + 72, y=y + 12)


def class_of(colouring: Colouring, word: str) -> str:
    """Return the CSS class of boxes that show *word*. A word without a colour has a class too, but no style rule."""
    return f"{colouring[0]}-{ {UNREAD: 'unread', CLEAN: 'clean'}.get(word, word) }"


def _svg(parts: Sequence[str], width: int, height: int, made: FabricMap, top: int = 0) -> str:
    switches = sum(box.level is not None for box in made.boxes)
    hosts = sum(box.count for box in made.boxes if box.level is None)
    return picture("map", parts, width, height, f"{switches} switches and {hosts} ports behind them", top)
