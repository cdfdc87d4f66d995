"""The steps in which ports enter and leave partitions, without gaps or bridges in between.

A *gap* cuts two ports that may talk before and after, in a partition or, where they leave one for another, altogether.
A *bridge* joins two ports that may talk neither before nor after: where a partition is reused, one that leaves it meets
one that enters it. To avoid a gap, ports enter before they leave; to avoid a bridge, they leave before others enter.

Where a port loses or gains the limited P_Key of a partition beside the full one, its membership stays, and nobody is
concerned: it is lost in the first step and gained in the last, which leaves the most room.

In each partition a port *rises* (it enters, or limited becomes full) or *drops* (it leaves, or full becomes limited),
once. Rises let more talk and drops fewer. So a rise makes a bridge only with a drop that is still to come, whatever
else is done, and a rise that has none to wait for harms nobody: it is made at once. A drop is made when everybody whom
it could cut can talk elsewhere. What then waits for each other is a *circle*: one of its drops is made too early, and
the pairs that it cuts are named. A bridge is never made.

Pure: memberships in, memberships out. Source: IBA 10.9.3 (limited members do not talk to each other).
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
    """``states``: what each port has after each step, the last one as planned; empty where nothing changes.
    ``circles``: where a step cuts somebody all the same."""

    states: tuple[Mapping[P, frozenset[PKey]], ...]
    circles: tuple[WaitCycle[P], ...] = ()


def steps_between(
    before: Mapping[P, Collection[PKey]],
    after: Mapping[P, Collection[PKey]],
    capacity: Mapping[P, int] | None = None,
    *,
    gaps: bool = False,
) -> TableSteps[P]:
    """Return the policies to be put into force one after the other, for who writes table by table in no order: each
    table that differs goes from one state to the next in one Set, or block by block, its leaf port's before or after.

    *before* and *after*: the P_Keys of each port, also of ports that stay as they are; one that is missing has none.
    *capacity*: entries of a port's table, where that is known. *gaps*: pairs may briefly be cut; a bridge never is
    made.
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
    """Yield the way over *states* for whoever changes one partition after the other: to each state first with all that
    rises, then with all that drops, each with whether ports rise in it. Nothing is made in vain: a state that is there
    already is left out."""
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
