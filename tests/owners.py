"""Files of other users: only root gives a file away, so other users leave them as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root gives files away")
OWNER, GROUP = (12, 34) if IS_ROOT else (os.geteuid(), os.getegid())
"""Whose a file is that was given away: nobody's in particular."""


def give_away(path: Path) -> None:
    """Give a file to `OWNER` and `GROUP`."""
    os.chown(path, OWNER, GROUP)


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Let this user not search *folder*; root, who may search any, is another user meanwhile."""
    folder.chmod(0)
    if IS_ROOT:
        os.seteuid(OWNER)
    try:
        yield
    finally:
        if IS_ROOT:
            os.seteuid(0)
        folder.chmod(0o700)
