"""Random small fabrics of any shape, with routes, P_Key tables and enforcement of any kind at any port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from random import Random

from ibkeys.keys.pkey import INBOUND_CHECKS
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.subnet import Subnet
from tests.fabricsim import set_enforcement_caps, set_p_key_capacity

KEYS = (0xFFFF, 0x7FFF, 0x8001, 0x0001, 0x8002)
Cables = list[tuple[int, int]]


def _tree(random: Random, count: int) -> Cables:
    return [(random.randrange(at), at) for at in range(1, count)]


def _ring(random: Random, count: int) -> Cables:
    return [*pairwise(range(count)), (count - 1, 0)] if count > 2 else [(0, 1)]


def _fat_tree(random: Random, count: int) -> Cables:
    spines = max(1, count // 3)
    return [
        (spine, leaf)
        for leaf in range(spines, count)
        for spine in range(spines)
        for _ in range(random.choice((1, 1, 2)))
    ]


def _torus(random: Random, count: int) -> Cables:
    wide, high = (3, 2) if count < 8 else (4, 2)
    across = [(y * wide + x, y * wide + (x + 1) % wide) for x, y in product(range(wide), range(high))]
    return [*across, *((x, wide + x) for x in range(wide))]


def _rings_on_a_tree(random: Random, count: int) -> Cables:
    return [*_tree(random, count), *((at, at - 2) for at in range(2, count) if random.random() < 0.3)]


SHAPES: dict[str, Callable[[Random, int], Cables]] = {
    "tree": _tree,
    "ring": _ring,
    "fat tree": _fat_tree,
    "torus": _torus,
    "rings on a tree": _rings_on_a_tree,
}


@dataclass(slots=True)
class RoutedNet:
    """A subnet with new routes on demand."""

    subnet: Subnet
    random: Random

    @property
    def switches(self) -> list[SimNode]:
        """All switches."""
        return [node for node in self.subnet.nodes if node.is_switch]

    @property
    def end_ports(self) -> list[SimPort]:
        """All ports with a LID."""
        return [port for node in self.subnet.nodes for port in node.end_ports]

    def scramble(self) -> None:
        """Give every port a table, and switch ports any enforcement: most switch ports let most packets pass."""
        random = self.random
        strict = random.random()
        for node in self.subnet.nodes:
            if node.is_switch:
                can = random.choice([(True, True)] * 4 + [(True, False), (False, True)])
                set_enforcement_caps(node, *can)
                set_p_key_capacity(node, enforcement_cap=random.choice((64, 64, 64, 0)))
            for port in node.end_ports:
                port.p_keys = random.choices(KEYS, k=random.randint(1, 3))
            for port in node.ports[1:] if node.is_switch else ():
                port.p_keys = random.choices((0, *KEYS), k=random.randint(1, 5)) if node.enforcement_capacity else []
                port.inbound_enforcement, port.outbound_enforcement = (
                    int(random.random() < 0.5 * strict) for _ in range(2)
                )
        self.subnet.inbound_check = random.choice(INBOUND_CHECKS)

    def route(self) -> None:
        """Give every LID routes that have nothing to do with each other: a random tree that leads to its port."""
        lids = [(port, lid) for port in self.end_ports for lid in lids_of(port)]
        size = max(lid for _, lid in lids) + 1
        tables = {switch: bytearray(b"\xff" * size) for switch in self.switches}
        for port, lid in lids:
            for switch, egress in self._tree_to(port):
                tables[switch][lid] = egress
        for switch, table in tables.items():
            switch.routes = table
            switch.touch()

    def _tree_to(self, port: SimPort) -> Iterator[tuple[SimNode, int]]:
        """Yield each switch, and the port by which it forwards what goes to *port*."""
        home = port.node if port.node.is_switch else port.peer.node if port.peer is not None else None
        assert home is not None
        yield home, 0 if port.peer is None else port.peer.number
        reached = {home}
        edge = _cables_at(home)
        deep = self.random.random() < 0.5  # long ways, as well as short ones
        while edge:
            near = edge.pop(-1 if deep and self.random.random() < 0.8 else self.random.randrange(len(edge)))
            assert near.peer is not None
            other = near.peer.node
            if other not in reached:
                reached.add(other)
                yield other, near.peer.number
                more = _cables_at(other)
                self.random.shuffle(more)
                edge += more


def lids_of(port: SimPort) -> range:
    """Return the LIDs of an end port."""
    return range(port.lid, port.lid + (1 << port.lmc))


def _cables_at(switch: SimNode) -> list[SimPort]:
    return [port for port in switch.ports[1:] if port.peer is not None and port.peer.node.is_switch]


def routed_net(random: Random, shape: str | None = None) -> RoutedNet:
    """Return a fabric of some shape, with hosts at any switch, of one port or of two."""
    count = random.randint(2, 8)
    cables = SHAPES[shape or random.choice(list(SHAPES))](random, count)
    count = 1 + max(max(cable) for cable in cables)
    used = dict.fromkeys(range(count), 0)

    def free(switch: int) -> int:
        used[switch] += 1
        return used[switch]

    links = [(f"S-{a}", free(a), f"S-{b}", free(b)) for a, b in cables if a != b]
    homes = [[random.randrange(count) for _ in range(random.choice((1, 1, 1, 2)))] for _ in range(random.randint(2, 5))]
    for number, at in enumerate(homes):
        links += [(f"H-{number}", port, f"S-{switch}", free(switch)) for port, switch in enumerate(at, 1)]
    lines = []
    for node, kind, ports in [(f"S-{at}", "Switch", used[at]) for at in used] + [
        (f"H-{number}", "Ca", len(at)) for number, at in enumerate(homes)
    ]:
        lines.append(f'{kind}\t{max(ports, 1)} "{node}"\t\t# "{node}"')
        lines += [f'[{p}]\t"{b}"[{q}]' for a, p, b, q in links if a == node]
        lines += [f'[{q}]\t"{a}"[{p}]' for a, p, b, q in links if b == node]
        lines.append("")
    made = RoutedNet(Subnet.from_text("\n".join(lines)), random)
    made.scramble()
    made.route()
    return made
