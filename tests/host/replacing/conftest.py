"""Files are replaced in temporary folders, wherever those are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.replacing.helpers import OLD


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy"
    path.write_bytes(OLD)
    path.chmod(0o640)
    return path
