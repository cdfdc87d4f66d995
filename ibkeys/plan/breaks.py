"""Which pairs of end ports a plan must cut for a moment, because tables are too full for make-before-break."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ibkeys.change.wanted import TableChange
from ibkeys.plan.model import Break
from ibkeys.plan.order import TableStep, grow, levels, order_of, swapped, write
from ibkeys.topology.port_id import PortId, PortKey

Levels = Mapping[int, int]
Timeline = Mapping[PortKey, Sequence[tuple[int, Levels]]]
"""For each table without room its levels from each swap on: (number of the swap, levels), the first as -1."""


@dataclass(slots=True)
class _Chain:
    """An end port with its leaf port: what a packet of it meets. ``tight``: which of the two have no room.

    ``steady``: partitions whose memberships never change, with that of the end port; ``wavering``: the others that it
    is in before and after. A pair can be cut only in a partition that wavers at one of the two.
    """

    end: TableChange
    leaf: TableChange | None
    tight: list[PortId]
    steady: dict[int, int] = field(default_factory=dict)
    wavering: set[int] = field(default_factory=set)

    def look(self, timeline: Timeline) -> None:
        """Find out which partitions are steady."""
        tables = [table for table in (self.end, self.leaf) if table is not None]
        moments = list(_moments(tables, timeline))
        moments += [[levels(table.before) for table in tables], [levels(table.after) for table in tables]]
        for partition, member in moments[-1][0].items():
            seen = {tuple(state.get(partition, 0) for state in moment) for moment in moments}
            if len(seen) == 1 and all(next(iter(seen))):
                self.steady[partition] = member
            elif all(partition in levels(table) for table in (self.end.before, self.end.after)):
                self.wavering.add(partition)


def find_breaks(tables: Sequence[TableChange]) -> tuple[Break, ...]:
    """Return what is cut while *tables* are written in the order of `ibkeys.plan.order`.

    *tables* should include those that stay as they are (``plan --full``): pairs with ports that are not among them are
    not found. A leaf port is taken to enforce. A port whose own table and leaf table are both too full, or whose
    table loses a P_Key of its own between two blocks, is named even when no pair of it is known.
    """
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
            for partition in _lasting(chain):
                if _is_cut_alone(chain, partition, timeline):
                    found[partition, tuple(chain.tight)] = []
    return tuple(
        Break(partition, ports, tuple(pairs), _message(partition, ports, len(pairs)))
        for (partition, ports), pairs in found.items()
    )


def _message(partition: int, ports: Sequence[PortId], pairs: int) -> str:
    listed = ", ".join(map(str, ports[:4])) + (f" and {len(ports) - 4} more" if len(ports) > 4 else "")
    whom = f"{pairs} pair{'s' if pairs != 1 else ''} of ports" if pairs else "some ports"
    return f"no room to change {listed} without a gap: {whom} cannot talk in partition 0x{partition:04x} for a moment"


def _timeline(tables: Iterable[TableChange], tight: Mapping[PortKey, TableChange]) -> Timeline:
    swaps = [step for phase in order_of(tables) if phase.name == "swap" for step in phase.steps]
    now = {key: dict(grow(table).entries) for key, table in tight.items()}
    timeline: dict[PortKey, list[tuple[int, Levels]]] = {key: [(-1, levels(table))] for key, table in now.items()}
    for number, step in enumerate(swaps):
        assert isinstance(step, TableStep)
        write(now[step.port.key], step.writes)
        timeline[step.port.key].append((number, levels(now[step.port.key])))
    return timeline


def _chain(end: TableChange, by_port: Mapping[PortKey, TableChange], tight: Mapping[PortKey, TableChange]) -> _Chain:
    leaf = by_port.get(end.peer) if end.peer is not None else None
    leaf = leaf if leaf is not None and leaf.port.is_external else None
    return _Chain(end, leaf, [table.port for table in (end, leaf) if table is not None and table.port.key in tight])


def _pairs(
    chains: Sequence[_Chain], weak: Sequence[_Chain], alone: Sequence[_Chain]
) -> Iterator[tuple[_Chain, _Chain]]:
    """Yield the pairs in which two blocks are swapped one after the other, each pair once."""
    yield from combinations(weak, 2)
    for one in alone:
        yield from ((one, other) for other in chains if not other.tight)


def _guid(chain: _Chain) -> int:
    port = chain.end.port
    return port.port_guid if port.port_guid is not None else port.node_guid


def _tables(*chains: _Chain) -> list[TableChange]:
    return [table for chain in chains for table in (chain.end, chain.leaf) if table is not None]


def _lasting(chain: _Chain) -> Iterator[int]:
    before, after = levels(chain.end.before), levels(chain.end.after)
    return (partition for partition in before if partition in after)


def _moments(tables: Sequence[TableChange], timeline: Timeline) -> Iterator[list[Levels]]:
    """Yield the levels of *tables* at each moment of the swaps at which one of them changes."""
    fixed = {table.port.key: levels(grow(table).entries) for table in tables if table.port.key not in timeline}
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

    A pair that leaves one partition for another, and for a moment has none, is cut in the one it comes to.
    """
    both = one.steady.keys() & other.steady.keys()
    if any(max(one.steady[base], other.steady[base]) == 2 for base in both) and not (
        one.wavering & (other.wavering | other.steady.keys()) or other.wavering & one.steady.keys()
    ):
        return []
    tables = _tables(one, other)
    ends = (0, 2 if one.leaf is not None else 1)
    before = [levels(table.before) for table in tables]
    after = [levels(table.after) for table in tables]
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
    """Both ends are members, one of them full, and every leaf table lets them pass: what it has is at least the lesser
    of what it had and will have."""
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
    tables = _tables(chain)
    if any(partition not in levels(table.before) or partition not in levels(table.after) for table in tables):
        return False
    return any(not all(state.get(partition, 0) for state in moment) for moment in _moments(tables, timeline))
