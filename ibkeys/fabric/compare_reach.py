"""Which pairs of ports gained or lost reach between two fabrics, without looking at pairs one by one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Literal

from ibkeys.fabric.compare import PortKey, port_key
from ibkeys.fabric.model import Fabric, Port
from ibkeys.fabric.reach import Profile, Reach, pair_count


@dataclass(frozen=True, slots=True)
class Gain:
    """All ports of ``a`` with all of ``b`` (each with each other where the two are the same list) gained or lost reach.

    ``pairs``: how many pairs that is. The ports are those of the later fabric.
    """

    change: Literal["gained", "lost"]
    a: list[Port]
    b: list[Port]
    pairs: int


@dataclass(frozen=True, slots=True)
class ReachComparison:
    """``changes``: by groups of ports that went the same way. ``unread``: ports of which one of the two cannot say.

    Only ports that both fabrics have are compared: who came or went has no reach to gain or lose.
    """

    changes: list[Gain]
    unread: list[Port]

    def count(self, change: Literal["gained", "lost"]) -> int:
        """Return how many pairs gained, or lost, reach."""
        return sum(each.pairs for each in self.changes if each.change == change)


def compare_reach(before: Fabric, after: Fabric) -> ReachComparison:
    """Return which pairs of end ports can talk in *after* and could not in *before*, and the other way round."""
    old, new = Reach(before), Reach(after)
    old_ports = {port_key(port): port for port in before.end_ports()}
    groups: dict[tuple[Profile, Profile], list[Port]] = {}
    unread = []
    for port in after.end_ports():
        profiles = _profiles(old, new, old_ports, port)
        if profiles is None:
            unread.append(port)
        elif profiles:
            groups.setdefault(profiles, []).append(port)
    changes: list[Gain] = []
    for (x, xs), (y, ys) in combinations_with_replacement(groups.items(), 2):
        could, can = old.can_talk(x[0], y[0]), new.can_talk(x[1], y[1])
        if could != can and (pairs := pair_count(xs, ys)):
            changes.append(Gain("gained" if can else "lost", xs, ys, pairs))
    return ReachComparison(changes, unread)


def _profiles(
    old: Reach, new: Reach, old_ports: dict[PortKey, Port], port: Port
) -> tuple[Profile, Profile] | tuple[()] | None:
    """Return a port's profiles before and after; () for one that was not there, None where one could not be read."""
    former = old_ports.get(port_key(port))
    if former is None:
        return ()
    before, after = old.profile(former), new.profile(port)
    return (before, after) if before is not None and after is not None else None
