"""The lab of a test that needs no subnet of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mkeys.repair.lab import Lab, small


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return small(tmp_path)
