"""Holds what says the end of a packet against the walker, over random fabrics, until every cell has its packets.

A cell: what became of the packet and at which kind of port, its membership, and the reading of the inbound check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from itertools import product
from typing import Final

from ibkeys.sim.subnet import Subnet
from tests.routes.answers import CELLS, Answers, Cell, NotReached, answer_of, cell_of
from tests.routes.drawn import Drawn, drawn_nets, drawn_packets
from tests.routes.physical import read
from tests.routes.plain import Reading
from tests.routes.shown import shown
from tests.routes.walker import walk

READINGS: Final[tuple[Reading, ...]] = ("partition", "membership")
LMCS: Final = (0, 1, 2, 3)
PACKETS: Final = 250
"""How many packets are drawn for each fabric."""
Filled = Counter[tuple[Cell, str, Reading]]


def compare(
    answers_in: Callable[[Subnet], Answers], fabrics: Iterable[Drawn], each: int, cells: Collection[Cell] = CELLS
) -> Filled:
    """Compare in one of *fabrics* after the other until each of *cells* has *each* packets; return how many it has.

    *answers_in*: makes of a subnet what says the end of its packets. Raises AssertionError at the first packet of which
    it says something else than the walker; ValueError if the fabrics do not fill the cells. A packet of which the
    walker does not know the end is left out.
    """
    filled: Filled = Counter()
    empty: set[tuple[Cell, str, Reading]] = {*product(cells, ("full", "limited"), READINGS)}
    for number, (random, net) in enumerate(fabrics):
        fabric, answers = read(net), answers_in(net)
        for packet in drawn_packets(random, net, PACKETS):
            for reading in READINGS:
                way = walk(fabric, packet, reading)
                expected = answer_of(way)
                if expected is None:
                    continue
                cell = cell_of(fabric, expected), "full" if packet.p_key & 0x8000 else "limited", reading
                if filled[cell] >= each:
                    continue
                try:
                    found = answers(packet, reading)
                except NotReached:
                    continue
                assert found == expected, f"fabric {number}, {packet}, {reading}: {found}; walker:\n{shown(way)}"
                filled[cell] += 1
                if filled[cell] == each:
                    empty.discard(cell)
        if not empty:
            return filled
    raise ValueError(f"the fabrics leave cells without {each} packets: {sorted(empty)}")


def is_noticed(answers_in: Callable[[Subnet], Answers]) -> bool:
    """Return whether `compare` finds a difference for some LMC: so a mutant is caught."""
    for lmc in reversed(LMCS):
        try:
            compare(answers_in, drawn_nets(lmc), 200)
        except AssertionError:
            return True
    return False
