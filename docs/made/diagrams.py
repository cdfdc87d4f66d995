"""The diagrams of docs/architecture.md: each is described in a file of docs/diagrams, and drawn by Graphviz.

    python -m docs.made.diagrams

A description names, as the tooltip of a box, the files and folders of ibkeys/ that it stands for; they are drawn small
in the box, as a page shows no tooltip of a picture in it. A solid arrow says
that one imports the other; a dashed one says what goes from one to the other. `tests/examples/test_diagrams.py` holds
both against the code.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import wrap

FOLDER = Path(__file__).parents[1] / "diagrams"
_BOX = re.compile(r'^  (\w+) \[label="([^"]+)" tooltip="([^"]+)"\]$', re.M)
_ARROW = re.compile(r"^  (\w+) -> (\w+)( \[style=dashed.*\])?$", re.M)
_LOOK = [
    "-Grankdir=TB",
    "-Gbgcolor=transparent",
    "-Gnodesep=0.25",
    "-Granksep=0.35",
    "-Nshape=box",
    "-Nstyle=filled",
    "-Nfontname=sans-serif",
    "-Nfontsize=13",
    "-Nmargin=0.12,0.07",
    "-Nfillcolor=#f1f3f5",
    "-Ncolor=#5a5c63",
    "-Efontname=sans-serif",
    "-Efontsize=11",
    "-Ecolor=#5a5c63",
    "-Earrowsize=0.7",
]
_STYLE = """<style>
.drawn { --ink: var(--color-foreground-primary, #1a1a1a); --box: var(--color-background-secondary, #f1f3f5);
  --line: var(--color-foreground-secondary, #5a5c63); }
@media (prefers-color-scheme: dark) {
  .drawn { --ink: var(--color-foreground-primary, #e4e6e8); --box: var(--color-background-secondary, #24262b);
    --line: var(--color-foreground-secondary, #a5a8b0); } }
.drawn text { fill: var(--ink); }
.drawn .node polygon { fill: var(--box); stroke: var(--line); }
.drawn .edge path { stroke: var(--line); }
.drawn .edge polygon { fill: var(--line); stroke: var(--line); }
</style>
"""


@dataclass(frozen=True)
class Diagram:
    """A description, read. ``boxes``: by name, with the paths below ibkeys/ that each stands for; ``imports``: the
    solid arrows; ``flows``: the dashed ones."""

    boxes: dict[str, tuple[str, ...]]
    imports: frozenset[tuple[str, str]]
    flows: frozenset[tuple[str, str]]


def read(text: str) -> Diagram:
    """Return what a description says."""
    arrows = [(match[1], match[2], match[3] is not None) for match in _ARROW.finditer(text)]
    return Diagram(
        {match[1]: tuple(match[3].split()) for match in _BOX.finditer(text)},
        frozenset((start, end) for start, end, is_flow in arrows if not is_flow),
        frozenset((start, end) for start, end, is_flow in arrows if is_flow),
    )


def draw(description: Path) -> str:
    """Return the SVG of a description. Raises OSError where Graphviz is not installed, CalledProcessError where it
    does not understand the description."""
    text = _BOX.sub(_with_paths, description.read_text())
    done = subprocess.run(["dot", "-Tsvg", *_LOOK], input=text, check=True, capture_output=True, text=True)
    svg = re.sub(r"<!--.*?-->\n?", "", done.stdout[done.stdout.index("<svg") :], flags=re.S)
    head, _, rest = svg.partition(">")
    width = re.search(r'width="(\d+)pt"', head)
    head = re.sub(r'(width|height)="\d+pt"\s*', "", head)
    size = f' class="drawn" width="{int(width[1]) * 4 // 3 if width else 600}" style="max-width: 100%; height: auto"'
    return f"{head}{size}>\n{_STYLE}{rest.lstrip()}"


def _with_paths(box: re.Match[str]) -> str:
    """Return the line of a box with its paths in the label, as many to a line as are about as wide as the label."""
    label = [escape(line) for line in box[2].split(r"\n")]
    paths = wrap(", ".join(box[3].split()), max(24, *map(len, label)), break_long_words=False, break_on_hyphens=False)
    small = "<BR/>".join(f'<FONT POINT-SIZE="10"><I>{line}</I></FONT>' for line in paths)
    return f'  {box[1]} [label=<{"<BR/>".join(label)}<BR/>{small}> tooltip="{box[3]}"]'


def main() -> None:
    """Draw every description of `FOLDER` anew, beside it."""
    for description in sorted(FOLDER.glob("*.dot")):
        description.with_suffix(".svg").write_text(draw(description))


if __name__ == "__main__":
    main()
