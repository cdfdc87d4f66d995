"""The membership changes of every port of a fabric, grouped into steps by the rules of `ibkeys.plan.steps`.

Ports with equal changes are handled as one kind, and sets of partitions as bit masks, because a fabric has few kinds of
ports but many pairs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Final, Generic, TypeVar

from ibkeys.plan.kinds import Levels, PortKind, TableSpace, bits_of
from ibkeys.plan.rounds import Forced, Pair, Rounds
from ibkeys.printable import counted

_SEARCH: Final = 1_000_000
"""Limit of the search before a cycle is reported: number of drops tried times number of kinds of ports."""
P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PortTransition(Generic[P]):
    """The partitions of one port before and after. ``rooms``: those of its tables that may be too small during the
    change."""

    port: P
    before: Levels
    after: Levels
    rooms: tuple[TableSpace, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitCycle(Generic[P]):
    """A cycle in which every order has a gap: ``leaving`` must leave ``partition`` before ``entering`` enter it, and
    that cuts ``pairs`` briefly, because the change that would keep them connected waits in turn. ``waits``: the whole
    cycle, each part as (ports that leave, partition, ports that enter). Empty ``entering``: no port waits; the tables
    of ``leaving`` are too full.
    """

    partition: int
    leaving: tuple[P, ...]
    entering: tuple[P, ...]
    pairs: tuple[tuple[P, P], ...]
    waits: tuple[tuple[tuple[P, ...], int, tuple[P, ...]], ...] = ()

    @property
    def message(self) -> str:
        """The order that the cycle would need, and the number of pairs that are cut, in words."""
        whom = f"{counted(len(self.pairs), 'pair')} of ports"
        if not self.entering:
            return (
                f"no room to change {_named(self.leaving)} without a gap: {whom} cannot talk in partition "
                f"0x{self.partition:04x} during the change"
            )
        waits = [
            f"{_named(leaving)} must leave or be limited in partition 0x{base:04x} before {_named(entering)} may enter "
            "or be full there"
            for leaving, base, entering in self.waits
        ]
        shown = ", and ".join(waits[:4]) + (
            f", and {len(waits) - 4} more such (all of them: plan -f json)" if len(waits) > 4 else ""
        )
        return f"a circle of ports that wait for each other: {shown}; {whom} cannot talk during the change"


def _named(ports: Sequence[Hashable]) -> str:
    return ", ".join(map(str, ports[:2])) + (
        f" and {len(ports) - 2} more (all of them: plan -f json)" if len(ports) > 2 else ""
    )


@dataclass(slots=True)
class StepSequence(Generic[P]):
    """The steps of a change. ``changed``: after each step, by port, the partitions that have their final membership,
    without ports that have none; ``circles``: the cycles in which pairs are cut."""

    changed: list[dict[P, frozenset[int]]] = field(default_factory=list)
    circles: tuple[WaitCycle[P], ...] = ()


class FabricTransition(Generic[P]):
    """The transitions of all ports of a fabric, also of ports that do not change, because others must not be cut off
    from them. *gaps*: pairs may briefly be cut.
    """

    def __init__(self, courses: Iterable[PortTransition[P]], *, gaps: bool = False) -> None:
        self._kinds: list[PortKind[P]] = []
        self._partitions: list[int] = []
        self._gaps = gaps
        self._fill(courses)
        self._waits = self._find_waits()

    def _fill(self, courses: Iterable[PortTransition[P]]) -> None:
        bits: dict[int, int] = {}
        kinds: dict[object, PortKind[P]] = {}
        for course in courses:
            what = (frozenset(course.before.items()), frozenset(course.after.items()), course.rooms)
            kind = kinds.get(what)
            if kind is not None:
                kind.ports.append(course.port)
                continue
            kind = kinds[what] = PortKind([course.port], course.rooms)
            for base in (*course.before, *course.after):
                bit = bits.setdefault(base, 1 << len(bits))
                was, will = course.before.get(base, 0), course.after.get(base, 0)
                kind.any_before |= bit if was else 0
                kind.full_before |= bit if was == 2 else 0
                kind.any_after |= bit if will else 0
                kind.full_after |= bit if will == 2 else 0
                kind.rises |= bit if was < will else 0
                kind.drops |= bit if was > will else 0
        self._kinds = list(kinds.values())
        self._partitions = list(bits)

    def _find_waits(self) -> dict[tuple[int, int], list[int]]:
        """Return, for each rise (kind, bit), the kinds that must drop in that partition before it. Otherwise the two
        kinds could talk for a time, although they may talk neither before nor after."""
        rising: dict[int, list[int]] = {}
        dropping: dict[int, list[int]] = {}
        for number, kind in enumerate(self._kinds):
            for bit in bits_of(kind.rises):
                rising.setdefault(bit, []).append(number)
            for bit in bits_of(kind.drops):
                dropping.setdefault(bit, []).append(number)
        waits: dict[tuple[int, int], list[int]] = {}
        for bit in rising.keys() & dropping.keys():
            for one in rising[bit]:
                kind = self._kinds[one]
                found = [other for other in dropping[bit] if self._are_strangers(kind, self._kinds[other], bit)]
                if found:
                    waits[one, bit] = found
        return waits

    @staticmethod
    def _are_strangers(one: PortKind[P], other: PortKind[P], bit: int) -> bool:
        if not (one.full_after | other.full_before) & bit:
            return False
        return not (
            one.full_before & other.any_before
            | one.any_before & other.full_before
            | one.full_after & other.any_after
            | one.any_after & other.full_after
        )

    @property
    def reuses(self) -> bool:
        """Whether some port must leave a partition before another enters it."""
        return bool(self._waits)

    def plan(self, *, additions_first: bool) -> StepSequence[P]:
        """Return the shortest sequence of steps that was found. Within a step the changes may be made in any order;
        with *additions_first* all of its rises are made before its drops."""
        if not any(kind.rises | kind.drops for kind in self._kinds):
            return StepSequence()
        if additions_first and not self._waits:
            return StepSequence([self._by_port([kind.rises | kind.drops for kind in self._kinds])])
        pairs = [] if self._gaps else self._find_pairs()
        found = self._run(pairs, additions_first)
        if additions_first:
            other = self._run(pairs, additions_first, removals_at_once=True)
            found = min(found, other, key=lambda each: (len(each.circles), each.phases))
        return StepSequence(list(map(self._by_port, found.steps)), tuple(map(self._circle, found.circles)))

    def _run(self, pairs: list[Pair], additions_first: bool, *, removals_at_once: bool = False) -> Rounds[P]:
        planning = self._rounds(pairs, additions_first)
        planning.run(removals_at_once=removals_at_once)
        if not planning.circles:
            return planning
        drops = self._rounds(pairs, additions_first).find_first_drops(_SEARCH // len(self._kinds))
        if drops is not None:
            planning = self._rounds(pairs, additions_first)
            planning.run(first_drops=drops)
        return planning

    def _rounds(self, pairs: list[Pair], additions_first: bool) -> Rounds[P]:
        return Rounds(self._kinds, self._partitions, self._waits, pairs, additions_first)

    def _circle(self, forced: Forced) -> WaitCycle[P]:
        ports = [kind.ports for kind in self._kinds]
        pairs = [
            (a, b)
            for one, other, _ in forced.cut
            for a, b in (combinations(ports[one], 2) if one == other else product(ports[one], ports[other]))
        ]
        return WaitCycle(
            self._number(forced.bit),
            tuple(port for number in forced.leaving for port in ports[number]),
            tuple(ports[forced.entering]) if forced.entering is not None else (),
            tuple(pairs),
            tuple(
                (tuple(ports[leaving]), self._number(bit), tuple(ports[rise[0]]))
                for rise, leaving, bit in forced.circle
            ),
        )

    def _find_pairs(self) -> list[Pair]:
        """Return the pairs of kinds that can talk before and after, and could not if only the drops were made."""
        changing = [number for number, kind in enumerate(self._kinds) if kind.rises | kind.drops]
        found = []
        for one in changing:
            kind = self._kinds[one]
            any_least, full_least = kind.any_before & kind.any_after, kind.full_before & kind.full_after
            for other, peer in enumerate(self._kinds):
                if (other < one and peer.rises | peer.drops) or (other == one and len(kind.ports) < 2):
                    continue  # found from the other side; alone of its kind
                before = kind.full_before & peer.any_before | kind.any_before & peer.full_before
                after = kind.full_after & peer.any_after | kind.any_after & peer.full_after
                if not before or not after:
                    continue
                both = before & after
                least = full_least & peer.any_before & peer.any_after | any_least & peer.full_before & peer.full_after
                if not both or both & ~least:
                    found.append((one, other, both & ~least))
        return found

    def _by_port(self, changed: Sequence[int]) -> dict[P, frozenset[int]]:
        found: dict[P, frozenset[int]] = {}
        for kind, bits in zip(self._kinds, changed, strict=True):
            if bits:
                partitions = frozenset(self._number(bit) for bit in bits_of(bits))
                found.update(dict.fromkeys(kind.ports, partitions))
        return found

    def _number(self, bit: int) -> int:
        return self._partitions[bit.bit_length() - 1]
