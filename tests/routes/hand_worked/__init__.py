"""Packets whose way was worked out by hand, each with the words from which the answer follows."""

from __future__ import annotations

from typing import Final

from tests.routes.hand_worked.between_switches import BETWEEN_SWITCHES
from tests.routes.hand_worked.case import Case
from tests.routes.hand_worked.end_port import END_PORT
from tests.routes.hand_worked.leaf import LEAF
from tests.routes.hand_worked.lmc import LMC
from tests.routes.hand_worked.port_0 import PORT_0
from tests.routes.hand_worked.routes import ROUTES

CASES: Final[list[Case]] = [*END_PORT, *LEAF, *BETWEEN_SWITCHES, *PORT_0, *ROUTES, *LMC]
