"""The simulator's packets and SMPs go where the walker goes, and stop where it stops."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from ibkeys.sim import routing
from tests.routes.answers import CELLS
from tests.routes.compared import LMCS, READINGS, compare
from tests.routes.drawn import drawn_nets, drawn_packets
from tests.routes.physical import read
from tests.routes.plain import QP0
from tests.routes.simulated import Simulator
from tests.routes.walker import walk
from tests.sample import SOAK

EACH = 1000 if SOAK else 20
"""The packets of each cell, for each LMC."""


@pytest.mark.parametrize("lmc", LMCS)
def test_a_packet_ends_where_the_walker_ends(lmc: int) -> None:
    filled = compare(Simulator, drawn_nets(lmc), EACH)
    assert all(filled[cell] >= EACH for cell in product(CELLS, ("full", "limited"), READINGS))


@pytest.mark.parametrize("lmc", LMCS)
def test_an_smp_ends_where_the_walker_ends(lmc: int) -> None:
    """No port checks it, and it passes links that are at least Initialize."""
    ends: Counter[str] = Counter()
    for random, net in drawn_nets(lmc, 200 if SOAK else 20):
        fabric = read(net)
        for packet in drawn_packets(random, net, 50):
            way = walk(fabric, replace(packet, qp=QP0), "partition")
            if way.verdict.outcome != "unknown":
                found = routing.by_lid(net.port(*packet.source), packet.destination_lid)
                last = way.hops[-1]
                expected = None if way.verdict.outcome == "lost" else (last.node, last.in_port)
                if len(way.hops) == 1 and expected is not None:  # from a port to itself
                    expected = packet.source
                assert expected == (None if found is None else (found[0].node_id, found[1])), f"{packet}: {way}"
                ends[way.verdict.outcome] += 1
    assert min(ends["delivered"], ends["lost"]) >= 10
