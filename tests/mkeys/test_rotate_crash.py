"""No crash and no failing disk, at any point of a run over a fabric, loses a key or leaves what cannot be finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.crashpoints.shim import compiled, drive, folder_in_memory
from tests.sample import in_soak, one_in

DRIVER = Path(__file__).with_name("crash_driver.py")
SAMPLE = 3
"""Points of each row under `make test`. Under `make soak`: all of them, and one in `STRIDE` with losses or a failing
disk, which multiply what the points without either show."""
STRIDE = 5


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("shim"))


class Points:
    """How many points each row has, counted once; and a folder for the driver."""

    def __init__(self, shim: Path, folder: Path) -> None:
        self._shim = shim
        self._folder = folder
        self._counts: dict[tuple[str, str], int] = {}
        self._runs = 0

    def count(self, what: str, drop: str) -> int:
        if (what, drop) not in self._counts:
            self._counts[what, drop] = int(self._drive(what, "kill", drop))
        return self._counts[what, drop]

    def break_at(self, what: str, mode: str, drop: str, points: Sequence[int]) -> None:
        self._drive(what, mode, drop, points)

    def sample(self, what: str, drop: str) -> range:
        count = self.count(what, drop)
        assert count > 500
        return range(0, count, count // (SAMPLE - 1))

    def _drive(self, what: str, mode: str, drop: str, points: Sequence[int] = ()) -> str:
        self._runs += 1
        return drive(self._shim, DRIVER, what, mode, drop, self._folder / str(self._runs), *points)


@pytest.fixture(scope="module")
def points(shim: Path) -> Iterator[Points]:
    with folder_in_memory() as folder:
        yield Points(shim, folder)


ROWS = [(what, drop) for what in ("deploy", "rotate", "remove", "abort", "resume") for drop in ("0", "0.1")]


@pytest.mark.parametrize(("what", "drop"), one_in(4, ROWS))
def test_after_a_kill_at_a_point_of_the_sample_the_run_is_finished(points: Points, what: str, drop: str) -> None:
    points.break_at(what, "kill", drop, points.sample(what, drop))


@pytest.mark.soak
@pytest.mark.parametrize(("what", "drop"), ROWS)
def test_after_a_kill_at_any_point_the_run_is_finished(points: Points, what: str, drop: str) -> None:
    points.break_at(what, "kill", drop, range(0, points.count(what, drop), 1 if drop == "0" else STRIDE))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("what", "mode"), [in_soak("deploy", "sync"), ("rotate", "full"), ("remove", "sync"), in_soak("abort", "full")]
)
def test_without_a_disk_no_set_leaves_whose_key_is_not_stored(points: Points, what: str, mode: str) -> None:
    points.break_at(what, mode, "0", points.sample(what, "0"))


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["full", "sync"])
@pytest.mark.parametrize("what", ["deploy", "rotate", "remove", "abort"])
def test_without_a_disk_from_any_point_on(points: Points, what: str, mode: str) -> None:
    points.break_at(what, mode, "0", range(0, points.count(what, "0"), STRIDE))
