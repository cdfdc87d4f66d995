"""The pairs of end ports that a plan must disconnect briefly, because tables are full or ports wait for each other in a
cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from ibkeys.change.wanted import EnforcementChange, Entries, TableChange
from ibkeys.plan.kinds import Levels
from ibkeys.plan.kinds import levels as levels_of
from ibkeys.plan.model import Break
from ibkeys.plan.order import TableStep, grow, phases_of, swapped, write
from ibkeys.plan.stages import Chain, Stages, chains_of, least, stages_of
from ibkeys.printable import counted
from ibkeys.topology.port_id import PortId, PortKey

Timeline = Mapping[PortKey, Sequence[tuple[int, Levels]]]
"""For each table without room, its membership levels after each swap: (number of the swap, levels); -1 for the levels
before the first."""


@dataclass(slots=True)
class _Chain:
    """The tables that a packet of an end port must pass. ``tables``: the port's own, and that of its leaf port if there
    is one; ``tight``: those of the two that have no room.

    ``steady``: partitions whose memberships never change during the swaps, with the end port's level; ``wavering``:
    other partitions that the port is in before and after. A pair can be cut only in a partition that wavers at one of
    its ports.
    """

    tables: list[TableChange]
    tight: list[PortId]
    steady: dict[int, int] = field(default_factory=dict)
    wavering: set[int] = field(default_factory=set)

    def look(self, timeline: Timeline) -> None:
        """Fill ``steady`` and ``wavering``."""
        moments = list(_moments(self.tables, timeline))
        moments += [[_levels(table.before) for table in self.tables], [_levels(table.after) for table in self.tables]]
        for partition, member in moments[-1][0].items():
            seen = {tuple(state.get(partition, 0) for state in moment) for moment in moments}
            if len(seen) == 1 and all(next(iter(seen))):
                self.steady[partition] = member
            elif all(partition in _levels(table) for table in (self.tables[0].before, self.tables[0].after)):
                self.wavering.add(partition)


def find_breaks(tables: Sequence[TableChange], enforcement: Sequence[EnforcementChange] = ()) -> tuple[Break, ...]:
    """Return the breaks while *tables* are written in the order of `ibkeys.plan.order`.

    *tables* should include those that stay as they are (``plan --full``): pairs with other ports are not found. A leaf
    port is assumed to enforce. A port whose own table and leaf table are both too full, or whose table loses a P_Key
    for a time between two blocks, is named even if no pair of it is known.
    """
    stages = stages_of(tables, enforcement)
    if len(stages.tables) == 1:
        return _breaks_of_stage(tables)
    chains = chains_of(tables, enforcement)
    lasting = _Lasting(chains)
    found = [
        Break(
            circle.partition,
            (*circle.leaving, *circle.entering),
            tuple((_guid_of(one), _guid_of(other)) for one, other in circle.pairs),
            circle.message,
            "circle" if circle.entering else "no-room",
        )
        for circle in stages.circles
    ]
    for stage in stages.tables:
        found += filter(None, map(lasting.narrow, _breaks_of_stage(stage)))
    found += lasting.find_late(stages)
    return tuple(found)


class _Lasting:
    """The pairs that may talk before and after all stages."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._chains = chains
        self._ends = {_guid_of(chain.port): (chain.before, chain.after) for chain in chains}

    def narrow(self, found: Break) -> Break | None:
        """Return a break of one stage without the pairs that do not talk before and after all stages; None if no pair
        is left."""
        pairs = tuple(
            (one, other)
            for one, other in found.pairs
            if all(_shared_partitions(mine, its) for mine, its in zip(self._ends[one], self._ends[other], strict=True))
        )
        if found.pairs and not pairs:
            return None
        return replace(found, pairs=pairs, message=_message(found.partition, found.ports, len(pairs)))

    def find_late(self, stages: Stages) -> list[Break]:
        """Return the breaks between two stages, because a table had no room for the P_Keys that it should have by
        then."""
        ends = [{table.port.key: table.after for table in tables} for tables in stages.tables[:-1]]
        late = []
        for chain in self._chains:
            due = [_due(chain, changed.get(chain.port, frozenset())) for changed in stages.changed[:-1]]
            if due != [_now(chain, tables) for tables in ends]:
                late.append(chain)
        found: dict[tuple[int, PortId], list[tuple[int, int]]] = {}
        for number, one in enumerate(late):
            for other in [*(each for each in self._chains if each not in late), *late[number + 1 :]]:
                at_first, at_last = (
                    _shared_partitions(one.before, other.before),
                    _shared_partitions(one.after, other.after),
                )
                if not at_first or not at_last:
                    continue
                between = [_shared_partitions(_now(one, tables), _now(other, tables)) for tables in ends]
                cut = {base for base in at_first & at_last for met in between if base not in met}
                if not cut and not all(between):
                    cut = {min(at_last)}
                for base in sorted(cut):
                    found.setdefault((base, one.port), []).append((_guid_of(one.port), _guid_of(other.port)))
        return [
            Break(base, (port,), tuple(pairs), _message(base, [port], len(pairs)))
            for (base, port), pairs in found.items()
        ]


def _shared_partitions(one: Levels, other: Levels) -> set[int]:
    """Return the partitions in which ports with these memberships can talk."""
    return {base for base, level in one.items() if base in other and max(level, other[base]) == 2}


def _due(chain: Chain, changed: Collection[int]) -> Levels:
    before = {base: level for base, level in chain.before.items() if base not in changed}
    return before | {base: level for base, level in chain.after.items() if base in changed}


def _now(chain: Chain, tables: Mapping[PortKey, Entries]) -> Levels:
    return least([tables[table.port.key] for table in chain.tables])


def _breaks_of_stage(tables: Sequence[TableChange]) -> tuple[Break, ...]:
    tight = swapped(tables)
    if not tight:
        return ()
    timeline = _timeline(tables, tight)
    by_port = {table.port.key: table for table in tables}
    chains = [_chain(table, by_port, tight) for table in tables if not table.port.is_external]
    weak = [chain for chain in chains if chain.tight]
    alone = [chain for chain in weak if len(chain.tight) > 1 or len(timeline[chain.tight[0].key]) > 2]
    for chain in chains if alone else weak:
        chain.look(timeline)
    found: dict[tuple[int, tuple[PortId, ...]], list[tuple[int, int]]] = {}
    for one, other in _pairs(chains, weak, alone):
        ports = tuple(dict.fromkeys((*one.tight, *other.tight)))
        for partition in _cut(one, other, timeline):
            found.setdefault((partition, ports), []).append((_guid(one), _guid(other)))
    known = {port.key for _, ports in found for port in ports}
    for chain in alone:
        if not known & {port.key for port in chain.tight}:
            for partition in _levels(chain.tables[0].before):
                if _is_cut_alone(chain, partition, timeline):
                    found[partition, tuple(chain.tight)] = []
    return tuple(
        Break(partition, ports, tuple(pairs), _message(partition, ports, len(pairs)))
        for (partition, ports), pairs in found.items()
    )


def _message(partition: int, ports: Sequence[PortId], pairs: int) -> str:
    listed = ", ".join(map(str, ports[:4])) + (
        f" and {len(ports) - 4} more (all of them: plan -f json)" if len(ports) > 4 else ""
    )
    whom = f"{counted(pairs, 'pair')} of ports" if pairs else "some ports"
    return (
        f"no room to change {listed} without a gap: {whom} cannot talk in partition 0x{partition:04x} during the change"
    )


def _timeline(tables: Iterable[TableChange], tight: Mapping[PortKey, TableChange]) -> Timeline:
    swaps = [step for phase in phases_of(tables) if phase.name == "swap" for step in phase.steps]
    now = {key: dict(grow(table).entries) for key, table in tight.items()}
    timeline: dict[PortKey, list[tuple[int, Levels]]] = {key: [(-1, _levels(table))] for key, table in now.items()}
    for number, step in enumerate(swaps):
        assert isinstance(step, TableStep)
        write(now[step.port.key], step.writes)
        timeline[step.port.key].append((number, _levels(now[step.port.key])))
    return timeline


def _chain(end: TableChange, by_port: Mapping[PortKey, TableChange], tight: Mapping[PortKey, TableChange]) -> _Chain:
    leaf = by_port.get(end.peer) if end.peer is not None else None
    tables = [end, leaf] if leaf is not None and leaf.port.is_external else [end]
    return _Chain(tables, [table.port for table in tables if table.port.key in tight])


def _pairs(
    chains: Sequence[_Chain], weak: Sequence[_Chain], alone: Sequence[_Chain]
) -> Iterator[tuple[_Chain, _Chain]]:
    """Yield the pairs with two blocks that are swapped one after the other, each pair once."""
    yield from combinations(weak, 2)
    for one in alone:
        yield from ((one, other) for other in chains if not other.tight)


def _guid(chain: _Chain) -> int:
    return _guid_of(chain.tables[0].port)


def _guid_of(port: PortId) -> int:
    return port.port_guid if port.port_guid is not None else port.node_guid


def _moments(tables: Sequence[TableChange], timeline: Timeline) -> Iterator[list[Levels]]:
    """Yield the levels of *tables* at each moment of the swaps at which one of them changes."""
    fixed = {table.port.key: _levels(grow(table).entries) for table in tables if table.port.key not in timeline}
    times = sorted({time for table in tables for time, _ in timeline.get(table.port.key, ())})
    for time in times:
        yield [
            fixed[table.port.key]
            if table.port.key in fixed
            else [state for at, state in timeline[table.port.key] if at <= time][-1]
            for table in tables
        ]


def _cut(one: _Chain, other: _Chain, timeline: Timeline) -> list[int]:
    """Return the partitions in which a pair may talk before and after, and not at some moment of the swaps.

    A pair that leaves one partition for another, and briefly has none in common, counts as cut in the new one.
    """
    both = one.steady.keys() & other.steady.keys()
    if any(max(one.steady[base], other.steady[base]) == 2 for base in both) and not (
        one.wavering & (other.wavering | other.steady.keys()) or other.wavering & one.steady.keys()
    ):
        return []
    tables = [*one.tables, *other.tables]
    ends = (0, len(one.tables))
    before = [_levels(table.before) for table in tables]
    after = [_levels(table.after) for table in tables]
    at_first = [partition for partition in before[0] if _may_talk(before, ends, partition, None)]
    at_last = [partition for partition in after[0] if _may_talk(after, ends, partition, None)]
    if not at_first or not at_last:
        return []
    moments = list(_moments(tables, timeline))
    cut = [
        partition
        for partition in at_first
        if partition in at_last and not all(_may_talk(state, ends, partition, (before, after)) for state in moments)
    ]
    if not cut and not all(any(_may_talk(state, ends, base, None) for base in state[0]) for state in moments):
        return at_last[:1]
    return cut


def _may_talk(
    state: Sequence[Levels],
    ends: tuple[int, int],
    partition: int,
    least: tuple[Sequence[Levels], Sequence[Levels]] | None,
) -> bool:
    """Return whether both ends are members, one of them full, and every leaf table lets their packets pass. With
    *least*, a leaf table must have at least the lower one of its levels before and after."""
    found = [levels.get(partition, 0) for levels in state]
    if not all(found) or max(found[ends[0]], found[ends[1]]) < 2:
        return False
    if least is None:
        return True
    return all(
        have >= min(least[0][at].get(partition, 0), least[1][at].get(partition, 0))
        for at, have in enumerate(found)
        if at not in ends
    )


def _is_cut_alone(chain: _Chain, partition: int, timeline: Timeline) -> bool:
    if any(partition not in _levels(table.before) or partition not in _levels(table.after) for table in chain.tables):
        return False
    return any(not all(state.get(partition, 0) for state in moment) for moment in _moments(chain.tables, timeline))


def _levels(table: Entries) -> Levels:
    return levels_of(table.values())
