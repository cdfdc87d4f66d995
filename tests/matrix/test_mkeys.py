"""The table of M_Keys by own Sets: no cell overwrites what somebody else did, and each has a way to a whole site."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crashpoints.shim import compiled, drive, folder_in_memory
from tests.matrix.mkeys_driver import OPERATIONS, SINCE, cells

DRIVER = Path(__file__).with_name("mkeys_driver.py")
SAMPLE = (
    "deploy/between Sets/another rotates/back",
    "deploy/between Sets/another deploys/on",
    "rotate/between Sets/another sets a level/on",
    "rotate/before the first Set/ports moved/on",
    "deploy/before the first Set/key store lost/on",
)
"""Cells of `make test`; `make soak` makes all."""


def prove(names: Sequence[str], folder: Path) -> None:
    with folder_in_memory() as memory:
        drive(compiled(folder), DRIVER, memory, *names)


def test_a_sample_of_cells(tmp_path: Path) -> None:
    assert set(SAMPLE) <= set(cells())
    prove(SAMPLE, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("since", SINCE)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_cell(operation: str, since: str, tmp_path: Path) -> None:
    prove([name for name in cells() if name.startswith(f"{operation}/") and f"/{since}/" in name], tmp_path)
