"""Fat trees of many sizes, served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus
from tests.fattree import fat_tree

PARTS = {
    "6 hosts": fat_tree(2, 3, 1, cores=1, radix=36),
    "150 hosts": fat_tree(5, 15, 5, pods=2, cores=3, radix=36),
}
"""Net files of parts of a fat tree of 36-port switches."""

LARGE = {"648 hosts": "ft648.net", "2048 hosts": "ft2048.net"}


def fabric(size: str, folder: Path) -> Path:
    """Return the net file of a fabric of that size."""
    if size in PARTS:
        path = folder / "part.net"
        path.write_text(PARTS[size])
        return path
    found = [file for file in corpus.files("fabrics/*.net") if file.name == LARGE[size]]
    return found[0] if found else pytest.fail(f"no corpus of IBKEYS_CORPUS has {LARGE[size]}")
