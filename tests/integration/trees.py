"""Fat trees of many sizes, served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus
from tests.fattree import fat_tree

PARTS = {"6 hosts": (1, 2, 1, 1, 3), "150 hosts": (2, 5, 5, 3, 15)}
"""Parts of a fat tree, as `fat_tree` wants them."""


LARGE = {"648 hosts": "ft648.net", "2048 hosts": "ft2048.net"}


def fabric(size: str, folder: Path) -> Path:
    """Return the net file of a fabric of that size."""
    if size in PARTS:
        path = folder / "part.net"
        path.write_text(fat_tree(*PARTS[size]))
        return path
    found = [file for file in corpus.files("fabrics/*.net") if file.name == LARGE[size]]
    return found[0] if found else pytest.fail(f"no corpus of IBKEYS_CORPUS has {LARGE[size]}")
