"""The steps in which ports enter and leave partitions, without gaps or bridges in between.

A *gap* cuts two ports that may talk before and after, in a partition or, if they leave one for another, altogether. A
*bridge* connects two ports that may talk neither before nor after: if a partition is reused, a port that leaves it can
talk to one that enters it. To avoid a gap, ports enter before they leave; to avoid a bridge, they leave before others
enter. If a port loses or gains the limited P_Key of a partition beside the full one, its membership stays, and no
connection is affected: it is lost in the first step and gained in the last, which leaves the most room.

In each partition a port *rises* (it enters, or limited becomes full) or *drops* (it leaves, or full becomes limited),
once. Rises let more pairs talk, and drops fewer. So a rise makes a bridge only with a drop that is not made yet, and a
rise that has no drop to wait for is harmless and made at once. A drop is made when every pair that it could cut can
talk in another partition. Changes that then still wait for each other are a *cycle*: one of its drops is made too
early, and the pairs that it cuts are named. A bridge is never made. The functions are pure. Source: IBA 10.9.3 (limited
members do not talk to each other).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ibkeys.keys.pkey import PKey
from ibkeys.plan.courses import FabricTransition, PortTransition, WaitCycle
from ibkeys.plan.kinds import TableSpace, levels, thinned

P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TableSteps(Generic[P]):
    """The steps of a change. ``states``: the P_Keys of each port after each step, the last one as planned; empty if
    nothing changes. ``circles``: the cycles in which a step cuts pairs."""

    states: tuple[Mapping[P, frozenset[PKey]], ...]
    circles: tuple[WaitCycle[P], ...] = ()


def steps_between(
    before: Mapping[P, Collection[PKey]],
    after: Mapping[P, Collection[PKey]],
    capacity: Mapping[P, int] | None = None,
    *,
    gaps: bool = False,
) -> TableSteps[P]:
    """Return the states to be put into force one after the other, for a writer that writes table by table in any order:
    each table that differs changes from one state to the next in one Set, or block by block, its leaf port's table
    before or after it.

    *before* and *after*: the P_Keys of each port, also of ports that stay as they are; a port that is missing has none.
    *capacity*: entries of a port's table, if known. *gaps*: pairs may briefly be cut; a bridge is never made.
    """
    ports = list(dict.fromkeys([*before, *after]))
    had, gets = ({port: frozenset(keys.get(port, ())) for port in ports} for keys in (before, after))
    courses = []
    for port in ports:
        room = TableSpace.of(capacity[port], had[port], gets[port]) if capacity and port in capacity else None
        courses.append(PortTransition(port, levels(had[port]), levels(gets[port]), (room,) if room else ()))
    found = FabricTransition(courses, gaps=gaps).plan(additions_first=False)
    at_once = {port: thinned(had[port], gets[port]) for port in ports}
    states = [
        {port: _mixed(had[port], gets[port], at_once[port] | changed.get(port, frozenset())) for port in ports}
        for changed in found.changed
    ]
    if states or had != gets:  # where a port gains or loses the limited P_Key beside the full one, no level changes
        states[-1:] = [gets]
    return TableSteps(tuple(states), found.circles)


def _mixed(had: frozenset[PKey], gets: frozenset[PKey], changed: frozenset[int]) -> frozenset[PKey]:
    return frozenset({key for key in had if key.partition not in changed} | {k for k in gets if k.partition in changed})


def one_partition_at_a_time(
    before: Mapping[P, frozenset[PKey]], states: Iterable[Mapping[P, frozenset[PKey]]]
) -> Iterator[tuple[bool, Mapping[P, frozenset[PKey]]]]:
    """Yield the states between *states* for a writer that changes one partition after the other: for each of *states*
    first the one after all rises, then the one after all drops, each with a flag that says whether ports rise. A state
    that is reached already is left out."""
    for state in states:
        grown = {port: _grown(before[port], keys) for port, keys in state.items()}
        if grown != before:
            yield True, grown
        if grown != state:
            yield False, state
        before = state


def _grown(before: frozenset[PKey], after: frozenset[PKey]) -> frozenset[PKey]:
    """Return the P_Keys after all rises and before any drop."""
    was, will = levels(before), levels(after)
    rises = {base for base, level in will.items() if was.get(base, 0) < level}
    return _mixed(before, after, frozenset(rises))
