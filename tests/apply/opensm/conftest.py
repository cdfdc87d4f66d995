"""A made-up OpenSM with a policy, and a place to change it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apply.opensm.bench import OLD, Bench
from tests.apply.opensm.madeup import MadeUpOpensm


@pytest.fixture
def opensm() -> MadeUpOpensm:
    return MadeUpOpensm(OLD)


@pytest.fixture
def bench(opensm: MadeUpOpensm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench(opensm, monkeypatch, tmp_path)
