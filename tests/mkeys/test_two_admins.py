"""Two administrators with two stores, whose commands die at any point: no key is lost, no change undone by another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crashpoints.shim import compiled, drive, folder_in_memory

DRIVER = Path(__file__).with_name("two_admins_driver.py")
STEPS = 14
SAMPLE = range(1, 2)
"""The sequence under `make test`, a seed; `make soak` makes 500."""
ROW = 50
"""Sequences of one test of `make soak`."""


def make(seeds: range, folder: Path) -> None:
    with folder_in_memory() as memory:
        drive(compiled(folder), DRIVER, memory, STEPS, *seeds)


def test_a_sample_of_sequences(tmp_path: Path) -> None:
    make(SAMPLE, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1, 501, ROW))
def test_every_sequence(first: int, tmp_path: Path) -> None:
    make(range(first, first + ROW), tmp_path)
