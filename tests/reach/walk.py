"""What packets do on every route that a fabric could have, by rules written here once more.

Nothing of `ibkeys.reach`, `ibkeys.keys` or `ibkeys.sim.packets` has a part in it: the simulated nodes only say which
cables there are, which entries the tables have, and which ports check. A route passes no switch twice; the one there
and the one back have nothing to do with each other (IBA 10.9.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import product
from typing import NamedTuple

from ibkeys.sim.nodes import SimNode, SimPort

Truth = frozenset[bool]
"""Both where routes, or tables that cannot be read, decide."""
Keys = frozenset[int]


class Seen(NamedTuple):
    """What two ports can do: packets and answers, packets from the first, packets from the second."""

    can_talk: Truth
    a_to_b: Truth
    b_to_a: Truth


def _match(one: int, other: int) -> bool:
    return one & 0x7FFF == other & 0x7FFF != 0 and bool((one | other) & 0x8000)


def _same_base(one: int, other: int) -> bool:
    return one & 0x7FFF == other & 0x7FFF != 0


class Walk:
    """Packets in the fabric of *nodes*. ``by_membership``: the strict reading of the inbound check. ``hidden``: switch
    ports of which nobody knows what they check: they stop everything, or nothing."""

    def __init__(self, nodes: Iterable[SimNode], *, by_membership: bool, hidden: Collection[SimPort] = ()) -> None:
        self.nodes = list(nodes)
        self.inbound_rule = _match if by_membership else _same_base
        self.hidden = hidden
        self.every = frozenset(key for node in self.nodes for port in node.end_ports for key in port.p_keys)
        self._carried: dict[SimNode, dict[SimNode, set[Keys]]] = {}

    def pair(self, a: SimPort, b: SimPort) -> Seen:
        """Return what two different end ports can do."""
        there, back = self._delivered(a, b), self._delivered(b, a)
        return Seen(
            frozenset(any(_match(*keys) for keys in product(one, other)) for one, other in product(there, back)),
            frozenset(map(bool, there)),
            frozenset(map(bool, back)),
        )

    def _delivered(self, source: SimPort, destination: SimPort) -> set[Keys]:
        """Return with which P_Keys packets arrive and are taken, for each route."""
        start, at_start = self._home(source)
        end, at_end = self._home(destination)
        sent = frozenset(key for key in source.p_keys if any(_match(key, each) for each in destination.p_keys))
        return {
            after & sent
            for before in self._past(at_start, "in", self.every)
            for carried in self._from(start)[end]
            for after in self._past(at_end, "out", before & carried)
        }

    @staticmethod
    def _home(port: SimPort) -> tuple[SimNode, SimPort | None]:
        if port.node.is_switch:
            return port.node, None
        assert port.peer is not None
        return port.peer.node, port.peer

    def _from(self, start: SimNode) -> dict[SimNode, set[Keys]]:
        if start not in self._carried:
            self._carried[start] = {node: set() for node in self.nodes if node.is_switch}
            self._follow(start, self.every, {start}, self._carried[start])
        return self._carried[start]

    def _follow(self, at: SimNode, keys: Keys, passed: set[SimNode], found: dict[SimNode, set[Keys]]) -> None:
        found[at].add(keys)
        ways: dict[SimNode, set[Keys]] = {}
        for port in at.ports[1:]:
            peer = port.peer
            if peer is not None and peer.node.is_switch and peer.node not in passed:
                for sent in self._past(port, "out", keys):
                    ways.setdefault(peer.node, set()).update(self._past(peer, "in", sent))
        for other, options in ways.items():
            for each in options:
                self._follow(other, each, passed | {other}, found)

    def _past(self, port: SimPort | None, way: str, keys: Keys) -> set[Keys]:
        """Return the P_Keys whose packets get past a switch port."""
        if port is None:
            return {keys}
        if port in self.hidden:
            return {keys, frozenset()}
        node = port.node
        assert node.switch_info is not None
        told = (port.info[43] >> (3 if way == "in" else 2)) & 1
        can = (node.switch_info[14 + 2] >> (7 if way == "in" else 6)) & 1
        tables = int.from_bytes(node.switch_info[14:16], "big")
        if not (told and can and tables):
            return {keys}
        rule: Callable[[int, int], bool] = self.inbound_rule if way == "in" else _match
        return {frozenset(key for key in keys if any(rule(key, entry) for entry in port.p_keys))}
