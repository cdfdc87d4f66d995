"""Which pairs of ports gained or lost reach between two fabrics, computed by groups of ports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, InboundCheck
from ibkeys.reach.reach import Reach, StandingSet
from ibkeys.reach.routes import numbers_in
from ibkeys.topology.matching import match_key, unseen_end_ports
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

ReachChange = Literal["gained", "lost", "one-way-gained", "one-way-lost", "unknown"]
"""The kinds of change of a pair: it can talk now, or could talk before; packets pass in one direction only now, or did
before.

A pair that could talk and is one-way now has both ``lost`` and ``one-way-gained``. ``unknown``: the pair may have
changed, because in one of the fabrics the route decides.
"""


@dataclass(frozen=True, slots=True)
class Gain:
    """A change of reach between all ports of ``a`` and all ports of ``b``. If the two lists are equal, it is between
    each two ports of the list.

    ``pairs``: the number of pairs. A one-way change is from ``a`` to ``b``. The ports are those of the later fabric.
    """

    change: ReachChange
    a: list[Port]
    b: list[Port]
    pairs: int


@dataclass(frozen=True, slots=True)
class ReachComparison:
    """The changes of reach between two fabrics. Only ports that both fabrics have are compared.

    ``changes``: by groups of ports with the same change. ``unread``: ports whose reach is not known in one of the two
    fabrics, and ports that are in one fabric only and may have been missed in the other. ``virtualized``: ports that
    had or have virtual ports. The P_Keys of virtual ports cannot be read, so ``changes`` has only the changes by the
    tables that were read. ``between``: the ports on links between switches that make pairs unknown. ``came`` and
    ``went``: the ports that surely are only in the later or only in the earlier fabric; they are in no pair.
    """

    changes: list[Gain]
    unread: list[Port]
    virtualized: list[Port]
    between: list[Port]
    came: list[Port]
    went: list[Port]

    @property
    def is_partly_unknown(self) -> bool:
        """Whether ports may have gained or lost reach that is not in ``changes``."""
        return bool(self.unread or self.virtualized or self.count("unknown"))

    @property
    def differs(self) -> bool:
        """Whether some pair changed, or a port came or went, for sure."""
        return self.pairs_differ or bool(self.came or self.went)

    @property
    def pairs_differ(self) -> bool:
        """Whether some pair changed, for sure."""
        return any(each.change != "unknown" for each in self.changes)

    def count(self, change: ReachChange) -> int:
        """Return how many pairs have a change. For one-way changes, (a, b) and (b, a) count separately."""
        return sum(each.pairs for each in self.changes if each.change == change)


def compare_reach(
    before: Topology, after: Topology, *, inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK
) -> ReachComparison:
    """Return the changes between two fabrics: the pairs that can talk in only one fabric, and the pairs that are
    one-way in only one fabric.
    """
    ports = list(after.end_ports())
    number = {match_key(port): at for at, port in enumerate(ports)}

    def place(port: Port) -> int | None:
        return number.get(match_key(port))

    old, new = (Reach(each, place, inbound_check=inbound_check) for each in (before, after))
    old_ports = {match_key(port): port for port in before.end_ports()}
    groups: dict[tuple[StandingSet, StandingSet], list[Port]] = {}
    unread, comparable = [], 0
    for at, port in enumerate(ports):
        if match_key(port) not in old_ports:
            continue
        profiles = old.standings_of(old_ports[match_key(port)]), new.standings_of(port)
        if profiles[0] is None or profiles[1] is None:
            unread.append(port)
        else:
            groups.setdefault((profiles[0], profiles[1]), []).append(port)
            comparable |= 1 << at
    unseen = [*unseen_end_ports(before, after), *unseen_end_ports(after, before)]
    unread += unseen
    unsure = {match_key(port) for port in unseen}
    came = [port for port in ports if match_key(port) not in old_ports and match_key(port) not in unsure]
    went = [port for key, port in old_ports.items() if key not in number and key not in unsure]
    hiding = {match_key(port) for each in (old, new) for port in each.virtualized}
    virtualized = [port for port in ports if match_key(port) in hiding and match_key(port) in old_ports]
    changes: list[Gain] = []
    left = comparable
    for (was, now), members in groups.items():
        could, can = old.reached(was), new.reached(now)
        own = sum(1 << number[match_key(port)] for port in members)
        left &= ~own  # each pair is found once, by the group that comes first
        found: tuple[tuple[ReachChange, int], ...] = (
            ("gained", can.both & ~could.both & ~could.unknown & (left | own)),
            ("lost", could.both & ~can.both & ~can.unknown & (left | own)),
            # each order of a pair is found once, by the group of the sender; in one group both orders are alike
            ("one-way-gained", can.to & ~could.to & ~could.unknown & comparable),
            ("one-way-lost", could.to & ~can.to & ~can.unknown & comparable),
            ("unknown", (could.unknown | can.unknown) & (left | own)),
        )
        for change, others in found:
            changes += _gains(change, members, own, others, ports)
    is_unknown = any(each.change == "unknown" for each in changes)
    return ReachComparison(changes, unread, virtualized, _deciding(old, new) if is_unknown else [], came, went)


def _deciding(*reaches: Reach) -> list[Port]:
    """Return the ports on links between switches that stop packets, or were not read; each port once for both
    fabrics."""
    found = (port for reach in reaches for port in reach.deciding())
    return list({(port.node.guid, port.num): port for port in found}.values())


def _gains(change: ReachChange, members: list[Port], own: int, found: int, ports: list[Port]) -> Iterator[Gain]:
    """Yield the changes of the ports *members*, among themselves and with other ports. *own*: *members* as a set."""
    if found & own and len(members) > 1:
        yield Gain(change, members, members, len(members) * (len(members) - 1) // 2)
    others = [ports[at] for at in numbers_in(found & ~own)]
    if others:
        yield Gain(change, members, others, len(members) * len(others))
