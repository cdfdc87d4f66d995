"""A release, made once for all tests here, and a bare Debian to try it in."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tests.packages.made import made


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what `make release` makes of the last commit."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # one for all processes of this run
        folder = folder.parent
    folder /= "release"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return folder / "dist" if (folder / "dist" / "SHA256SUMS").exists() else made(folder)
