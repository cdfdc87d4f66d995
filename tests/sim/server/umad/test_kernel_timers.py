"""How late the kernel's timers end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from ibkeys.sim.server.umad.kernel_timers import latest_end

TICK = 1 / 250


@pytest.mark.parametrize(
    ("seconds", "late"),
    [(0.02, 1), (0.2, 1), (0.248, 1), (0.252, 8), (1.0, 8), (2.012, 8), (2.016, 64), (16.124, 64), (16.128, 512)],
)
def test_a_timer_is_as_late_as_its_level_of_the_wheel(seconds: float, late: int) -> None:
    """The numbers are those of LVL_START and LVL_GRAN, at 250 ticks in a second."""
    assert latest_end(seconds) == pytest.approx(seconds + late * TICK)


@given(integers(1, 600_000))
def test_no_timer_is_early_or_later_than_by_an_eighth(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert seconds < latest_end(seconds) <= 64 / 63 * 9 / 8 * seconds + 2 * TICK
