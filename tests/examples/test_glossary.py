"""Each word of docs/glossary.md is carried by a class or a command that exists."""

from __future__ import annotations

import importlib
import re

import pytest

from ibkeys.cli import GROUPS
from tests.examples.pages import DOCS

ROWS = re.findall(r"^\| ([^|]+) \| [^|]+ \| `([^`]+)` \|$", (DOCS / "glossary.md").read_text(), re.M)


@pytest.mark.parametrize(("word", "carrier"), ROWS, ids=[word for word, _ in ROWS])
def test_a_word_is_carried_by_what_exists(word: str, carrier: str) -> None:
    if carrier.startswith("ibkeys "):
        assert carrier.removeprefix("ibkeys ") in {name for group in GROUPS.values() for name in group}
    else:
        module, _, name = carrier.rpartition(".")
        assert hasattr(importlib.import_module(module), name)


def test_no_word_is_there_twice() -> None:
    words = [each for word, _ in ROWS for each in word.split(", ")]
    assert len(words) == len(set(words))
    assert (
        len(ROWS)
        == len([line for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("| ")]) - 2
    )
