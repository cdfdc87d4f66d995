"""Making steps in which ports enter and leave partitions, without gaps or bridges in between.

A *gap* cuts two ports that may talk before and after the change: either in one partition, or, if they leave it for
another one, in all. A *bridge* connects two ports that may talk neither before nor after: if a partition is reused, a
port that leaves it could talk to a port that enters it. To avoid gaps, ports enter before they leave; to avoid bridges,
ports leave before others enter. A port that loses or gains the limited P_Key of a partition beside the full one keeps
its membership, and no connection is affected. Such a P_Key is lost in the first step and gained in the last, which
leaves the most room.

In each partition a port *rises* (it enters, or limited becomes full) or *drops* (it leaves, or full becomes limited),
at most once. Rises let more pairs talk, and drops fewer. So a rise can make a bridge only with a drop that is not made
yet. A rise that waits for no such drop is made at once. A drop is made when every pair that it could cut can talk in
another partition. Changes that then still wait for each other are a *cycle*: one of its drops is made although it cuts
pairs, and these are named. A bridge is never made. So every search ends. The functions are pure. Source: IBA 10.9.3
(limited members do not talk to each other).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ibkeys.keys.pkey import PKey
from ibkeys.plan.courses import FabricTransition, PortTransition, WaitCycle
from ibkeys.plan.port_kinds import TableSpace, memberships_of, partitions_with_fewer_entries

P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TableSteps(Generic[P]):
    """The steps of a change. ``states``: for each step, by port, its P_Keys after the step; the last state is the
    planned one. Empty if nothing changes. ``cycles``: the cycles in which a step cuts pairs."""

    states: tuple[Mapping[P, frozenset[PKey]], ...]
    cycles: tuple[WaitCycle[P], ...] = ()


def steps_between(
    before: Mapping[P, Collection[PKey]],
    after: Mapping[P, Collection[PKey]],
    capacity: Mapping[P, int] | None = None,
    *,
    gaps: bool = False,
) -> TableSteps[P]:
    """Return the steps from *before* to *after*, for a writer that cannot control the order within a step.

    Within a step such a writer may write the tables in any order, each at once or block by block, and the table of a
    leaf port before or after that of its end port. *before* and *after*: the P_Keys of each port, also of ports that
    stay as they are; a port that is missing has none. *capacity*: the number of entries of the table of each port, if
    known. *gaps*: allow that pairs are briefly cut; a bridge is never made.
    """
    ports = list(dict.fromkeys([*before, *after]))
    old, new = ({port: frozenset(keys.get(port, ())) for port in ports} for keys in (before, after))
    transitions = []
    for port in ports:
        room = TableSpace.of(capacity[port], old[port], new[port]) if capacity and port in capacity else None
        transitions.append(
            PortTransition(port, memberships_of(old[port]), memberships_of(new[port]), (room,) if room else ())
        )
    sequence = FabricTransition(transitions, gaps=gaps).plan(additions_first=False)
    at_once = {port: partitions_with_fewer_entries(old[port], new[port]) for port in ports}
    states = [
        {port: _partly_changed(old[port], new[port], at_once[port] | changed.get(port, frozenset())) for port in ports}
        for changed in sequence.changed
    ]
    if states or old != new:  # where a port gains or loses the limited P_Key beside the full one, no level changes
        states[-1:] = [new]
    return TableSteps(tuple(states), sequence.cycles)


def _partly_changed(old: frozenset[PKey], new: frozenset[PKey], changed: frozenset[int]) -> frozenset[PKey]:
    """Return the P_Keys of a port when the partitions *changed* are as in *new*, and all others as in *old*."""
    return frozenset({key for key in old if key.partition not in changed} | {k for k in new if k.partition in changed})


def one_partition_at_a_time(
    before: Mapping[P, frozenset[PKey]], states: Iterable[Mapping[P, frozenset[PKey]]]
) -> Iterator[tuple[bool, Mapping[P, frozenset[PKey]]]]:
    """Split each step to one of *states* into its rises and its drops, for a writer that changes one partition at a
    time.

    Yield (True, the state after the rises), then (False, the state after the drops), for each step. A part without a
    change is left out. *before*: the state before the first step.
    """
    for state in states:
        grown = {port: _after_rises(before[port], keys) for port, keys in state.items()}
        if grown != before:
            yield True, grown
        if grown != state:
            yield False, state
        before = state


def _after_rises(before: frozenset[PKey], after: frozenset[PKey]) -> frozenset[PKey]:
    """Return the P_Keys of a port after all its rises and before any of its drops."""
    old, new = memberships_of(before), memberships_of(after)
    rises = {base for base, level in new.items() if old.get(base, 0) < level}
    return _partly_changed(before, after, frozenset(rises))
