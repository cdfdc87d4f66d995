"""A small subnet without keys, to deploy them on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mkeys.rollout import Site, site_of


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return site_of("two-switch", tmp_path)
