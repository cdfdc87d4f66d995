"""Kinds: classes of ports with the same memberships before and after, and their change in each partition.

In each partition a port *rises* (it enters, or limited becomes full) or *drops* (it leaves, or full becomes limited),
or stays. Source: IBA 10.9.3 (membership).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ibkeys.keys.pkey import PKey

Levels = Mapping[int, int]
"""Partition → membership: 1 limited, 2 full. A port with both P_Keys is a full member."""
P = TypeVar("P", bound=Hashable)


def levels(keys: Iterable[PKey]) -> dict[int, int]:
    """Return each partition with the membership that P_Keys of one table give."""
    found: dict[int, int] = {}
    for key in keys:
        found[key.partition] = max(found.get(key.partition, 0), 2 if key.is_full else 1)
    return found


@dataclass(frozen=True, slots=True)
class TableSpace:
    """A table that may be too small for all P_Keys that its port has during a change: its capacity, and the number of
    entries of each partition before and after; the smaller number for both if the membership stays (`thinned`)."""

    capacity: int
    before: tuple[tuple[int, int], ...]
    after: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, capacity: int, before: Iterable[PKey], after: Iterable[PKey]) -> TableSpace | None:
        """Return the space of a table; None if it has room for everything during the change, or never has."""
        before, after = tuple(before), tuple(after)
        counts = (_count(before), _count(after))
        partitions = {*counts[0], *counts[1]}
        if sum(max(count[base] for count in counts) for base in partitions) <= capacity:
            return None
        if sum(counts[1].values()) > capacity:
            return None  # it never fits: that is for whoever planned it to say
        was, will = levels(before), levels(after)
        for base in was.keys() & will.keys():
            if was[base] == will[base]:
                counts[0][base] = counts[1][base] = min(count[base] for count in counts)
        return cls(capacity, *(tuple(sorted(count.items())) for count in counts))

    def fits(self, pending: Collection[int]) -> bool:
        """Return whether the table has room when all partitions but *pending* have their final memberships."""
        entries = sum(count for base, count in self.before if base in pending)
        return entries + sum(count for base, count in self.after if base not in pending) <= self.capacity


def thinned(before: Collection[PKey], after: Collection[PKey]) -> frozenset[int]:
    """Return the partitions whose membership stays and that take fewer entries afterwards, for example if the limited
    P_Key beside the full one is removed. That affects no connection, so it is done first; the opposite change is done
    last."""
    counts, memberships = (_count(before), _count(after)), (levels(before), levels(after))
    return frozenset(
        base
        for base, level in memberships[0].items()
        if memberships[1].get(base) == level and counts[1][base] < counts[0][base]
    )


def _count(keys: Iterable[PKey]) -> Counter[int]:
    return Counter(key.partition for key in keys)


@dataclass(slots=True)
class PortKind(Generic[P]):
    """Ports with the same memberships before and after. A set of partitions is a number with a bit for each."""

    ports: list[P]
    rooms: tuple[TableSpace, ...]
    any_before: int = 0
    full_before: int = 0
    any_after: int = 0
    full_after: int = 0
    rises: int = 0
    drops: int = 0

    def fits(self, pending: Collection[int]) -> bool:
        """Return whether its tables have room when all partitions but *pending* have their final memberships."""
        return all(room.fits(pending) for room in self.rooms)

    def at(self, changed: int) -> tuple[int, int]:
        """Return the partitions that the ports are in, and those that they are full members of, when the partitions in
        *changed* have their final memberships."""
        return (
            self.any_before & ~changed | self.any_after & changed,
            self.full_before & ~changed | self.full_after & changed,
        )


def bits_of(number: int) -> Iterator[int]:
    """Yield each bit of *number*, as a number with that bit alone."""
    while number:
        lowest = number & -number
        yield lowest
        number ^= lowest
