"""The packets of `why` go where the walker goes, and stop where it stops."""

from __future__ import annotations

from itertools import product

import pytest

from tests.routes.answers import CELLS
from tests.routes.compared import LMCS, READINGS, compare
from tests.routes.drawn import drawn_nets
from tests.routes.followed import Followed
from tests.sample import SOAK

EACH = 1000 if SOAK else 20
"""The packets of each cell, for each LMC."""


@pytest.mark.parametrize("lmc", LMCS)
def test_a_packet_ends_where_the_walker_ends(lmc: int) -> None:
    filled = compare(Followed, drawn_nets(lmc), EACH)
    assert all(filled[cell] >= EACH for cell in product(CELLS, ("full", "limited"), READINGS))
