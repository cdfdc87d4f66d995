"""The lab and its journal. Tests of applying keep journals in files by the hundred; none of them cuts the power."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.store import sqlite
from ibkeys.store.paths import StorePaths
from tests.apply.lab import Lab, unsynced


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "connect", unsynced)


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def stores(tmp_path: Path) -> StorePaths:
    return StorePaths(None, tmp_path / "journal.db")
