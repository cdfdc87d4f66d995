"""The walker on the routes of the real OpenSM: ibtracert goes the same way, and the simulator's packets end there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from ibkeys.dumps.importing import import_files
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.sim.nodes import SimPort
from ibkeys.topology.forwarding import follow
from tests.fabricsim import tool
from tests.integration.routed import ENGINES, LMCS, Engine, FabricName, Routed, engine_in_force, routed
from tests.reach.routed import lids_of
from tests.routes.answers import CELLS
from tests.routes.compared import READINGS, compare
from tests.routes.drawn import with_tables
from tests.routes.followed import Followed
from tests.routes.physical import place_of, read
from tests.routes.plain import QP0, Fabric, Packet, Port
from tests.routes.simulated import Simulator
from tests.routes.walker import walk
from tests.sample import SOAK, sampled

ROWS: Final[dict[str, tuple[FabricName, Engine, int]]] = {
    f"{fabric}, {engine}, LMC {lmc}": (fabric, engine, lmc)
    for fabric, engines in ENGINES.items()
    for engine, lmc in product(engines, LMCS)
}
SAMPLE = ("fat-tree, ftree, LMC 0", "fat-tree, ftree, LMC 1", "fat-tree, updn, LMC 3", "ring-router, dfsssp, LMC 2")
WITHOUT_ROUTES: Final = {("fat-tree", "updn"), ("fat-tree", "ftree"), ("ring-router", "dfsssp")}
"""Where some LIDs have no route: of a fat tree between switches of the upper levels, and with dfsssp to a router."""
NO_ROUTE: Final = ("can't reach to/from ports", "can't find a route")
"""What ibtracert says then."""
PAIRS: Final = 100 if SOAK else 20
"""The pairs of end ports between which routes are traced, in both directions."""
EACH: Final = 250 if SOAK else 5
"""The packets of each cell in each row: with four LMCs a thousand for each engine."""
STOPPED_OR_PASSED: Final = [cell for cell in CELLS if cell != "lost"]
"""Packets are lost by some engines only (see `WITHOUT_ROUTES`)."""


class Link(NamedTuple):
    """A link of a route: the egress port, and the LIDs, from the base LID on, and ingress port of the next node."""

    egress: int
    lids: tuple[int, int]
    ingress: int


Route = tuple[tuple[int, int], list[Link]]
"""The LIDs of the sender, and the links."""


@pytest.mark.parametrize("name", sampled(ROWS, SAMPLE))
def test_ibtracert_goes_where_the_walker_goes(name: str) -> None:
    kind, engine, lmc = ROWS[name]
    random = Random(name)
    with routed(kind, engine, lmc) as made:
        assert made.engine == engine_in_force(engine, lmc)
        net, fabric = made.served.net, read(made.served.net)
        ends = [port for node in net.nodes for port in node.end_ports if port.lid]
        assert {port.lmc for port in ends if not port.node.is_switch} == {lmc}
        assert {port.lmc for port in ends if port.node.is_switch} == {0, lmc}
        pairs = [tuple(random.sample(ends, 2)) for _ in range(PAIRS)]
        asked = [
            (source, random.choice(lids_of(to))) for one, other in pairs for source, to in ((one, other), (other, one))
        ]
        home = net.attach_port(net.nodes[0])

        def is_traceable(source: SimPort, lid: int) -> bool:
            """Whether there is a route, and ibtracert gets at both ends from where it runs."""
            return None not in (walked(fabric, *each) for each in ((source, lid), (home, source.lid), (home, lid)))

        has_route = [each for each in asked if is_traceable(*each)]
        assert traced(made, has_route) == [walked(fabric, *each) for each in has_route]
        without = [(one, to.lid) for one, to in product(ends, ends) if walked(fabric, one, to.lid) is None]
        assert bool(without) == ((kind, made.engine) in WITHOUT_ROUTES)
        for source, lid in random.sample(without, min(3, len(without))):
            done = made.served.run(["ibtracert", "-t", "20", str(source.lid), str(lid)])
            assert done.returncode != 0
            assert any(words in done.stderr for words in NO_ROUTE), done.stdout + done.stderr


@pytest.mark.parametrize("engine", ENGINES["fat-tree"])
def test_with_lmc_one_port_has_several_routes(engine: Engine) -> None:
    with routed("fat-tree", engine, 2) as made:
        fabric, ends = read(made.served.net), [node.ports[1] for node in made.served.net.nodes if not node.is_switch]
    routes = [walked(fabric, ends[0], lid) for lid in lids_of(ends[-1])]
    assert len(routes) == 4
    assert any(route != routes[0] for route in routes[1:])


@pytest.mark.parametrize("name", sampled(ROWS, SAMPLE))
def test_packets_end_where_the_walker_ends(name: str) -> None:
    with routed(*ROWS[name]) as made:
        pass
    for answers_in in (Simulator, Followed):
        filled = compare(answers_in, with_tables(made.served.net), EACH, STOPPED_OR_PASSED)
        assert all(filled[cell] >= EACH for cell in product(STOPPED_OR_PASSED, ("full", "limited"), READINGS))


@pytest.mark.parametrize("name", sampled(ROWS, SAMPLE[:1]))
def test_the_tables_of_dump_fts_give_the_routes_of_a_sweep(name: str, tmp_path: Path) -> None:
    with routed(*ROWS[name]) as made:
        made.served.run(["ibnetdiscover", "--cache", tmp_path / "cache"], check=True)
        (tmp_path / "tables").write_text(made.served.run(["dump_fts"], check=True).stdout)
    with tool(made.served.net) as fabric:
        swept = fabric.sweep()
        fabric.read_routes(swept, combinations(list(swept.end_ports()), 2))
    imported = import_files([tmp_path / "cache", tmp_path / "tables"], Fingerprints(bytes(32))).fabric
    tables = {node.guid: node.forwarding or {} for node in imported.nodes}
    assert all((node.forwarding or {}).items() <= tables[node.guid].items() for node in swept.nodes)
    ends = [port for port in imported.end_ports() if port.lid]
    for source, to in product(ends, ends):
        expected = follow(swept.port_of(f"0x{source.guid:016x}"), to.lid or 0)
        found = follow(source, to.lid or 0)
        assert (found.end, [hop.node.guid for hop in found.hops]) == (
            expected.end,
            [hop.node.guid for hop in expected.hops],
        )


def traced(made: Routed, asked: Sequence[tuple[SimPort, int]]) -> list[Route]:
    """Return what ibtracert prints of the routes from end ports to LIDs."""
    file = made.served.folder / "pairs"
    file.write_text("".join(f"{source.lid} {lid}\n" for source, lid in asked))
    done = made.served.run(["ibtracert", "-t", "20000", "--ports-file", file], check=True)
    assert done.stderr == ""
    routes = list(_printed(done.stdout))
    assert len(routes) == len(asked)
    return routes


def _printed(text: str) -> Iterator[Route]:
    """Yield each route: a line that begins with From, one line for each link, and one that begins with To."""
    for block in re.findall(r"^From .*\n(?:\[.*\n)*To .*\n", text, re.MULTILINE):
        first, *links, last = block.splitlines()
        route = [
            Link(int(egress), (int(base), int(top)), int(ingress))
            for line in links
            for egress, ingress, base, top in re.findall(r"^\[(\d+)\] -> .*\}\[(\d+)\] lid (\d+)-(\d+) ", line)
        ]
        assert len(route) == len(links), block
        assert _lids_in(last) == (route[-1].lids if route else _lids_in(first)), block
        yield _lids_in(first), route


def _lids_in(line: str) -> tuple[int, int]:
    found = re.search(r" lid (\d+)-(\d+) ", line)
    assert found is not None, line
    return int(found[1]), int(found[2])


def walked(fabric: Fabric, source: SimPort, lid: int) -> Route | None:
    """Return the walker's route of an SMP from an end port to a LID; None for an SMP that is lost."""
    way = walk(fabric, Packet(place_of(source), lid, 0, qp=QP0), "partition")
    if way.verdict.outcome == "lost":
        return None
    assert way.verdict.outcome == "delivered"
    links = []
    for hop, following in pairwise(way.hops):
        assert hop.out_port is not None
        assert following.in_port is not None
        node = fabric.nodes[following.node]
        end = node.ports[0 if node.kind == "switch" else following.in_port]
        links.append(Link(hop.out_port, _lids_of(end), following.in_port))
    return _lids_of(fabric.port(place_of(source))), links


def _lids_of(port: Port) -> tuple[int, int]:
    return port.lid, port.lid + 2**port.lmc - 1
