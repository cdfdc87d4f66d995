"""The search for an order of rises and drops without a gap and without a bridge. `ibkeys.plan.steps` explains these
words, and why the search ends."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ibkeys.plan.kinds import PortKind, bits_of

P = TypeVar("P", bound=Hashable)
Pair = tuple[int, int, int]
"""Two kinds that a drop may cut, and the partitions in which they must stay connected; 0: in at least one of any."""
Wait = tuple[tuple[int, int], int, int]
"""A rise (kind, bit), and the drop that it waits for: kind, bit."""


@dataclass(frozen=True, slots=True)
class Forced:
    """A drop that was made too early. ``bit``: its partition; ``leaving``: the kinds that drop; ``entering``: the kind
    that waited for it, None if their tables are too full; ``cut``: the pairs that it cuts; ``circle``: the cycle of
    waits that it was in."""

    bit: int
    leaving: Sequence[int]
    entering: int | None
    cut: Sequence[Pair]
    circle: Sequence[Wait]


@dataclass(slots=True)
class Rounds(Generic[P]):
    """One search for a sequence of steps. ``changed``: for each kind the partitions that have their final membership;
    ``_pairs_of``: the pairs of each kind."""

    _kinds: Sequence[PortKind[P]]
    _partitions: Sequence[int]
    _waits: Mapping[tuple[int, int], Sequence[int]]
    _pairs: Sequence[Pair]
    _additions_first: bool
    changed: list[int] = field(init=False)
    steps: list[list[int]] = field(default_factory=list)
    circles: list[Forced] = field(default_factory=list)
    phases: int = 0
    _pairs_of: dict[int, list[Pair]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changed = [0] * len(self._kinds)
        for pair in self._pairs:
            for number in {pair[0], pair[1]}:
                self._pairs_of.setdefault(number, []).append(pair)

    def run(self, *, removals_at_once: bool = False, first_drops: Sequence[tuple[int, int]] = ()) -> None:
        """Make all steps. *removals_at_once*: the first step has no additions. *first_drops*: these come before all
        others, one after the other or together."""
        to_come = list(first_drops)
        whole = [kind.rises | kind.drops for kind in self._kinds]
        while self.changed != whole:
            rises = [0] * len(whole) if removals_at_once and not self.steps else self._ready_rises()
            drops = self._first_of(to_come, rises) if to_come else self._safe_drops(rises)
            while not to_come and self._drop_what_has_no_room(rises, drops):
                drops = self._safe_drops(rises)
            if not any(rises) and not any(drops):
                if removals_at_once and not self.steps:
                    removals_at_once = False
                    continue
                drops = self._force()
            self.changed = _joined(_joined(self.changed, rises), drops)
            self.steps.append(self.changed)
            self.phases += any(rises) + any(drops)

    def find_first_drops(self, most: int) -> list[tuple[int, int]] | None:
        """Return drops (kind, bit) that cut no pair if made one after the other, and after which no rise waits; None if
        there are none, or *most* drops were tried without success.

        `run` never revises a step. Of drops that cut no pair singly but do together, it makes some, and these may
        rarely be the wrong ones.
        """
        if any(kind.rooms for kind in self._kinds):
            return None
        nothing = [0] * len(self._kinds)
        seen = {tuple(nothing)}
        todo: list[tuple[list[int], list[tuple[int, int]]]] = [(nothing, [])]
        tried = 0
        while todo and tried < most:
            self.changed, path = todo.pop()
            self.changed = _joined(self.changed, self._ready_rises())
            wanted = [bits & ~now for bits, now in zip(self._wanted_drops(nothing), self.changed, strict=True)]
            if not any(wanted):
                return path
            for number, bits in enumerate(wanted):
                for bit in bits_of(bits):
                    tried += 1
                    drops = [bit if each == number else 0 for each in range(len(wanted))]
                    next_one = _joined(self.changed, drops)
                    if tuple(next_one) not in seen and not self._cuts_somebody(number, self.changed, drops):
                        seen.add(tuple(next_one))
                        todo.append((next_one, [*path, (number, bit)]))
        return None

    def _first_of(self, to_come: list[tuple[int, int]], rises: Sequence[int]) -> list[int]:
        """Remove from *to_come* the drops that can be made now, and return them."""
        drops = [0] * len(self._kinds)
        start = self._start(rises)
        while to_come:
            number, bit = to_come[0]
            drops[number] |= bit
            if self._cuts_somebody(number, start, drops):
                drops[number] &= ~bit
                break
            del to_come[0]
        return drops

    def _start(self, rises: Sequence[int]) -> list[int]:
        """Return the partitions, by kind, that have certainly changed when the first drop of a step is made."""
        return _joined(self.changed, rises) if self._additions_first else self.changed

    def _cuts_somebody(self, number: int, start: Sequence[int], drops: Sequence[int]) -> bool:
        return any(self._is_cut(pair, start, drops) for pair in self._pairs_of.get(number, ()))

    def _ready_rises(self) -> list[int]:
        ready = [kind.rises & ~now for kind, now in zip(self._kinds, self.changed, strict=True)]
        for number, bit in self._waits:
            if ready[number] & bit and self._missing(number, bit):
                ready[number] &= ~bit
        return ready

    def _missing(self, number: int, bit: int) -> list[int]:
        return [other for other in self._waits.get((number, bit), ()) if not self.changed[other] & bit]

    def _drop_what_has_no_room(self, rises: list[int], drops: Sequence[int]) -> bool:
        """Remove one of the rises of each kind whose tables have no room for all of them; return whether any was
        removed."""
        taken = False
        for number, kind in enumerate(self._kinds):
            if kind.rooms and rises[number] and not self._fits(number, rises[number] | drops[number]):
                rises[number] &= rises[number] - 1
                taken = True
        return taken

    def _fits(self, number: int, more: int) -> bool:
        kind = self._kinds[number]
        pending = (kind.rises | kind.drops) & ~(self.changed[number] | more)
        return kind.fits({self._partitions[bit.bit_length() - 1] for bit in bits_of(pending)})

    # --- drops -------------------------------------------------------------------------------------------------------

    def _safe_drops(self, rises: Sequence[int]) -> list[int]:
        """Return as many drops as were found that together disconnect no pair, first those that a rise waits for."""
        start = self._start(rises)
        pending = [kind.drops & ~now for kind, now in zip(self._kinds, self.changed, strict=True)]
        drops = list(pending)
        wanted = self._wanted_drops(rises)
        for pair in self._pairs:
            self._keep(pair, start, drops, wanted)
        withheld = [(number, bit) for number, bits in enumerate(pending) for bit in bits_of(bits & ~drops[number])]
        for number, bit in sorted(withheld, key=lambda each: not wanted[each[0]] & each[1]):
            drops[number] |= bit
            if self._cuts_somebody(number, start, drops):
                drops[number] &= ~bit
        return drops

    def _wanted_drops(self, rises: Sequence[int]) -> list[int]:
        wanted = [0] * len(self._kinds)
        for (number, bit), others in self._waits.items():
            if not (self.changed[number] | rises[number]) & bit:
                for other in others:
                    wanted[other] |= bit
        return wanted

    def _talk(self, one: int, other: int, changed_one: int, changed_other: int) -> int:
        """Return the partitions in which two kinds can talk when these partitions of each have changed."""
        any_one, full_one = self._kinds[one].at(changed_one)
        any_other, full_other = self._kinds[other].at(changed_other)
        return full_one & any_other | any_one & full_other

    def _is_cut(self, pair: Pair, start: Sequence[int], drops: Sequence[int]) -> bool:
        one, other, in_these = pair
        before = self._talk(one, other, start[one], start[other])
        now = self._talk(one, other, start[one] | drops[one], start[other] | drops[other])
        return bool(in_these & before & ~now if in_these else before and not now)

    def _keep(self, pair: Pair, start: Sequence[int], drops: list[int], wanted: Sequence[int]) -> None:
        """Remove the drops that cut a pair: as few as possible, and as few wanted ones as possible."""
        one, other, in_these = pair
        before = self._talk(one, other, start[one], start[other])
        now = self._talk(one, other, start[one] | drops[one], start[other] | drops[other])
        lost = [bit for bit in bits_of(before & ~now) if in_these & bit or not in_these]
        if not in_these:
            if now or not before:
                return
            lost = [min(lost, key=lambda bit: self._price(one, other, bit, start, drops, wanted))]
        for bit in lost:
            for number in self._price(one, other, bit, start, drops, wanted)[2]:
                drops[number] &= ~bit

    def _price(
        self, one: int, other: int, bit: int, start: Sequence[int], drops: list[int], wanted: Sequence[int]
    ) -> tuple[int, int, tuple[int, ...]]:
        """Return the cost of keeping two kinds connected in a partition: the number of wanted drops that are given up,
        the number of drops, and the kinds that must not make them."""
        found = []
        for kinds in dict.fromkeys(((one,), (other,), (one, other))):
            if not all(drops[number] & bit for number in kinds):
                continue
            tried = [start[each] | (drops[each] & ~bit if each in kinds else drops[each]) for each in (one, other)]
            if self._talk(one, other, *tried) & bit:
                found.append((sum(bool(wanted[number] & bit) for number in kinds), len(kinds), kinds))
        return min(found)

    # --- circles -----------------------------------------------------------------------------------------------------

    def _force(self) -> list[int]:
        """Return drops that cut pairs, because all changes wait for each other; note the pairs in ``circles``."""
        circle = self._find_circle()
        rise = min(circle, key=lambda each: len(self._missing(*each[0])))
        (entering, _), leaving, bit = rise
        missing = self._missing(*rise[0])
        drops = [0] * len(self._kinds)
        for number in missing or [leaving]:
            drops[number] |= bit
        cut = [pair for pair in self._pairs if self._is_cut(pair, self.changed, drops)]
        self.circles.append(Forced(bit, missing or [leaving], entering if missing else None, cut, circle))
        return drops

    def _find_circle(self) -> list[Wait]:
        """Return a cycle of rises that wait for each other, each with a drop that it waits for."""
        path: list[Wait] = []
        rise = self._first_waiting()
        while rise not in [each[0] for each in path]:
            missing = self._missing(*rise)
            leaving, bit = (missing[0], rise[1]) if missing else self._own_drop(rise[0])
            path.append((rise, leaving, bit))
            rise = self._what_keeps(leaving, bit, [each[0] for each in path])
        return path[[each[0] for each in path].index(rise) :]

    def _first_waiting(self) -> tuple[int, int]:
        return next(
            (number, bit)
            for number, kind in enumerate(self._kinds)
            for bit in bits_of(kind.rises & ~self.changed[number])
        )

    def _own_drop(self, number: int) -> tuple[int, int]:
        return number, next(bits_of(self._kinds[number].drops & ~self.changed[number]))

    def _what_keeps(self, number: int, bit: int, seen: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return a rise after which a drop no longer cuts the pair that it cuts now; one of *seen* if possible."""
        drops = [0] * len(self._kinds)
        drops[number] = bit
        found = []
        for pair in self._pairs_of.get(number, ()):
            if not self._is_cut(pair, self.changed, drops):
                continue
            one, other, in_these = pair
            whole = [self._kinds[each].rises | self._kinds[each].drops for each in (one, other)]
            meeting = self._talk(one, other, *whole) & (in_these & bit or -1)
            for each in (one, other):
                found += [(each, at) for at in bits_of(self._kinds[each].rises & ~self.changed[each] & meeting)]
        return next((each for each in found if each in seen), found[0])


def _joined(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Return, for each kind, the union of two sets of partitions."""
    return [mine | its for mine, its in zip(one, other, strict=True)]
