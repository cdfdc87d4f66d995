"""Every single swap of two cables and every re-plug of one end, on fabrics whose every port is protected at level 2.

Whatever moved, no port is sent the key of another, and none is asked without its own: no violation, no lease, no trap.
What is connected to the own node by links that nobody touched is read, as far as anything can prove it. In `make test`
a named sample; with IBKEYS_SOAK=1 all cases of the small fabrics and a seeded sample of the larger ones, and a line
that counts what was read.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Final

import pytest

import ibkeys
from ibkeys.sim import routing
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from tests.corpus import files, label
from tests.fabricsim import move_cable, swap_cables
from tests.protectedsim import (
    Rewind,
    end_port,
    keep_counters,
    listen,
    protect_all,
    provoked,
    reached,
    sm_sweeps,
)
from tests.sample import SOAK, in_soak

FEW_LINKS: Final = 30
FEW, VERY_FEW = (1_000_000, 25) if SOAK else (8, 1)
"""Cases of each kind: of a fabric with no more links than that, and of a larger one."""

FABRICS = list({file.stem: file for file in files("fabrics/*.net") if file.stat().st_size < 60_000}.values())
SAMPLE = ("two-switch", "dual-home", "ring-router")


@dataclass(frozen=True)
class Known:
    """What the tool knows and who is there. ``counters``: each link's LinkDownedCounter was kept with it, as in the key
    store; else nothing but OpenSM's files. ``sa``: an SM lives, and its SA answers."""

    name: str
    counters: bool
    sa: bool

    def __str__(self) -> str:
        return self.name


KNOWN = [
    Known("store", counters=True, sa=False),
    Known("store-and-sa", counters=True, sa=True),
    Known("files-and-sa", counters=False, sa=True),
    Known("files", counters=False, sa=False),
]

WAYS = [(known, swept) for known in KNOWN for swept in (False, True)]


class Site:
    """A fabric on which one case after the other is tried, and how they went."""

    def __init__(self, file: Path, known: Known, swept: bool) -> None:
        self.net = net = Subnet.from_file(file)
        self.known = known
        self.swept = swept
        self.home = net.attach_port(net.nodes[0])
        manager = net.nodes[-1]
        if known.sa:
            net.set_sm(manager)
        self.sm_port = net.attach_port(manager)
        chance = random.Random(10)
        for node in net.nodes:
            for port in node.all_ports:
                if port.peer is not None and (known.counters or known.sa):
                    port.count("link_downed_counter", chance.randrange(4))
        self.ring = protect_all(net)
        if known.counters:
            keep_counters(net, self.ring)
        for node in net.nodes:
            if node.is_switch:
                routing.forwarding_table(node)
        net.events.clear()
        self.rewind = Rewind(net)
        self.links = sorted(
            (
                (port, port.peer)
                for node in net.nodes
                for port in node.all_ports
                if port.peer is not None and (node.index, port.number) < (port.peer.node.index, port.peer.number)
            ),
            key=lambda link: (link[0].node.index, link[0].number),
        )
        self.free = [port for node in net.nodes for port in node.all_ports if port.number and port.peer is None]
        self.count: Counter[str] = Counter()
        self.failures: list[str] = []

    def swaps(self) -> Iterator[partial[None]]:
        for (one, _), (other, _) in combinations(self.links, 2):
            yield partial(swap_cables, one, other, self.net)

    def replugs(self) -> Iterator[partial[None]]:
        """Every end of every cable to every free port. Free ports of one switch differ in nothing but their number: the
        first of them is taken whatever is known, each other one with one of the `WAYS`."""
        turn = WAYS.index((self.known, self.swept))
        seen: Counter[SimNode] = Counter()
        free = []
        for port in self.free:
            if not seen[port.node] or seen[port.node] % len(WAYS) == turn:
                free.append(port)
            seen[port.node] += 1
        for link in self.links:
            for kept in reversed(link):
                for port in free:
                    yield partial(move_cable, kept, port, self.net)

    def few(self, cases: Iterator[partial[None]]) -> list[partial[None]]:
        listed = list(cases)
        count = FEW if len(self.links) <= FEW_LINKS else VERY_FEW
        return listed if len(listed) <= count else random.Random(len(listed)).sample(listed, count)

    def attempt(self, change: partial[None]) -> None:
        """One case: change the cables, perhaps let an SM sweep, look, judge, go back."""
        net = self.net
        before = {port: port.peer for node in net.nodes for port in node.all_ports}
        change()
        if self.swept:
            sm_sweeps(net, self.sm_port)
        wire = listen(net)
        with ibkeys.open(net, local=ibkeys.Local(port=self.home.number), timing=ibkeys.Timing(0.1)) as fabric:
            fabric.ring = self.ring
            found = fabric.sweep()
        what = f"{change.func.__name__} {', '.join(map(str, change.args[1:]))}"
        self.failures += [f"{what}: {wrong}" for wrong in (*wire.strays(), *provoked(net))]
        untouched = reached(self.home, lambda port: before[port] is port.peer)
        read = self.read(found)
        self.count["cases"] += 1
        self.count["ports"] += len(reached(self.home))
        self.count["read"] += len(read)
        self.count["untouched"] += len(untouched)
        missing = untouched - read
        self.count["untouched, not read"] += len(missing)
        self.count["cases with such a port"] += bool(missing)
        if missing:
            lost = missing & self.provable(before)
            self.count["of these only the table speaks against"] += len(lost)
            if lost and not (self.swept and self.only_the_table_objects(found)):
                self.failures.append(f"{what}: not read {lost}")
        self.rewind()

    def read(self, found: Topology) -> set[SimPort]:
        net = self.net
        by_guid = {node.guid: node for node in net.nodes}
        return {by_guid[port.node.guid].ports[port.num] for port in found.ports() if port.info is not None}

    def provable(self, before: dict[SimPort, SimPort | None]) -> set[SimPort]:
        """What is connected by links that nobody touched and that can be proven: by an SA that answers, or by a counter
        that is as it was kept and that its agent tells."""
        sa = self.known.sa and self.answers(self.sm_port)
        counters = self.known.counters or not self.known.sa

        def is_proven(near: SimPort) -> bool:
            told = sa or (counters and self.answers(end_port(near.node, near.number)))
            return before[near] is near.peer and told

        return reached(self.home, is_proven)

    def only_the_table_objects(self, found: Topology) -> bool:
        """Without an SA a forwarding table that sends the expected LID elsewhere is believed: a new parallel cable."""
        return not self.known.sa and any("the switch routes its LID " in trouble.error for trouble in found.troubles)

    def answers(self, port: SimPort) -> bool:
        """Whether a GMP gets from the local port to *port*, and its answer back."""
        return routing.hops(self.home, port.lid)[1] is port and routing.hops(port, self.home.lid)[1] is self.home


@pytest.mark.parametrize("swept", [False, True], ids=["unswept", "swept"])
@pytest.mark.parametrize("known", KNOWN, ids=str)
@pytest.mark.parametrize("file", [file if file.stem in SAMPLE else in_soak(file) for file in FABRICS], ids=label)
def test_no_moved_cable_leads_a_key_astray_or_a_question_without_one(file: Path, known: Known, swept: bool) -> None:
    site = Site(file, known, swept)
    for kind in (site.swaps, site.replugs):
        for change in site.few(kind()):
            site.attempt(change)
    print(f"\n{label(file)} {known} {'swept' if swept else 'unswept'}: {dict(site.count)}")
    assert site.failures == []
