"""A subnet of two switches."""

from __future__ import annotations

import pytest

from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA


@pytest.fixture
def subnet() -> Subnet:
    return Subnet.from_file(DATA / "fabrics" / "two-switch.net")
