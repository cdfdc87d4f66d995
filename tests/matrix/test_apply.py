"""The table of applies and undos by own Sets: no cell overwrites what somebody else did, and each has a way out."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.crashpoints.shim import compiled, drive, folder_in_memory
from tests.matrix.apply_driver import KINDS, SINCE, WAYS, cells
from tests.sample import sampled

DRIVER = Path(__file__).with_name("apply_driver.py")
SAMPLE = (
    "apply/before Set 9/set by hand/new",
    "apply/before Set 11/port gone/back",
    "undo/after Set 5/ports moved/back",
    "apply/after Set 6/journal lost/back",
)
"""Cells of `make test`; `make soak` makes all, those of all moments in one process."""
ROWS = (*SAMPLE, *map("/*/".join, itertools.product(KINDS, map("/".join, itertools.product(SINCE, WAYS)))))


@pytest.mark.parametrize("row", sampled(ROWS, SAMPLE))
def test_cells(row: str, tmp_path: Path) -> None:
    kind, moment, rest = row.split("/", 2)
    names = [name for name in cells() if name == row or (moment == "*" and name.split("/", 2)[::2] == [kind, rest])]
    assert names
    with folder_in_memory() as memory:
        drive(compiled(tmp_path), DRIVER, memory, *names)
