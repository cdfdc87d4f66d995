"""Who could talk, after every Set."""

from __future__ import annotations

from itertools import permutations

from ibkeys.keys.pkey import match_inbound
from ibkeys.mad.const import Method
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.packets import INBOUND, OUTBOUND, allows, enforces
from ibkeys.sim.server.outbox import PassedMad
from ibkeys.sim.subnet import Subnet

Pairs = frozenset[tuple[str, str]]


def passes(net: Subnet, source: SimPort, destination: SimPort, key: int) -> bool:
    """Whether a packet gets there: what `ibkeys.sim.packets.carry` asks of both leaf ports and of the receiver.

    Links between switches do not enforce here, and no counter moves and no trap is sent.
    """
    first, last = source.peer, destination.peer
    is_let_in = (
        first is None or not enforces(first, INBOUND) or match_inbound(key, first.p_keys, net.inbound_check) is not None
    )
    is_let_out = last is None or not enforces(last, OUTBOUND) or allows(last, key)
    return is_let_in and is_let_out and allows(destination, key)


def talking(net: Subnet) -> Pairs:
    """Return the pairs of end ports that get packets to each other both ways in one partition."""
    ends = [port for node in net.nodes for port in node.end_ports]
    ways = {
        (str(one), str(other), key & 0x7FFF)
        for one, other in permutations(ends, 2)
        for key in one.p_keys
        if key & 0x7FFF and passes(net, one, other, key)
    }
    return frozenset((a, b) for a, b, base in ways if (b, a, base) in ways)


class History:
    """Who could talk after each Set."""

    def __init__(self, net: Subnet) -> None:
        self.net = net
        self.states: list[Pairs] = []
        self.is_due = False

    def look(self, *_: object) -> None:
        self.states.append(talking(self.net))

    def watch(self, seen: PassedMad) -> None:
        """Look once a Set has arrived: the next MAD is its answer, or comes after it."""
        if self.is_due:
            self.look()
        self.is_due = seen.out and seen.mad[3] == Method.SET

    def check(self, before: Pairs, after: Pairs) -> int:
        """Return how many Sets there were, none of which cut who may talk before and after, or joined others."""
        for number, state in enumerate(self.states):
            assert before & after <= state, f"cut after Set {number}: {sorted((before & after) - state)}"
            assert state <= before | after, f"joined after Set {number}: {sorted(state - before - after)}"
        number, self.states = len(self.states), []
        return number
