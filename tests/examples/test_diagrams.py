"""The diagrams of docs/architecture.md hold against the code: what they name exists, and their arrows are its
imports."""

from __future__ import annotations

import ast
import html
import itertools
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.made.diagrams import FOLDER, Diagram, read
from tests.examples.pages import ROOT

CODE = ROOT / "ibkeys"
DESCRIPTIONS = sorted(FOLDER.glob("*.dot"))
HOUSE = FOLDER / "house.dot"
each_diagram = pytest.mark.parametrize("description", DESCRIPTIONS, ids=lambda path: path.stem)


@cache
def imports_of(file: Path) -> frozenset[Path]:
    """Return the files of ibkeys/ that *file* imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ibkeys":
            base = ROOT.joinpath(*node.module.split("."))
            found |= {each for name in node.names for each in candidates(base / name.name)} or set(candidates(base))
            found |= set(candidates(base))
    return frozenset(found)


def candidates(path: Path) -> Iterator[Path]:
    for each in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if each.exists():
            yield each


def files_of(paths: tuple[str, ...]) -> set[Path]:
    """Return the Python files of these paths below ibkeys/; a room or module may be given without .py."""
    found: set[Path] = set()
    for path in paths:
        whole = CODE / path
        found |= set(whole.rglob("*.py")) if whole.is_dir() else {whole if whole.suffix else whole.with_suffix(".py")}
    return found


def imports(start: tuple[str, ...], end: tuple[str, ...]) -> bool:
    ends = files_of(end)
    return any(imports_of(file) & ends for file in files_of(start))


@each_diagram
def test_each_box_stands_for_files_that_exist(description: Path) -> None:
    for paths in read(description.read_text()).boxes.values():
        for path in paths:
            assert (CODE / path).exists() or (CODE / f"{path}.py").exists(), path


@each_diagram
def test_each_solid_arrow_is_an_import(description: Path) -> None:
    diagram = read(description.read_text())
    assert diagram.imports
    for start, end in diagram.imports:
        assert imports(diagram.boxes[start], diagram.boxes[end]), f"{start} does not import {end}"


@each_diagram
def test_the_picture_was_drawn_from_its_description(description: Path) -> None:
    diagram = read(description.read_text())
    titles = ElementTree.parse(description.with_suffix(".svg")).iterfind(".//{http://www.w3.org/2000/svg}title")
    drawn = {html.unescape(title.text or "") for title in titles}
    wanted = {*diagram.boxes, *(f"{start}->{end}" for start, end in diagram.imports | diagram.flows)}
    assert wanted <= drawn, "make pictures draws it anew"
    assert {name for name in drawn if "->" in name} <= wanted, "make pictures draws it anew"


def rooms() -> set[str]:
    """Return the names of all rooms and of the modules beside them that are layers of their own."""
    return {path.name for path in CODE.iterdir() if (path / "__init__.py").exists()}


def test_every_room_is_in_exactly_one_box_of_the_house() -> None:
    named = list(itertools.chain.from_iterable(read(HOUSE.read_text()).boxes.values()))
    assert len(named) == len(set(named))
    assert set(named) >= rooms()


def above(diagram: Diagram, start: str) -> set[str]:
    """Return the boxes that *start* may import from, by the arrows."""
    found: set[str] = set()
    left = [start]
    while left:
        box = left.pop()
        ends = {end for begin, end in diagram.imports if begin == box} - found
        found |= ends
        left += ends
    return found


def test_no_box_of_the_house_imports_against_the_arrows() -> None:
    diagram = read(HOUSE.read_text())
    for start, end in itertools.permutations(diagram.boxes, 2):
        if imports(diagram.boxes[start], diagram.boxes[end]):
            assert end in above(diagram, start), f"{start} imports {end}"


def test_import_linter_holds_the_same_boxes() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    boxes = next(each for each in contracts if each["name"] == "Boxes of docs/architecture.md")
    layers = [
        {name.strip().removeprefix("ibkeys.") for name in layer.replace("|", ":").split(":")}
        for layer in boxes["layers"]
    ]
    diagram = read(HOUSE.read_text())
    level = {name: number for number, layer in enumerate(layers) for name in layer}
    for start, end in diagram.imports:
        for upper, lower in itertools.product(diagram.boxes[start], diagram.boxes[end]):
            assert level[upper] < level[lower], f"{upper} is not above {lower}"
