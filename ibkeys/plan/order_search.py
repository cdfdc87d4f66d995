"""Searching an order of rises and drops without a gap and without a bridge. `ibkeys.plan.steps` explains these words,
and why the search ends.

A kind (`PortKind`) is identified by its number in the list of kinds, and a partition by its bit.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ibkeys.plan.port_kinds import PortKind, bits_of

P = TypeVar("P", bound=Hashable)
Pair = tuple[int, int, int]
"""(kind, kind, partitions): two kinds that a drop may cut, and the set of partitions in each of which they must stay
connected; 0: they must stay connected in at least one partition, whichever it is."""
Wait = tuple[tuple[int, int], int, int]
"""((kind, bit), kind, bit): a rise, and the kind and bit of the drop for which it waits."""


@dataclass(frozen=True, slots=True)
class ForcedDrop:
    """A drop that is made although it cuts pairs, because all remaining changes wait for each other.

    ``bit``: its partition. ``leaving``: the kinds that drop. ``entering``: the kind whose rise waited for the drop,
    None if no rise did, but tables are too full. ``cut``: the pairs that it cuts. ``circle``: the cycle of waits.
    """

    bit: int
    leaving: Sequence[int]
    entering: int | None
    cut: Sequence[Pair]
    circle: Sequence[Wait]


@dataclass(slots=True)
class OrderSearch(Generic[P]):
    """One search for a sequence of steps.

    ``changed``: for each kind, the partitions in which it has its final membership so far. ``steps``: ``changed`` after
    each step. ``cycles``: the drops that cut pairs. ``phases``: the number of steps, where one with both rises and
    drops counts as two. ``_pairs_of``: the pairs of each kind.
    """

    _kinds: Sequence[PortKind[P]]
    _partitions: Sequence[int]
    _waits: Mapping[tuple[int, int], Sequence[int]]
    _pairs: Sequence[Pair]
    _additions_first: bool
    changed: list[int] = field(init=False)
    steps: list[list[int]] = field(default_factory=list)
    cycles: list[ForcedDrop] = field(default_factory=list)
    phases: int = 0
    _pairs_of: dict[int, list[Pair]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changed = [0] * len(self._kinds)
        for pair in self._pairs:
            for number in {pair[0], pair[1]}:
                self._pairs_of.setdefault(number, []).append(pair)

    def run(self, *, removals_at_once: bool = False, first_drops: Sequence[tuple[int, int]] = ()) -> None:
        """Make all steps, until every partition of every kind has changed.

        *removals_at_once*: begin with a step of drops alone, if any drop is possible. *first_drops*: drops (kind, bit)
        that come before all others, in this order; several may be in one step.
        """
        planned_drops = list(first_drops)
        final = [kind.rises | kind.drops for kind in self._kinds]
        while self.changed != final:
            rises = [0] * len(final) if removals_at_once and not self.steps else self._ready_rises()
            drops = self._take_planned(planned_drops, rises) if planned_drops else self._safe_drops(rises)
            while not planned_drops and self._remove_rises_without_room(rises, drops):
                drops = self._safe_drops(rises)
            if not any(rises) and not any(drops):
                if removals_at_once and not self.steps:
                    removals_at_once = False
                    continue
                drops = self._forced_drops()
            self.changed = _union(_union(self.changed, rises), drops)
            self.steps.append(self.changed)
            self.phases += any(rises) + any(drops)

    def find_first_drops(self, most: int) -> list[tuple[int, int]] | None:
        """Return drops (kind, bit) that cut no pair if made in this order, and after which no rise waits. None if there
        are no such drops, if the search ended after *most* drops, or if tables may be too small.

        `run` needs this because it never takes back a step. Of drops that cut no pair one by one, but do together, it
        makes some, and in rare cases the wrong ones.
        """
        if any(kind.rooms for kind in self._kinds):
            return None
        nothing = [0] * len(self._kinds)
        visited = {tuple(nothing)}
        todo: list[tuple[list[int], list[tuple[int, int]]]] = [(nothing, [])]
        tried = 0
        while todo and tried < most:
            self.changed, path = todo.pop()
            self.changed = _union(self.changed, self._ready_rises())
            wanted = [bits & ~now for bits, now in zip(self._wanted_drops(nothing), self.changed, strict=True)]
            if not any(wanted):
                return path
            for number, bits in enumerate(wanted):
                for bit in bits_of(bits):
                    tried += 1
                    drops = [bit if each == number else 0 for each in range(len(wanted))]
                    next_changed = _union(self.changed, drops)
                    if tuple(next_changed) not in visited and not self._cuts_a_pair(number, self.changed, drops):
                        visited.add(tuple(next_changed))
                        todo.append((next_changed, [*path, (number, bit)]))
        return None

    def _take_planned(self, planned: list[tuple[int, int]], rises: Sequence[int]) -> list[int]:
        """Remove the first drops of *planned* that can be made in this step without cutting a pair, and return them as
        sets of partitions by kind."""
        drops = [0] * len(self._kinds)
        start = self._start(rises)
        while planned:
            number, bit = planned[0]
            drops[number] |= bit
            if self._cuts_a_pair(number, start, drops):
                drops[number] &= ~bit
                break
            del planned[0]
        return drops

    def _start(self, rises: Sequence[int]) -> list[int]:
        """Return, by kind, the partitions that have certainly changed when the first drop of a step is made."""
        return _union(self.changed, rises) if self._additions_first else self.changed

    def _cuts_a_pair(self, number: int, start: Sequence[int], drops: Sequence[int]) -> bool:
        """Return whether *drops*, made after the changes *start*, cut any pair of the kind *number*."""
        return any(self._is_cut(pair, start, drops) for pair in self._pairs_of.get(number, ()))

    def _ready_rises(self) -> list[int]:
        """Return, by kind, the rises that wait for no drop."""
        ready = [kind.rises & ~now for kind, now in zip(self._kinds, self.changed, strict=True)]
        for number, bit in self._waits:
            if ready[number] & bit and self._awaited(number, bit):
                ready[number] &= ~bit
        return ready

    def _awaited(self, number: int, bit: int) -> list[int]:
        """Return the kinds whose drop the rise (*number*, *bit*) still waits for."""
        return [other for other in self._waits.get((number, bit), ()) if not self.changed[other] & bit]

    def _remove_rises_without_room(self, rises: list[int], drops: Sequence[int]) -> bool:
        """Remove one rise from *rises* for each kind whose tables have no room for all of its rises; return whether any
        was removed."""
        is_any_removed = False
        for number, kind in enumerate(self._kinds):
            if kind.rooms and rises[number] and not self._fits(number, rises[number] | drops[number]):
                rises[number] &= rises[number] - 1
                is_any_removed = True
        return is_any_removed

    def _fits(self, number: int, more: int) -> bool:
        """Return whether the tables of the kind *number* have room when the partitions *more* have changed too."""
        kind = self._kinds[number]
        pending = (kind.rises | kind.drops) & ~(self.changed[number] | more)
        return kind.fits({self._partitions[bit.bit_length() - 1] for bit in bits_of(pending)})

    # --- drops -------------------------------------------------------------------------------------------------------

    def _safe_drops(self, rises: Sequence[int]) -> list[int]:
        """Return, by kind, as many drops as can be found that together cut no pair. Drops for which a rise waits have
        precedence."""
        start = self._start(rises)
        pending = [kind.drops & ~now for kind, now in zip(self._kinds, self.changed, strict=True)]
        drops = list(pending)
        wanted = self._wanted_drops(rises)
        for pair in self._pairs:
            self._withhold(pair, start, drops, wanted)
        withheld = [(number, bit) for number, bits in enumerate(pending) for bit in bits_of(bits & ~drops[number])]
        for number, bit in sorted(withheld, key=lambda each: not wanted[each[0]] & each[1]):
            drops[number] |= bit
            if self._cuts_a_pair(number, start, drops):
                drops[number] &= ~bit
        return drops

    def _wanted_drops(self, rises: Sequence[int]) -> list[int]:
        """Return, by kind, the drops for which a rise waits that is neither made yet nor in *rises*."""
        wanted = [0] * len(self._kinds)
        for (number, bit), others in self._waits.items():
            if not (self.changed[number] | rises[number]) & bit:
                for other in others:
                    wanted[other] |= bit
        return wanted

    def _shared(self, one: int, other: int, changed_one: int, changed_other: int) -> int:
        """Return the partitions in which the kinds *one* and *other* can talk when these partitions of each have
        changed."""
        any_one, full_one = self._kinds[one].memberships_after(changed_one)
        any_other, full_other = self._kinds[other].memberships_after(changed_other)
        return full_one & any_other | any_one & full_other

    def _is_cut(self, pair: Pair, start: Sequence[int], drops: Sequence[int]) -> bool:
        """Return whether *drops*, made after the changes *start*, cut *pair*."""
        one, other, partitions = pair
        before = self._shared(one, other, start[one], start[other])
        now = self._shared(one, other, start[one] | drops[one], start[other] | drops[other])
        return bool(partitions & before & ~now if partitions else before and not now)

    def _withhold(self, pair: Pair, start: Sequence[int], drops: list[int], wanted: Sequence[int]) -> None:
        """Remove from *drops* those that cut *pair*: as few wanted ones as possible, and then as few as possible."""
        one, other, partitions = pair
        before = self._shared(one, other, start[one], start[other])
        now = self._shared(one, other, start[one] | drops[one], start[other] | drops[other])
        lost = [bit for bit in bits_of(before & ~now) if partitions & bit or not partitions]
        if not partitions:
            if now or not before:
                return
            lost = [min(lost, key=lambda bit: self._lowest_cost(one, other, bit, start, drops, wanted))]
        for bit in lost:
            for number in self._lowest_cost(one, other, bit, start, drops, wanted)[2]:
                drops[number] &= ~bit

    def _lowest_cost(
        self, one: int, other: int, bit: int, start: Sequence[int], drops: list[int], wanted: Sequence[int]
    ) -> tuple[int, int, tuple[int, ...]]:
        """Return the lowest cost of keeping two kinds connected in the partition *bit*: the number of wanted drops that
        are given up, the number of all drops that are given up, and the kinds that must not drop."""
        costs = []
        for kinds in dict.fromkeys(((one,), (other,), (one, other))):
            if not all(drops[number] & bit for number in kinds):
                continue
            changed = [start[each] | (drops[each] & ~bit if each in kinds else drops[each]) for each in (one, other)]
            if self._shared(one, other, *changed) & bit:
                costs.append((sum(bool(wanted[number] & bit) for number in kinds), len(kinds), kinds))
        return min(costs)

    # --- cycles -----------------------------------------------------------------------------------------------------

    def _forced_drops(self) -> list[int]:
        """Return drops of one partition that cut pairs, because all changes wait for each other. Add them to
        ``cycles``."""
        circle = self._find_circle()
        rise = min(circle, key=lambda each: len(self._awaited(*each[0])))
        (entering, _), leaving, bit = rise
        awaited = self._awaited(*rise[0])
        drops = [0] * len(self._kinds)
        for number in awaited or [leaving]:
            drops[number] |= bit
        cut = [pair for pair in self._pairs if self._is_cut(pair, self.changed, drops)]
        self.cycles.append(ForcedDrop(bit, awaited or [leaving], entering if awaited else None, cut, circle))
        return drops

    def _find_circle(self) -> list[Wait]:
        """Return a cycle of rises that wait for each other, each with one of the drops for which it waits."""
        path: list[Wait] = []
        rise = self._first_missing_rise()
        while rise not in [each[0] for each in path]:
            awaited = self._awaited(*rise)
            leaving, bit = (awaited[0], rise[1]) if awaited else self._own_drop(rise[0])
            path.append((rise, leaving, bit))
            rise = self._rise_that_frees(leaving, bit, [each[0] for each in path])
        return path[[each[0] for each in path].index(rise) :]

    def _first_missing_rise(self) -> tuple[int, int]:
        """Return the first rise (kind, bit) that is not made yet."""
        return next(
            (number, bit)
            for number, kind in enumerate(self._kinds)
            for bit in bits_of(kind.rises & ~self.changed[number])
        )

    def _own_drop(self, number: int) -> tuple[int, int]:
        """Return the first drop (kind, bit) of the kind *number* that is not made yet."""
        return number, next(bits_of(self._kinds[number].drops & ~self.changed[number]))

    def _rise_that_frees(self, number: int, bit: int, preferred: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return a rise after which the drop (*number*, *bit*) no longer cuts a pair that it cuts now; one of
        *preferred* if possible."""
        drops = [0] * len(self._kinds)
        drops[number] = bit
        rises = []
        for pair in self._pairs_of.get(number, ()):
            if not self._is_cut(pair, self.changed, drops):
                continue
            one, other, partitions = pair
            whole = [self._kinds[each].rises | self._kinds[each].drops for each in (one, other)]
            meeting = self._shared(one, other, *whole) & (partitions & bit or -1)
            for each in (one, other):
                rises += [(each, at) for at in bits_of(self._kinds[each].rises & ~self.changed[each] & meeting)]
        return next((each for each in rises if each in preferred), rises[0])


def _union(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Return, for each kind, the union of two sets of partitions."""
    return [mine | its for mine, its in zip(one, other, strict=True)]
