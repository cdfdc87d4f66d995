"""The three made-up hosts of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.smkeys.madeup import MadeUpSite


@pytest.fixture
def three(tmp_path: Path) -> MadeUpSite:
    return MadeUpSite(tmp_path)
