"""The states of a fabric on the way of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product

from ibkeys.keys.pkey import PKey

Keys = frozenset[PKey]


Policy = Mapping[str, Keys]


def meet(one: Keys, other: Keys) -> set[int]:
    """The partitions in which two ports may talk."""
    return {a.partition for a, b in product(one, other) if a.partition == b.partition and (a.is_full or b.is_full)}


def passing(end: Keys, leaf: Keys) -> Keys:
    """What counts of an end port behind an enforcing leaf port: what both have, with the lesser membership."""
    found = set()
    for base in {key.partition for key in end} & {key.partition for key in leaf}:
        both_full = all(any(key == base | 0x8000 for key in keys) for keys in (end, leaf))
        found.add(PKey(base | (0x8000 if both_full else 0)))
    return frozenset(found)


class Rules:
    def __init__(self, before: Policy, after: Policy) -> None:
        self.pairs = list(combinations(sorted(before), 2))
        self.before = {(a, b): meet(before[a], before[b]) for a, b in self.pairs}
        self.after = {(a, b): meet(after[a], after[b]) for a, b in self.pairs}

    def gaps(self, state: Policy) -> set[tuple[str, str]]:
        return {
            pair
            for pair in self.pairs
            if self.before[pair] and self.after[pair]
            if not (found := meet(*(state[port] for port in pair))) or self.before[pair] & self.after[pair] - found
        }

    def bridges(self, state: Policy) -> set[tuple[str, str]]:
        return {
            pair
            for pair in self.pairs
            if not self.before[pair] and not self.after[pair] and meet(*(state[port] for port in pair))
        }


def on_the_way(old: Policy, new: Policy, order: list[str]) -> Iterator[Policy]:
    """Every state while the ports go from *old* to *new* one after the other, the end port before its leaf port."""
    ends, leaves = dict(old), dict(old)
    for port in order:
        for tables in (ends, leaves):
            tables[port] = new[port]
            yield {each: passing(ends[each], leaves[each]) for each in ends}


def parts(old: Keys, new: Keys) -> Iterator[Keys]:
    """Every table between two, and what passes where end port and leaf port are not equally far: each partition is as
    it was or as it will be."""
    bases = sorted({key.partition for key in old ^ new})
    for count in range(len(bases) + 1):
        for gone in combinations(bases, count):
            yield frozenset(
                [key for key in old if key.partition not in gone] + [key for key in new if key.partition in gone]
            )
