"""Grouping the membership changes of all ports of a fabric into steps, by the rules of `ibkeys.plan.steps`.

Ports with equal changes form one kind, because a fabric has few kinds of ports but many pairs. A set of partitions is a
bit mask.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Final, Generic, TypeVar

from ibkeys.plan.order_search import ForcedDrop, OrderSearch, Pair
from ibkeys.plan.port_kinds import Levels, PortKind, TableSpace, bits_of
from ibkeys.printable import counted

_SEARCH: Final = 1_000_000
"""Limit of the search for an order without a cycle: the number of drops that are tried, times the number of kinds."""
P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PortTransition(Generic[P]):
    """The memberships of one port before and after the change. ``rooms``: the sizes of those tables of the port that
    may be too small during the change."""

    port: P
    before: Levels
    after: Levels
    rooms: tuple[TableSpace, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitCycle(Generic[P]):
    """A cycle of changes that wait for each other, so that every order has a gap.

    The ports ``leaving`` must leave ``partition``, or become limited there, before ``entering`` may enter it. That cuts
    ``pairs`` briefly, because the change that would keep them connected waits for another one. ``waits``: the whole
    cycle, each part as (ports that leave, partition, ports that enter). If ``entering`` is empty, no port waits, but
    the tables of ``leaving`` are too full.
    """

    partition: int
    leaving: tuple[P, ...]
    entering: tuple[P, ...]
    pairs: tuple[tuple[P, P], ...]
    waits: tuple[tuple[tuple[P, ...], int, tuple[P, ...]], ...] = ()

    @property
    def message(self) -> str:
        """The message about the cycle: the order that its ports would need, and the number of pairs that are cut."""
        whom = f"{counted(len(self.pairs), 'pair')} of ports"
        if not self.entering:
            return (
                f"no room to change {_port_list(self.leaving)} without a gap: {whom} cannot talk in partition "
                f"0x{self.partition:04x} during the change"
            )
        waits = [
            f"{_port_list(leaving)} must leave or be limited in partition 0x{base:04x} before "
            f"{_port_list(entering)} may enter or be full there"
            for leaving, base, entering in self.waits
        ]
        listed = ", and ".join(waits[:4]) + (
            f", and {len(waits) - 4} more such (all of them: plan -f json)" if len(waits) > 4 else ""
        )
        return f"a circle of ports that wait for each other: {listed}; {whom} cannot talk during the change"


def _port_list(ports: Sequence[Hashable]) -> str:
    return ", ".join(map(str, ports[:2])) + (
        f" and {len(ports) - 2} more (all of them: plan -f json)" if len(ports) > 2 else ""
    )


@dataclass(slots=True)
class StepSequence(Generic[P]):
    """The steps of a change. ``changed``: for each step, by port, the partitions that have their final membership after
    the step; a port without such a partition is left out. ``cycles``: the cycles in which pairs are cut."""

    changed: list[dict[P, frozenset[int]]] = field(default_factory=list)
    cycles: tuple[WaitCycle[P], ...] = ()


class FabricTransition(Generic[P]):
    """The transitions of all ports of a fabric, from which `plan` makes the steps.

    *transitions* should include ports that do not change, so that no other port is cut off from them. *gaps*: allow
    that pairs are briefly cut.
    """

    def __init__(self, transitions: Iterable[PortTransition[P]], *, gaps: bool = False) -> None:
        self._kinds: list[PortKind[P]] = []
        self._partitions: list[int] = []
        self._gaps = gaps
        self._fill(transitions)
        self._waits = self._find_waits()

    def _fill(self, transitions: Iterable[PortTransition[P]]) -> None:
        bits: dict[int, int] = {}
        kinds: dict[object, PortKind[P]] = {}
        for transition in transitions:
            change = (frozenset(transition.before.items()), frozenset(transition.after.items()), transition.rooms)
            kind = kinds.get(change)
            if kind is not None:
                kind.ports.append(transition.port)
                continue
            kind = kinds[change] = PortKind([transition.port], transition.rooms)
            for base in (*transition.before, *transition.after):
                bit = bits.setdefault(base, 1 << len(bits))
                old, new = transition.before.get(base, 0), transition.after.get(base, 0)
                kind.any_before |= bit if old else 0
                kind.full_before |= bit if old == 2 else 0
                kind.any_after |= bit if new else 0
                kind.full_after |= bit if new == 2 else 0
                kind.rises |= bit if old < new else 0
                kind.drops |= bit if old > new else 0
        self._kinds = list(kinds.values())
        self._partitions = list(bits)

    def _find_waits(self) -> dict[tuple[int, int], list[int]]:
        """Return, for each rise (number of a kind, bit), the kinds that must drop in the same partition before it.

        If the order were reversed, the two kinds could talk for a time, although they may talk neither before nor after
        the change.
        """
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
                awaited = [other for other in dropping[bit] if self._may_not_meet(kind, self._kinds[other], bit)]
                if awaited:
                    waits[one, bit] = awaited
        return waits

    @staticmethod
    def _may_not_meet(one: PortKind[P], other: PortKind[P], bit: int) -> bool:
        """Return whether *one*, after its rise in the partition *bit*, could talk there to *other* before its drop,
        although the two kinds may talk neither before nor after the change.
        """
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
        """Whether any port must leave a partition, or become limited there, before another may enter it."""
        return bool(self._waits)

    def plan(self, *, additions_first: bool) -> StepSequence[P]:
        """Return the shortest sequence of steps that was found.

        Within a step the changes may be made in any order. *additions_first*: the caller makes all rises of a step
        before its drops.
        """
        if not any(kind.rises | kind.drops for kind in self._kinds):
            return StepSequence()
        if additions_first and not self._waits:
            return StepSequence([self._partitions_by_port([kind.rises | kind.drops for kind in self._kinds])])
        pairs = [] if self._gaps else self._find_pairs()
        best = self._run(pairs, additions_first)
        if additions_first:
            other = self._run(pairs, additions_first, removals_at_once=True)
            best = min(best, other, key=lambda each: (len(each.cycles), each.phases))
        return StepSequence(list(map(self._partitions_by_port, best.steps)), tuple(map(self._wait_cycle, best.cycles)))

    def _run(self, pairs: list[Pair], additions_first: bool, *, removals_at_once: bool = False) -> OrderSearch[P]:
        planning = self._rounds(pairs, additions_first)
        planning.run(removals_at_once=removals_at_once)
        if not planning.cycles:
            return planning
        drops = self._rounds(pairs, additions_first).find_first_drops(_SEARCH // len(self._kinds))
        if drops is not None:
            planning = self._rounds(pairs, additions_first)
            planning.run(first_drops=drops)
        return planning

    def _rounds(self, pairs: list[Pair], additions_first: bool) -> OrderSearch[P]:
        return OrderSearch(self._kinds, self._partitions, self._waits, pairs, additions_first)

    def _wait_cycle(self, forced: ForcedDrop) -> WaitCycle[P]:
        ports = [kind.ports for kind in self._kinds]
        pairs = [
            (a, b)
            for one, other, _ in forced.cut
            for a, b in (combinations(ports[one], 2) if one == other else product(ports[one], ports[other]))
        ]
        return WaitCycle(
            self._partition(forced.bit),
            tuple(port for number in forced.leaving for port in ports[number]),
            tuple(ports[forced.entering]) if forced.entering is not None else (),
            tuple(pairs),
            tuple(
                (tuple(ports[leaving]), self._partition(bit), tuple(ports[rise[0]]))
                for rise, leaving, bit in forced.circle
            ),
        )

    def _find_pairs(self) -> list[Pair]:
        """Return the pairs of kinds that can talk before and after the change, and that the drops alone would cut in a
        partition. The pair has all such partitions. It has none if no partition lets it talk before and after."""
        changing = [number for number, kind in enumerate(self._kinds) if kind.rises | kind.drops]
        pairs = []
        for one in changing:
            kind = self._kinds[one]
            any_least, full_least = kind.any_before & kind.any_after, kind.full_before & kind.full_after
            for other, peer in enumerate(self._kinds):
                if (other < one and peer.rises | peer.drops) or (other == one and len(kind.ports) < 2):
                    continue  # this pair is found in the other order, or the kind has one port only
                before = kind.full_before & peer.any_before | kind.any_before & peer.full_before
                after = kind.full_after & peer.any_after | kind.any_after & peer.full_after
                if not before or not after:
                    continue
                lasting = before & after
                least = full_least & peer.any_before & peer.any_after | any_least & peer.full_before & peer.full_after
                if not lasting or lasting & ~least:
                    pairs.append((one, other, lasting & ~least))
        return pairs

    def _partitions_by_port(self, changed: Sequence[int]) -> dict[P, frozenset[int]]:
        by_port: dict[P, frozenset[int]] = {}
        for kind, bits in zip(self._kinds, changed, strict=True):
            if bits:
                partitions = frozenset(self._partition(bit) for bit in bits_of(bits))
                by_port.update(dict.fromkeys(kind.ports, partitions))
        return by_port

    def _partition(self, bit: int) -> int:
        return self._partitions[bit.bit_length() - 1]
