"""Finding the pairs of end ports that a plan must disconnect briefly, because tables are full or because ports wait for
each other in a cycle.

`ibkeys.plan.order` explains the phases in which tables are written. Within a phase, only a table without room to grow
can cut a pair: it is swapped, block by block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from ibkeys.change.wanted import EnforcementChange, Entries, TableChange
from ibkeys.plan.model import Break
from ibkeys.plan.order import TableStep, grow, phases_of, tables_without_room, write
from ibkeys.plan.port_kinds import Levels, memberships_of
from ibkeys.plan.stages import Chain, Stages, chains_of, lowest_memberships, stages_of
from ibkeys.printable import counted
from ibkeys.topology.port_id import PortId, PortKey

Timeline = Mapping[PortKey, Sequence[tuple[int, Levels]]]
"""For each table without room to grow, (number of a swap, its membership levels afterwards), in order. Number -1 has
the levels before the first swap. All swaps of a stage are numbered together."""


@dataclass(slots=True)
class _Chain:
    """The tables that a packet of an end port must pass.

    ``tables``: the table of the port, and that of its leaf port if there is one. ``without_room``: the ports of those
    tables that have no room to grow. ``steady``: the partitions that all tables of the chain have, with memberships
    that never change during the swaps; with the level of the end port. ``unsteady``: other partitions that the end port
    is in before and after. A pair can be cut only in a partition that is unsteady at one of its ports.
    """

    tables: list[TableChange]
    without_room: list[PortId]
    steady: dict[int, int] = field(default_factory=dict)
    unsteady: set[int] = field(default_factory=set)

    def classify_partitions(self, timeline: Timeline) -> None:
        """Fill ``steady`` and ``unsteady``."""
        moments = list(_moments(self.tables, timeline))
        moments += [[_levels(table.before) for table in self.tables], [_levels(table.after) for table in self.tables]]
        for partition, member in moments[-1][0].items():
            memberships = {tuple(state.get(partition, 0) for state in moment) for moment in moments}
            if len(memberships) == 1 and all(next(iter(memberships))):
                self.steady[partition] = member
            elif all(partition in _levels(table) for table in (self.tables[0].before, self.tables[0].after)):
                self.unsteady.add(partition)


def find_breaks(tables: Sequence[TableChange], enforcement: Sequence[EnforcementChange] = ()) -> tuple[Break, ...]:
    """Return the breaks that occur while *tables* are written in the order of `ibkeys.plan.order`.

    *tables* should include the tables that do not change (``plan --full``), because only pairs of ports in *tables* are
    found. *enforcement*: the enforcement of all leaf ports, changed or not; the stages depend on it. Within a stage,
    every leaf port is assumed to enforce. If a port loses a partition for a moment, but no pair of it is found, the
    port gets a break without pairs. It loses the partition if neither its own table nor that of its leaf port has room
    to grow, or if a table is swapped in several blocks.
    """
    stages = stages_of(tables, enforcement)
    if len(stages.tables) == 1:
        return _breaks_of_stage(tables)
    chains = chains_of(tables, enforcement)
    lasting = _LastingPairs(chains)
    breaks = [
        Break(
            circle.partition,
            (*circle.leaving, *circle.entering),
            tuple((_guid_of(one), _guid_of(other)) for one, other in circle.pairs),
            circle.message,
            "circle" if circle.entering else "no-room",
        )
        for circle in stages.cycles
    ]
    for stage in stages.tables:
        breaks += filter(None, map(lasting.narrow, _breaks_of_stage(stage)))
    breaks += lasting.find_breaks_between(stages)
    return tuple(breaks)


class _LastingPairs:
    """Knows which pairs of end ports may talk both before and after all stages."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._chains = chains
        self._ends = {_guid_of(chain.port): (chain.before, chain.after) for chain in chains}

    def narrow(self, stage_break: Break) -> Break | None:
        """Return a break of one stage with only those of its pairs that may talk before the first stage and after the
        last one. None if it has pairs and none of them may."""
        pairs = tuple(
            (one, other)
            for one, other in stage_break.pairs
            if all(_shared_partitions(mine, its) for mine, its in zip(self._ends[one], self._ends[other], strict=True))
        )
        if stage_break.pairs and not pairs:
            return None
        message = _message(stage_break.partition, stage_break.ports, len(pairs))
        return replace(stage_break, pairs=pairs, message=message)

    def find_breaks_between(self, stages: Stages) -> list[Break]:
        """Return the breaks at the borders between two stages, where a table lacks P_Keys for which it has no room."""
        ends = [{table.port.key: table.after for table in tables} for tables in stages.tables[:-1]]
        late = []
        for chain in self._chains:
            due = [_planned_levels(chain, changed.get(chain.port, frozenset())) for changed in stages.changed[:-1]]
            if due != [_actual_levels(chain, tables) for tables in ends]:
                late.append(chain)
        pairs_of: dict[tuple[int, PortId], list[tuple[int, int]]] = {}
        for number, one in enumerate(late):
            for other in [*(each for each in self._chains if each not in late), *late[number + 1 :]]:
                talks_before, talks_after = (
                    _shared_partitions(one.before, other.before),
                    _shared_partitions(one.after, other.after),
                )
                if not talks_before or not talks_after:
                    continue
                between = [
                    _shared_partitions(_actual_levels(one, tables), _actual_levels(other, tables)) for tables in ends
                ]
                cut = {base for base in talks_before & talks_after for met in between if base not in met}
                if not cut and not all(between):
                    cut = {min(talks_after)}
                for base in sorted(cut):
                    pairs_of.setdefault((base, one.port), []).append((_guid_of(one.port), _guid_of(other.port)))
        return [
            Break(base, (port,), tuple(pairs), _message(base, [port], len(pairs)))
            for (base, port), pairs in pairs_of.items()
        ]


def _shared_partitions(one: Levels, other: Levels) -> set[int]:
    """Return the partitions in which ports with these memberships can talk."""
    return {base for base, level in one.items() if base in other and max(level, other[base]) == 2}


def _planned_levels(chain: Chain, changed: Collection[int]) -> Levels:
    """Return the memberships of a chain when the partitions *changed* have their final ones."""
    before = {base: level for base, level in chain.before.items() if base not in changed}
    return before | {base: level for base, level in chain.after.items() if base in changed}


def _actual_levels(chain: Chain, tables: Mapping[PortKey, Entries]) -> Levels:
    """Return the memberships that *tables*, by port, give to a chain."""
    return lowest_memberships([tables[table.port.key] for table in chain.tables])


def _breaks_of_stage(tables: Sequence[TableChange]) -> tuple[Break, ...]:
    without_room = tables_without_room(tables)
    if not without_room:
        return ()
    timeline = _timeline(tables, without_room)
    by_port = {table.port.key: table for table in tables}
    chains = [_chain(table, by_port, without_room) for table in tables if not table.port.is_external]
    affected = [chain for chain in chains if chain.without_room]
    # These can be cut from any port, the other affected ones only from each other.
    fragile = [
        chain for chain in affected if len(chain.without_room) > 1 or len(timeline[chain.without_room[0].key]) > 2
    ]
    for chain in chains if fragile else affected:
        chain.classify_partitions(timeline)
    pairs_of: dict[tuple[int, tuple[PortId, ...]], list[tuple[int, int]]] = {}
    for one, other in _pairs(chains, affected, fragile):
        ports = tuple(dict.fromkeys((*one.without_room, *other.without_room)))
        for partition in _cut_partitions(one, other, timeline):
            pairs_of.setdefault((partition, ports), []).append((_guid(one), _guid(other)))
    named = {port.key for _, ports in pairs_of for port in ports}
    for chain in fragile:
        if not named & {port.key for port in chain.without_room}:
            for partition in _levels(chain.tables[0].before):
                if _is_cut_alone(chain, partition, timeline):
                    pairs_of[partition, tuple(chain.without_room)] = []
    return tuple(
        Break(partition, ports, tuple(pairs), _message(partition, ports, len(pairs)))
        for (partition, ports), pairs in pairs_of.items()
    )


def _message(partition: int, ports: Sequence[PortId], pairs: int) -> str:
    listed = ", ".join(map(str, ports[:4])) + (
        f" and {len(ports) - 4} more (all of them: plan -f json)" if len(ports) > 4 else ""
    )
    who = f"{counted(pairs, 'pair')} of ports" if pairs else "some ports"
    return (
        f"no room to change {listed} without a gap: {who} cannot talk in partition 0x{partition:04x} during the change"
    )


def _timeline(tables: Iterable[TableChange], without_room: Mapping[PortKey, TableChange]) -> Timeline:
    swaps = [step for phase in phases_of(tables) if phase.name == "swap" for step in phase.steps]
    entries_of = {key: dict(grow(table).entries) for key, table in without_room.items()}
    timeline: dict[PortKey, list[tuple[int, Levels]]] = {
        key: [(-1, _levels(table))] for key, table in entries_of.items()
    }
    for number, step in enumerate(swaps):
        assert isinstance(step, TableStep)
        write(entries_of[step.port.key], step.writes)
        timeline[step.port.key].append((number, _levels(entries_of[step.port.key])))
    return timeline


def _chain(
    end: TableChange, by_port: Mapping[PortKey, TableChange], without_room: Mapping[PortKey, TableChange]
) -> _Chain:
    leaf = by_port.get(end.peer) if end.peer is not None else None
    tables = [end, leaf] if leaf is not None and leaf.port.is_external else [end]
    return _Chain(tables, [table.port for table in tables if table.port.key in without_room])


def _pairs(
    chains: Sequence[_Chain], affected: Sequence[_Chain], fragile: Sequence[_Chain]
) -> Iterator[tuple[_Chain, _Chain]]:
    """Yield, once each, the pairs of chains in which two blocks are swapped one after the other."""
    yield from combinations(affected, 2)
    for one in fragile:
        yield from ((one, other) for other in chains if not other.without_room)


def _guid(chain: _Chain) -> int:
    return _guid_of(chain.tables[0].port)


def _guid_of(port: PortId) -> int:
    return port.port_guid if port.port_guid is not None else port.node_guid


def _moments(tables: Sequence[TableChange], timeline: Timeline) -> Iterator[list[Levels]]:
    """Yield the levels of each of *tables*, in the same order, before the first swap and after each swap of one of
    them."""
    fixed = {table.port.key: _levels(grow(table).entries) for table in tables if table.port.key not in timeline}
    times = sorted({time for table in tables for time, _ in timeline.get(table.port.key, ())})
    for time in times:
        yield [
            fixed[table.port.key]
            if table.port.key in fixed
            else [state for at, state in timeline[table.port.key] if at <= time][-1]
            for table in tables
        ]


def _cut_partitions(one: _Chain, other: _Chain, timeline: Timeline) -> list[int]:
    """Return the partitions in which a pair may talk before and after the swaps, but not at some moment in between.

    A pair that may talk in one partition before and in another afterwards, and in none at some moment, counts as cut in
    the first partition in which it may talk afterwards.
    """
    steady_in_both = one.steady.keys() & other.steady.keys()
    if any(max(one.steady[base], other.steady[base]) == 2 for base in steady_in_both) and not (
        one.unsteady & (other.unsteady | other.steady.keys()) or other.unsteady & one.steady.keys()
    ):
        return []
    tables = [*one.tables, *other.tables]
    ends = (0, len(one.tables))
    before = [_levels(table.before) for table in tables]
    after = [_levels(table.after) for table in tables]
    talks_before = [partition for partition in before[0] if _may_talk(before, ends, partition, None)]
    talks_after = [partition for partition in after[0] if _may_talk(after, ends, partition, None)]
    if not talks_before or not talks_after:
        return []
    moments = list(_moments(tables, timeline))
    cut = [
        partition
        for partition in talks_before
        if partition in talks_after and not all(_may_talk(state, ends, partition, (before, after)) for state in moments)
    ]
    if not cut and not all(any(_may_talk(state, ends, base, None) for base in state[0]) for state in moments):
        return talks_after[:1]
    return cut


def _may_talk(
    state: Sequence[Levels],
    ends: tuple[int, int],
    partition: int,
    least: tuple[Sequence[Levels], Sequence[Levels]] | None,
) -> bool:
    """Return whether both end ports are members of *partition*, one of them full, and each leaf table has it too.

    *state*: the levels of the tables of both chains. *ends*: the positions of the two end ports in *state*. *least*:
    the levels of the tables before and after the swaps; a leaf table must then have at least the lower of its two.
    """
    present = [levels.get(partition, 0) for levels in state]
    if not all(present) or max(present[ends[0]], present[ends[1]]) < 2:
        return False
    if least is None:
        return True
    return all(
        have >= min(least[0][at].get(partition, 0), least[1][at].get(partition, 0))
        for at, have in enumerate(present)
        if at not in ends
    )


def _is_cut_alone(chain: _Chain, partition: int, timeline: Timeline) -> bool:
    """Return whether a port that is in *partition* before and after the swaps loses it at some moment in between."""
    if any(partition not in _levels(table.before) or partition not in _levels(table.after) for table in chain.tables):
        return False
    return any(not all(state.get(partition, 0) for state in moment) for moment in _moments(chain.tables, timeline))


def _levels(table: Entries) -> Levels:
    return memberships_of(table.values())
