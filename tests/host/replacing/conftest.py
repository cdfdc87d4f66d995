"""Files are replaced in temporary folders, wherever those are."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.host.replacing import hindrances
from tests.host.replacing.helpers import OLD


@pytest.fixture(autouse=True)
def _outside_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no folder pass for the layer of a container: the tests may run in one."""
    monkeypatch.setattr(hindrances, "kind_of_mount", lambda number: "ext4")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy"
    path.write_bytes(OLD)
    path.chmod(0o640)
    return path
