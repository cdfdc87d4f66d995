"""Tests of applying keep journals in files by the hundred; none of them cuts the power."""

from __future__ import annotations

import pytest

from ibkeys.store import sqlite
from tests.policy.lab import unsynced


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_connect", unsynced)
