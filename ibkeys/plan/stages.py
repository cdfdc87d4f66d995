"""Splitting a plan into stages if it reuses a partition: with intermediate tables, each reached like a plan of its own.

A plan that reuses no partition has one stage, which is itself. Otherwise `ibkeys.plan.courses` says which partitions of
which ports change in which stage, and this module computes the entries of each table. A P_Key whose planned index is
still taken by one that is removed later gets an index of its own or a free one until then. If a table has no free
index, the P_Key is added later than it should be. That may cut a pair, and `ibkeys.plan.breaks` names the pair; it
never connects one wrongly.

For an end port behind an enforcing leaf port, the lower of both memberships counts. The table of a leaf port whose
enforcement is not known counts only if it mirrors its end port before or after.

Enforcement is switched off before everything else and on after everything else. That has no effect by itself if the
leaf port has all P_Keys of its end port. If it lacks one, switching would connect or cut pairs at the wrong time. Then
the order is reversed, off last and on first, and in between the leaf table counts; if switching would have an effect
even then, the leaf port gets all P_Keys of its end port for that time (`Chain.turned`). If one of two tables loses a
partition that the other gets, it loses it first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ibkeys.change.wanted import EnforcementChange, Entries, TableChange
from ibkeys.keys.pkey import FULL_BIT, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.courses import FabricTransition, PortTransition, WaitCycle
from ibkeys.plan.kinds import Levels, TableSpace, levels, thinned
from ibkeys.topology.port_id import PortId, PortKey


@dataclass(frozen=True, slots=True)
class Chain:
    """A port with the tables that its packets must pass: that of an end port, then that of its leaf port if it counts.
    ``before`` and ``after``: its memberships. ``turned``: enforcement that is switched on before everything else and
    off after everything else, while the leaf port has the table in ``tables``.
    """

    tables: tuple[TableChange, ...]
    before: Levels
    after: Levels
    turned: EnforcementChange | None = None

    @classmethod
    def of(cls, *tables: TableChange) -> Chain:
        """Return the chain of tables that all count, before and after."""
        return cls(tables, least([table.before for table in tables]), least([table.after for table in tables]))

    @property
    def port(self) -> PortId:
        """The end port; or the leaf port, if its end port is not known."""
        return self.tables[0].port


def least(tables: Sequence[Entries]) -> Levels:
    """Return the partitions that all tables have, each with the lowest of its memberships."""
    first, *others = (levels(table.values()) for table in tables)
    shared = (base for base in first if all(base in other for other in others))
    return {base: min([first[base], *(other[base] for other in others)]) for base in shared}


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a plan. ``tables``: for each stage all tables, as they are when it begins and when it ends.
    ``changed``: for each stage the partitions of each port that are as planned when it ends. ``circles``: the cycles in
    which pairs are cut. ``turned``: the leaf ports whose enforcement is switched on in the first stage and off in the
    last one, instead of off in the first and on in the last."""

    tables: tuple[tuple[TableChange, ...], ...]
    changed: tuple[dict[PortId, frozenset[int]], ...]
    circles: tuple[WaitCycle[PortId], ...] = ()
    turned: frozenset[PortKey] = frozenset()


def chains_of(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> list[Chain]:
    """Return the chains that tables belong to, sorted by port, so that the same tables always give the same order.
    *enforcement*: also that of leaf ports whose enforcement stays, if known.
    """
    by_port = {table.port.key: table for table in tables}
    known = {each.port.key: each for each in enforcement}
    chains, paired = [], set[PortKey]()
    for table in by_port.values():
        leaf = by_port.get(table.peer) if table.peer is not None and not table.port.is_external else None
        if leaf is not None and leaf.port.is_external:
            paired.add(leaf.port.key)
            chains.append(_chain(table, leaf, known.get(leaf.port.key)))
        elif not table.port.is_external:
            chains.append(Chain.of(table))
    chains += [Chain.of(table) for table in by_port.values() if table.port.is_external and table.port.key not in paired]
    return sorted(chains, key=lambda chain: chain.port.key)


def enforces_all_along(change: EnforcementChange) -> bool:
    """Return whether a leaf port enforces in one direction before and after. Then no pair can talk that may not."""
    before, after = change.before, change.after
    return (before.inbound and after.inbound) or (before.outbound and after.outbound)


def _chain(end: TableChange, leaf: TableChange, enforcement: EnforcementChange | None) -> Chain:
    if enforcement is None:
        return Chain.of(end, leaf) if _is_mirrored(end, leaf) else Chain.of(end)
    before, after = enforcement.before, enforcement.after
    if enforces_all_along(enforcement):
        return Chain.of(end, leaf)
    at_first, at_last = before.inbound or before.outbound, after.inbound or after.outbound
    if (not at_first or _lets_pass(end.before, leaf.before)) and (not at_last or _lets_pass(end.after, leaf.after)):
        return Chain.of(end)
    turned = replace(
        leaf,
        before=leaf.before if at_first else _covering(leaf.before, end.before, leaf, leaf.after),
        after=leaf.after if at_last else _covering(leaf.after, end.after, leaf, leaf.before),
    )
    return Chain(
        (end, turned),
        least([end.before, leaf.before] if at_first else [end.before]),
        least([end.after, leaf.after] if at_last else [end.after]),
        enforcement,
    )


def _is_mirrored(end: TableChange, leaf: TableChange) -> bool:
    return any(
        levels(mine.values()) == levels(its.values())
        for mine, its in ((end.before, leaf.before), (end.after, leaf.after))
    )


def _lets_pass(end: Entries, leaf: Entries) -> bool:
    has = levels(leaf.values())
    return all(has.get(base, 0) >= level for base, level in levels(end.values()).items())


def _covering(entries: Entries, end: Entries, leaf: TableChange, other: Entries) -> Entries:
    """Return the table of a leaf port with all P_Keys of its end port, as far as it has room: each at the index that it
    has in *other*, the leaf port's table at the other end of the change, else at a free one."""
    covering, has = dict(entries), levels(entries.values())
    for base, level in levels(end.values()).items():
        if has.get(base, 0) >= level:
            continue
        key = PKey(base | (FULL_BIT if level == 2 else 0))
        own = [index for index, old in entries.items() if old.partition == base]
        index = own[0] if own else _waiting_place(covering, other, leaf, base, 0)
        if index is not None:
            covering[index] = key
    return covering


def reuses_partitions(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> bool:
    """Return whether a port must leave a partition before another enters it, or a leaf port has no room for the P_Keys
    that its enforcement needs in the meantime. Then the tables of all other ports matter too. Tables that stay do not
    affect the result."""
    chains = chains_of(tables, enforcement)
    return FabricTransition(_courses(chains)).reuses or any(map(_has_no_room, chains))


def _has_no_room(chain: Chain) -> bool:
    if chain.turned is None:
        return False
    standing = Chain.of(*chain.tables)
    return (standing.before, standing.after) != (chain.before, chain.after)


def _courses(chains: Iterable[Chain]) -> list[PortTransition[PortId]]:
    found = []
    for chain in chains:
        rooms = [
            TableSpace.of(table.capacity, table.before.values(), table.after.values())
            for table in chain.tables
            if table.differs
        ]
        found.append(
            PortTransition(chain.port, chain.before, chain.after, tuple(room for room in rooms if room is not None))
        )
    return found


def stages_of(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> Stages:
    """Return the stages of a plan. *tables* should include those that stay, so that no pair with their ports is cut."""
    tables = tuple(tables)
    chains = chains_of(tables, enforcement)
    way = FabricTransition(_courses(chains)).plan(additions_first=True)
    turned = frozenset(chain.turned.port.key for chain in chains if chain.turned is not None)
    early, late = _out_of_turn(chains)
    if len(way.changed) < 2 and not (turned or early or late):
        return Stages((tables,), tuple(way.changed), way.circles)
    owner = {chain.tables[0].peer: chain.port for chain in chains if chain.tables[0].peer is not None}
    owner |= {table.port.key: chain.port for chain in chains for table in chain.tables}
    staged = {table.port.key: table for chain in chains for table in chain.tables if chain.turned is not None}
    between = way.changed or [{}]
    all_changed = [*([{}] if turned or early else []), *between, *(between[-1:] if turned or late else [])]
    last = len(all_changed) - (2 if turned or late else 1)
    now: dict[PortKey, Entries] = {table.port.key: table.before for table in tables}
    stages = []
    for number, changed in enumerate(all_changed):
        stage = []
        for table in tables:
            key = table.port.key
            held = staged.get(key, table)
            goal = table.after
            if number < len(all_changed) - 1 and (table.differs or held.differs):
                mine = changed.get(owner.get(key, table.port), frozenset()) | early.get(key, frozenset())
                mine |= thinned(held.before.values(), held.after.values())
                if number == last:
                    mine = frozenset(entry.partition for entry in (*now[key].values(), *held.after.values()))
                start = held.before if number == 0 and key in staged else now[key]
                goal = _between(start, held, mine - late.get(key, frozenset()))
            is_written = table.differs or held.differs
            stage.append(replace(table, before=now[key], after=goal) if is_written else table)
            now[key] = goal
        stages.append(tuple(stage))
    return Stages(tuple(stages), tuple(all_changed), way.circles, turned)


def _out_of_turn(chains: Iterable[Chain]) -> tuple[dict[PortKey, frozenset[int]], dict[PortKey, frozenset[int]]]:
    """Return, by port, the partitions that a table loses before everything else, and those that it gets after
    everything else, because the other table of its chain gets, or loses, the same partition. If both had it, more
    packets would pass than before and afterwards."""
    early: dict[PortKey, frozenset[int]] = {}
    late: dict[PortKey, frozenset[int]] = {}
    for chain in chains:
        if len(chain.tables) < 2 or not all(table.differs for table in chain.tables):
            continue
        end, leaf = chain.tables
        (e0, e1), (l0, l1) = ([levels(entries.values()) for entries in (t.before, t.after)] for t in (end, leaf))
        if e0 == l0 or e1 == l1:
            continue
        for base in e0.keys() | e1.keys():
            ends, leaves = ((each[0].get(base, 0), each[1].get(base, 0)) for each in ((e0, e1), (l0, l1)))
            before, after = map(min, zip(ends, leaves, strict=True))
            if min(max(ends), max(leaves)) <= max(before, after):
                continue
            loses, gets = (end, leaf) if ends[0] > ends[1] else (leaf, end)
            if before > after:
                late[gets.port.key] = late.get(gets.port.key, frozenset()) | {base}
            else:
                early[loses.port.key] = early.get(loses.port.key, frozenset()) | {base}
    return early, late


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
    """Return the index of a P_Key whose planned index is taken: the present index of its partition, else a free one, if
    possible in the same block and planned for no other P_Key; None if there is none. Index 0 of an end port is not
    used, because IPoIB uses the P_Key there."""
    own = [at for at, key in sorted(now.items()) if key.partition == base and at not in entries]
    block = index // P_KEYS_PER_BLOCK
    free = [at for at in range(table.capacity) if at not in entries and (at or table.port.is_external)]
    free.sort(key=lambda at: (at in table.after, at // P_KEYS_PER_BLOCK != block, at))
    return next(iter([*own, *free]), None)
