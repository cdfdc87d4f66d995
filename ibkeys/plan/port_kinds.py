"""Kinds of ports: all ports with the same memberships before and after a change are of one kind.

In each partition a port *rises* (it enters, or limited becomes full), *drops* (it leaves, or full becomes limited), or
stays. Source: IBA 10.9.3 (membership).
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


def memberships_of(keys: Iterable[PKey]) -> dict[int, int]:
    """Return the membership in each partition that the P_Keys of one table give: partition → 1 limited, 2 full."""
    memberships: dict[int, int] = {}
    for key in keys:
        memberships[key.partition] = max(memberships.get(key.partition, 0), 2 if key.is_full else 1)
    return memberships


@dataclass(frozen=True, slots=True)
class TableSpace:
    """The size of a table that may be too small for all P_Keys that its port has during a change.

    ``before`` and ``after``: (partition, number of entries) for each partition. If the membership in a partition stays,
    both have the smaller of the two numbers: see `partitions_with_fewer_entries`.
    """

    capacity: int
    before: tuple[tuple[int, int], ...]
    after: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, capacity: int, before: Iterable[PKey], after: Iterable[PKey]) -> TableSpace | None:
        """Return the size of a table; None if it has room for all P_Keys of both states together, or not even for
        *after*."""
        before, after = tuple(before), tuple(after)
        counts = (_count(before), _count(after))
        partitions = {*counts[0], *counts[1]}
        if sum(max(count[base] for count in counts) for base in partitions) <= capacity:
            return None
        if sum(counts[1].values()) > capacity:
            return None  # the planner reports a planned table that does not fit
        old, new = memberships_of(before), memberships_of(after)
        for base in old.keys() & new.keys():
            if old[base] == new[base]:
                counts[0][base] = counts[1][base] = min(count[base] for count in counts)
        return cls(capacity, *(tuple(sorted(count.items())) for count in counts))

    def fits(self, pending: Collection[int]) -> bool:
        """Return whether the table has room when all partitions but *pending* have their final memberships."""
        entries = sum(count for base, count in self.before if base in pending)
        return entries + sum(count for base, count in self.after if base not in pending) <= self.capacity


def partitions_with_fewer_entries(before: Collection[PKey], after: Collection[PKey]) -> frozenset[int]:
    """Return the partitions whose membership stays, but which have fewer entries afterwards, for example because the
    limited P_Key beside the full one is removed. Such a removal affects no connection, so it is made first; the
    opposite change is made last."""
    counts, memberships = (_count(before), _count(after)), (memberships_of(before), memberships_of(after))
    return frozenset(
        base
        for base, level in memberships[0].items()
        if memberships[1].get(base) == level and counts[1][base] < counts[0][base]
    )


def _count(keys: Iterable[PKey]) -> Counter[int]:
    return Counter(key.partition for key in keys)


@dataclass(slots=True)
class PortKind(Generic[P]):
    """Ports with the same memberships before and after a change.

    All fields but ``ports`` and ``rooms`` are sets of partitions, as a number with one bit for each: ``any_before``:
    the ports are limited or full members before; ``full_before``: full members; ``any_after`` and ``full_after``: the
    same afterwards; ``rises`` and ``drops``: the partitions in which they rise or drop. ``rooms``: the sizes of their
    tables that may be too small during the change.
    """

    ports: list[P]
    rooms: tuple[TableSpace, ...]
    any_before: int = 0
    full_before: int = 0
    any_after: int = 0
    full_after: int = 0
    rises: int = 0
    drops: int = 0

    def fits(self, pending: Collection[int]) -> bool:
        """Return whether the tables have room when all partitions but *pending* have their final memberships."""
        return all(room.fits(pending) for room in self.rooms)

    def memberships_after(self, changed: int) -> tuple[int, int]:
        """Return the partitions of which the ports are members, and those of which they are full members, when the
        partitions in *changed* have their final memberships."""
        return (
            self.any_before & ~changed | self.any_after & changed,
            self.full_before & ~changed | self.full_after & changed,
        )


def bits_of(number: int) -> Iterator[int]:
    """Yield each bit that is set in *number*, as a number with only this bit, the lowest first."""
    while number:
        lowest = number & -number
        yield lowest
        number ^= lowest
