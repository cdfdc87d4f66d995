"""What all tests of hands need: a journal, a policy file, and no container around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.store.journal import Journal
from tests.sm.hands.there import outside_a_container


@pytest.fixture(autouse=True)
def _outside_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    outside_a_container(monkeypatch)


@pytest.fixture
def journal() -> Iterator[Journal]:
    with Journal(None) as journal:
        yield journal


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An empty policy file with an owner's mode, in a folder of its own."""
    path = tmp_path / "etc" / "partitions.conf"
    path.parent.mkdir()
    path.touch()
    path.chmod(0o640)
    return path
