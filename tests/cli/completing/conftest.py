"""A cache of one's own, and a completion in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.cli import COMPLETE_VARIABLE, PROG_NAME, main
from ibkeys.cli.completing.shells import Bash

Complete = Callable[[str], list[str]]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of ibkeys in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ibkeys"


@pytest.fixture
def complete(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Return what bash is offered for a line with the cursor at its end: words, or ``file`` and ``dir``."""

    def offered(line: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", line)
        return [
            each.removeprefix("plain,") for each in Bash(main, {}, PROG_NAME, COMPLETE_VARIABLE).complete().split("\n")
        ]

    return offered
