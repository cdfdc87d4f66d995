"""CONTRIBUTING.md keeps its word: each block of Python in it runs, and its tests pass. What it and docs/architecture.md
name is there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import cli as cli
from tests.mkeys.conftest import site as site

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "CONTRIBUTING.md"
MADE_LATER = {"dist/"}
NAMED = {
    path
    for page in (GUIDE, ROOT / "docs" / "architecture.md")
    for path in re.findall(r"`([\w.*-]+/[\w./*-]*)`", page.read_text())
}
BLOCKS = {
    title: block
    for section in re.split(r"^## ", GUIDE.read_text(), flags=re.M)[1:]
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S), 1)
    for title in [f"{section.splitlines()[0]} {number}"]
}


def test_it_has_the_patterns_that_it_promises() -> None:
    patterns = [f"Three tests to copy {number}" for number in (1, 2, 3)]
    assert [*BLOCKS] == [*patterns, "An attribute 1", "An audit rule 1"]


@pytest.mark.parametrize("title", BLOCKS)
def test_a_block_of_it_passes(title: str, request: pytest.FixtureRequest) -> None:
    space: dict[str, Any] = {"__name__": "copied"}
    exec(compile(BLOCKS[title], f"{GUIDE.name}: {title}", "exec"), space)
    tests = [each for name, each in space.items() if name.startswith("test_")]
    assert tests
    for each in tests:
        each(**{name: request.getfixturevalue(name) for name in inspect.signature(each).parameters})


@pytest.mark.parametrize("path", sorted(NAMED - MADE_LATER))
def test_what_it_names_is_there(path: str) -> None:
    assert any(any(root.glob(path.rstrip("/"))) for root in (ROOT, ROOT / "ibkeys"))
