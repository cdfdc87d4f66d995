"""A loopback whose process is killed, at any point, leaves no write that the next start does not put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crashpoints.shim import compiled, drive, folder_in_memory

DRIVER = Path(__file__).with_name("loopback_crash_driver.py")
SAMPLE = 5
"""Points under `make test`; under `make soak` all of them."""


def kill(library_folder: Path, most: int) -> tuple[int, int]:
    """Kill the writes at *most* points, 0 for all; return at how many a write stood, and how many there were."""
    with folder_in_memory() as folder:
        stood, points = drive(compiled(library_folder), DRIVER, folder, most).split()
    return int(stood), int(points)


def test_what_a_kill_at_a_point_of_the_sample_leaves_is_put_back_by_the_next_start(tmp_path: Path) -> None:
    stood, points = kill(tmp_path, SAMPLE)
    assert 0 < stood < points <= SAMPLE


@pytest.mark.soak
def test_what_a_kill_at_any_point_leaves_is_put_back_by_the_next_start(tmp_path: Path) -> None:
    stood, points = kill(tmp_path, 0)
    assert points > 500
    assert 0 < stood < points
