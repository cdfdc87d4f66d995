"""Which pairs of end ports may talk, counted by set arithmetic: 40,000 ports make 800 million pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK, PKey

PKeySet = frozenset[PKey]


@dataclass(frozen=True, slots=True)
class ReachCounts:
    """How many pairs of end ports gain or lose reach, and for how many this depends on the route."""

    gained: int = 0
    lost: int = 0
    unknown: int = 0


def count_reach(changes: Sequence[tuple[PKeySet, PKeySet]]) -> ReachCounts:
    """Return how many pairs of ports gain and lose reach. *changes*: the P_Keys of each port before and after.

    Two ports may talk, in both directions, when they share a partition and at least one of them is a full member (IBA
    10.9.3). Enforcement of switches is ignored, because policies are compared here; `ibkeys.reach.reach` takes it into
    account for a fabric. Each port is one bit; ports with the same P_Keys are counted together.
    """
    groups: dict[tuple[PKeySet, PKeySet], int] = {}
    for at, change in enumerate(changes):
        groups[change] = groups.get(change, 0) | 1 << at
    before, after = (
        MemberSets((keys, ports) for (keys, _), ports in groups.items()),
        MemberSets((keys, ports) for (_, keys), ports in groups.items()),
    )
    gained = lost = 0
    for (old, new), ports in groups.items():
        was, will = before.reached_by(old), after.reached_by(new)
        gained += _ordered_pairs(ports, will & ~was)
        lost += _ordered_pairs(ports, was & ~will)
    return ReachCounts(gained // 2, lost // 2)


def _ordered_pairs(ports: int, others: int) -> int:
    """Return how many pairs (a, b) there are with a in *ports* and b in *others*. A port makes no pair with itself."""
    return ports.bit_count() * others.bit_count() - (ports & others).bit_count()


class MemberSets:
    """The members of each partition as sets of ports, a bit for each: all of them, and the full ones. *groups*: P_Keys
    with the ports that have them."""

    def __init__(self, groups: Iterable[tuple[Iterable[int], int]]) -> None:
        self.everybody: dict[int, int] = {}
        self.full: dict[int, int] = {}
        for keys, ports in groups:
            for key in keys:
                base = key & PARTITION_MASK
                self.everybody[base] = self.everybody.get(base, 0) | ports
                if key & FULL_BIT:
                    self.full[base] = self.full.get(base, 0) | ports

    def reached_by(self, keys: Iterable[int]) -> int:
        """Return the ports that a port with *keys* may talk to."""
        reached = 0
        for key in keys:
            members = self.everybody if key & FULL_BIT else self.full
            reached |= members.get(key & PARTITION_MASK, 0)
        return reached
