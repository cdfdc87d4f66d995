"""Which pairs of ports gained or lost reach between two fabrics, without looking at pairs one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ibkeys.fabric.model import Fabric, Port
from ibkeys.fabric.reach import Profile, Reach, places
from ibkeys.fabric.unseen import PortKey, port_key, unseen_end_ports

Change = Literal["gained", "lost"]


@dataclass(frozen=True, slots=True)
class Gain:
    """All ports of ``a`` with all of ``b`` (each with each other where the two are the same list) gained or lost reach.

    ``pairs``: how many pairs that is. The ports are those of the later fabric.
    """

    change: Change
    a: list[Port]
    b: list[Port]
    pairs: int


@dataclass(frozen=True, slots=True)
class ReachComparison:
    """``changes``: by groups of ports that went the same way. ``unread``: ports of which one of the two cannot say,
    those among them that only one of the two has seen and the other may have missed.

    Only ports that both fabrics have are compared: who came or went has no reach to gain or lose.
    """

    changes: list[Gain]
    unread: list[Port]

    def count(self, change: Change) -> int:
        """Return how many pairs gained, or lost, reach."""
        return sum(each.pairs for each in self.changes if each.change == change)


def compare_reach(before: Fabric, after: Fabric) -> ReachComparison:
    """Return which pairs of end ports can talk in *after* and could not in *before*, and the other way round."""
    ports = list(after.end_ports())
    number = {port_key(port): at for at, port in enumerate(ports)}

    def place(port: Port) -> int | None:
        return number.get(port_key(port))

    old, new = Reach(before, place), Reach(after, place)
    old_ports = {port_key(port): port for port in before.end_ports()}
    groups: dict[tuple[Profile, Profile], list[Port]] = {}
    unread, comparable = [], 0
    for at, port in enumerate(ports):
        profiles = _profiles(old, new, old_ports, port)
        if profiles is None:
            unread.append(port)
        elif profiles:
            groups.setdefault(profiles, []).append(port)
            comparable |= 1 << at
    unread += [*unseen_end_ports(before, after), *unseen_end_ports(after, before)]
    changes: list[Gain] = []
    left = comparable
    for (was, now), members in groups.items():
        could, can = old.reachable(was) & left, new.reachable(now) & left
        own = sum(1 << number[port_key(port)] for port in members)
        left &= ~own  # each pair is found once, by the group that comes first
        for change, found in (("gained", can & ~could), ("lost", could & ~can)):
            changes += _gains(change, members, own, found, ports)  # type: ignore[arg-type]
    return ReachComparison(changes, unread)


def _gains(change: Change, members: list[Port], own: int, found: int, ports: list[Port]) -> Iterator[Gain]:
    """Yield what the ports *members*, as a set *own*, gained or lost: among themselves, and with later ones."""
    if found & own and len(members) > 1:
        yield Gain(change, members, members, len(members) * (len(members) - 1) // 2)
    others = [ports[at] for at in places(found & ~own)]
    if others:
        yield Gain(change, members, others, len(members) * len(others))


def _profiles(
    old: Reach, new: Reach, old_ports: dict[PortKey, Port], port: Port
) -> tuple[Profile, Profile] | tuple[()] | None:
    """Return a port's profiles before and after; () for one that was not there, None where one could not be read."""
    former = old_ports.get(port_key(port))
    if former is None:
        return ()
    before, after = old.profile(former), new.profile(port)
    return (before, after) if before is not None and after is not None else None
