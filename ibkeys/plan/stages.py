"""From the tables of a plan to stages: where a partition is reused, tables in between, each reached as a plan would be.

A plan that reuses no partition has one stage, which is itself. Otherwise `ibkeys.plan.courses` says which partitions of
which ports change in which stage; here each table gets its entries for that. A P_Key whose planned index is still taken
by one that goes later stands at an index of its own or a free one until then. Where a table has no free index, the
P_Key comes later than it should: that may cut a pair, and `ibkeys.plan.breaks` names it; it joins nobody.

What counts of an end port behind a leaf port is the lesser of both memberships. A leaf port is taken to enforce unless
the plan says otherwise, and counts only where it mirrors its end port before or after.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ibkeys.change.wanted import EnforcementChange, Entries, TableChange
from ibkeys.keys.pkey import FULL_BIT, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.courses import Circle, Course, Courses
from ibkeys.plan.kinds import Levels, Room, levels, thinned
from ibkeys.topology.port_id import PortId, PortKey


@dataclass(frozen=True, slots=True)
class Chain:
    """A port and what its packets must pass: the table of an end port, then of its leaf port where that counts."""

    tables: tuple[TableChange, ...]

    @property
    def port(self) -> PortId:
        """The end port; a leaf port whose end port is not known."""
        return self.tables[0].port

    @property
    def before(self) -> Levels:
        """Its memberships before."""
        return least([table.before for table in self.tables])

    @property
    def after(self) -> Levels:
        """Its memberships after."""
        return least([table.after for table in self.tables])


def least(tables: Sequence[Entries]) -> Levels:
    """Return the partitions that all tables have, each with the least of its memberships."""
    first, *others = (levels(table.values()) for table in tables)
    shared = (base for base in first if all(base in other for other in others))
    return {base: min([first[base], *(other[base] for other in others)]) for base in shared}


@dataclass(frozen=True, slots=True)
class Stages:
    """``tables``: for each stage all tables, as they are when it begins and when it ends. ``changed``: for each stage
    the partitions of each port that are as planned when it ends."""

    tables: tuple[tuple[TableChange, ...], ...]
    changed: tuple[dict[PortId, frozenset[int]], ...]
    circles: tuple[Circle[PortId], ...] = ()


def chains_of(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> list[Chain]:
    """Return the chains that tables belong to, by port, so that whoever knows the same tables finds the same order."""
    by_port = {table.port.key: table for table in tables}
    lets_pass = {each.port.key for each in enforcement if not _enforces_all_along(each)}
    chains, paired = [], set[PortKey]()
    for table in by_port.values():
        leaf = by_port.get(table.peer) if table.peer is not None and not table.port.is_external else None
        if leaf is not None and leaf.port.is_external:
            paired.add(leaf.port.key)
            counts = leaf.port.key not in lets_pass and _is_mirrored(table, leaf)
            chains.append(Chain((table, leaf) if counts else (table,)))
        elif not table.port.is_external:
            chains.append(Chain((table,)))
    chains += [Chain((table,)) for table in by_port.values() if table.port.is_external and table.port.key not in paired]
    return sorted(chains, key=lambda chain: chain.port.key)


def _enforces_all_along(change: EnforcementChange) -> bool:
    before, after = change.before, change.after
    return (before.inbound and after.inbound) or (before.outbound and after.outbound)


def _is_mirrored(end: TableChange, leaf: TableChange) -> bool:
    return any(
        levels(mine.values()) == levels(its.values())
        for mine, its in ((end.before, leaf.before), (end.after, leaf.after))
    )


def reuses_partitions(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> bool:
    """Return whether a port must leave a partition before another enters it. Only tables that change decide that."""
    return Courses(_courses(chains_of(tables, enforcement))).reuses


def _courses(chains: Iterable[Chain]) -> list[Course[PortId]]:
    found = []
    for chain in chains:
        rooms = [
            Room.of(table.capacity, table.before.values(), table.after.values())
            for table in chain.tables
            if table.differs
        ]
        found.append(Course(chain.port, chain.before, chain.after, tuple(room for room in rooms if room is not None)))
    return found


def stages_of(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> Stages:
    """Return the stages of a plan; the tables that stay should be among *tables*, so that nobody is cut from them."""
    tables = tuple(tables)
    chains = chains_of(tables, enforcement)
    way = Courses(_courses(chains)).plan(additions_first=True)
    if len(way.changed) < 2:
        return Stages((tables,), tuple(way.changed), way.circles)
    owner = {chain.tables[0].peer: chain.port for chain in chains if chain.tables[0].peer is not None}
    owner |= {table.port.key: chain.port for chain in chains for table in chain.tables}
    now: dict[PortKey, Entries] = {table.port.key: table.before for table in tables}
    stages = []
    for number, changed in enumerate(way.changed):
        stage = []
        for table in tables:
            key = table.port.key
            goal = table.after
            if number < len(way.changed) - 1 and table.differs:
                mine = changed.get(owner.get(key, table.port), frozenset())
                goal = _between(now[key], table, mine | thinned(table.before.values(), table.after.values()))
            stage.append(replace(table, before=now[key], after=goal) if table.differs else table)
            now[key] = goal
        stages.append(tuple(stage))
    return Stages(tuple(stages), tuple(way.changed), way.circles)


def _between(now: Entries, table: TableChange, changed: Collection[int]) -> Entries:
    """Return the entries of a table in which the partitions *changed* are as planned, and the others as they are."""
    entries = {index: key for index, key in now.items() if key.partition not in changed}
    wanted: dict[int, dict[int, PKey]] = {}
    for index, key in table.after.items():
        if key.partition in changed:
            wanted.setdefault(key.partition, {})[index] = key
    waiting = {}
    for base, places in wanted.items():
        at_once = {index: key for index, key in places.items() if index not in entries}
        entries |= at_once
        strongest = max(places.values(), key=lambda key: key & FULL_BIT)
        if strongest not in at_once.values():
            waiting[base] = strongest
    for base, key in waiting.items():
        place = _waiting_place(entries, now, table, base, min(wanted[base]))
        if place is not None:
            entries[place] = key
    return entries


def _waiting_place(entries: Entries, now: Entries, table: TableChange, base: int, index: int) -> int | None:
    """Return where a P_Key stands whose index is taken: where its partition stands now, else at a free index, of the
    same block and planned for no other if there is one. Not at index 0 of an end port: IPoIB looks there."""
    own = [at for at, key in sorted(now.items()) if key.partition == base and at not in entries]
    block = index // P_KEYS_PER_BLOCK
    free = [at for at in range(table.capacity) if at not in entries and (at or table.port.is_external)]
    free.sort(key=lambda at: (at in table.after, at // P_KEYS_PER_BLOCK != block, at))
    return next(iter([*own, *free]), None)
