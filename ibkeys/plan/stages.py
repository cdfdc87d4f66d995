"""Splitting a plan that reuses a partition into stages. Each stage but the last ends with intermediate tables, and each
is carried out like a plan of its own.

A plan that reuses no partition has a single stage. Otherwise `ibkeys.plan.courses` decides which partitions of which
ports change in which stage, and this module computes the entries of each table. If the planned index of a P_Key is
still taken by a P_Key that is removed later, the new P_Key waits at the present index of its partition or at a free
index. If a table has no free index, the P_Key is added later than it should be. That may cut a pair, which
`ibkeys.plan.breaks` names, but it never connects a pair wrongly.

For an end port behind an enforcing leaf port, the lower of both memberships counts. The table of a leaf port whose
enforcement is not known counts only if it has the same memberships as its end port, before or after the change.

Enforcement is usually switched off in the first stage and on in the last. If the leaf port has all P_Keys of its end
port, the switching itself has no effect. If the leaf port lacks one, switching would connect or cut pairs at the wrong
time. Then the order is reversed: enforcement is switched on first and off last, and the leaf table counts in between
(`Chain.turned`). If switching would have an effect even then, the leaf port gets all P_Keys of its end port for that
time. If one of the two tables loses a partition that the other gets, the loss comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ibkeys.change.wanted import EnforcementChange, Entries, TableChange
from ibkeys.keys.pkey import FULL_BIT, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.courses import FabricTransition, PortTransition, WaitCycle
from ibkeys.plan.port_kinds import Levels, TableSpace, memberships_of, partitions_with_fewer_entries
from ibkeys.topology.port_id import PortId, PortKey


@dataclass(frozen=True, slots=True)
class Chain:
    """An end port with the tables that its packets must pass: its own, then that of its leaf port if that counts.

    ``before`` and ``after``: the memberships that the tables give together. ``turned``: None, or the enforcement of the
    leaf port if it is switched on in the first stage and off in the last; in between the leaf port has its table from
    ``tables``.
    """

    tables: tuple[TableChange, ...]
    before: Levels
    after: Levels
    turned: EnforcementChange | None = None

    @classmethod
    def of(cls, *tables: TableChange) -> Chain:
        """Return the chain of *tables*, all of which count before and after the change."""
        return cls(
            tables,
            lowest_memberships([table.before for table in tables]),
            lowest_memberships([table.after for table in tables]),
        )

    @property
    def port(self) -> PortId:
        """The end port, or the leaf port if the table of its end port is not known."""
        return self.tables[0].port


def lowest_memberships(tables: Sequence[Entries]) -> Levels:
    """Return the partitions that all *tables* have, each with its lowest membership in any of them."""
    first, *others = (memberships_of(table.values()) for table in tables)
    shared = (base for base in first if all(base in other for other in others))
    return {base: min([first[base], *(other[base] for other in others)]) for base in shared}


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a plan.

    ``tables``: for each stage, all tables with their entries before and after the stage. ``changed``: for each stage,
    by port, the partitions that are as planned when the stage ends. ``cycles``: the cycles in which pairs are cut.
    ``turned``: the leaf ports whose enforcement is switched on in the first stage and off in the last, instead of off
    in the first and on in the last.
    """

    tables: tuple[tuple[TableChange, ...], ...]
    changed: tuple[dict[PortId, frozenset[int]], ...]
    cycles: tuple[WaitCycle[PortId], ...] = ()
    turned: frozenset[PortKey] = frozenset()


def chains_of(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> list[Chain]:
    """Return the chains of *tables*, sorted by port, so that the same tables always give the same order. *enforcement*:
    the known enforcement of leaf ports, changed or not."""
    by_port = {table.port.key: table for table in tables}
    enforcement_of = {each.port.key: each for each in enforcement}
    chains, paired = [], set[PortKey]()
    for table in by_port.values():
        leaf = by_port.get(table.peer) if table.peer is not None and not table.port.is_external else None
        if leaf is not None and leaf.port.is_external:
            paired.add(leaf.port.key)
            chains.append(_chain(table, leaf, enforcement_of.get(leaf.port.key)))
        elif not table.port.is_external:
            chains.append(Chain.of(table))
    chains += [Chain.of(table) for table in by_port.values() if table.port.is_external and table.port.key not in paired]
    return sorted(chains, key=lambda chain: chain.port.key)


def enforces_all_along(change: EnforcementChange) -> bool:
    """Return whether a leaf port enforces in the same direction before and after the change. Then its table counts
    throughout."""
    before, after = change.before, change.after
    return (before.inbound and after.inbound) or (before.outbound and after.outbound)


def _chain(end: TableChange, leaf: TableChange, enforcement: EnforcementChange | None) -> Chain:
    if enforcement is None:
        return Chain.of(end, leaf) if _is_mirrored(end, leaf) else Chain.of(end)
    before, after = enforcement.before, enforcement.after
    if enforces_all_along(enforcement):
        return Chain.of(end, leaf)
    enforced, will_enforce = before.inbound or before.outbound, after.inbound or after.outbound
    if (not enforced or _lets_pass(end.before, leaf.before)) and (
        not will_enforce or _lets_pass(end.after, leaf.after)
    ):
        return Chain.of(end)
    widened = replace(
        leaf,
        before=leaf.before if enforced else _with_keys_of_end(leaf.before, end.before, leaf, leaf.after),
        after=leaf.after if will_enforce else _with_keys_of_end(leaf.after, end.after, leaf, leaf.before),
    )
    return Chain(
        (end, widened),
        lowest_memberships([end.before, leaf.before] if enforced else [end.before]),
        lowest_memberships([end.after, leaf.after] if will_enforce else [end.after]),
        enforcement,
    )


def _is_mirrored(end: TableChange, leaf: TableChange) -> bool:
    """Return whether both tables have the same memberships, before or after the change."""
    return any(
        memberships_of(mine.values()) == memberships_of(its.values())
        for mine, its in ((end.before, leaf.before), (end.after, leaf.after))
    )


def _lets_pass(end: Entries, leaf: Entries) -> bool:
    """Return whether the table of a leaf port has every partition of its end port with at least the same membership."""
    of_leaf = memberships_of(leaf.values())
    return all(of_leaf.get(base, 0) >= level for base, level in memberships_of(end.values()).items())


def _with_keys_of_end(entries: Entries, end: Entries, leaf: TableChange, other: Entries) -> Entries:
    """Return *entries* of a leaf port with all P_Keys of its end port added, as far as there is room.

    A partition that the leaf port has keeps its index. Any other gets the index that it has in *other*, the table of
    the leaf port at the other end of the change, else a free index.
    """
    covering, present = dict(entries), memberships_of(entries.values())
    for base, level in memberships_of(end.values()).items():
        if present.get(base, 0) >= level:
            continue
        key = PKey(base | (FULL_BIT if level == 2 else 0))
        own = [index for index, old in entries.items() if old.partition == base]
        index = own[0] if own else _waiting_index(covering, other, leaf, base, 0)
        if index is not None:
            covering[index] = key
    return covering


def reuses_partitions(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> bool:
    """Return whether a port must leave a partition before another enters it, or a leaf port has no room for the P_Keys
    that it needs while enforcement is switched (`Chain.turned`).

    If true, a plan needs the tables of all other ports too. Tables that stay do not affect the result.
    """
    chains = chains_of(tables, enforcement)
    return FabricTransition(_transitions(chains)).reuses or any(map(_lacks_room, chains))


def _lacks_room(chain: Chain) -> bool:
    if chain.turned is None:
        return False
    actual = Chain.of(*chain.tables)
    return (actual.before, actual.after) != (chain.before, chain.after)


def _transitions(chains: Iterable[Chain]) -> list[PortTransition[PortId]]:
    transitions = []
    for chain in chains:
        rooms = [
            TableSpace.of(table.capacity, table.before.values(), table.after.values())
            for table in chain.tables
            if table.differs
        ]
        transitions.append(
            PortTransition(chain.port, chain.before, chain.after, tuple(room for room in rooms if room is not None))
        )
    return transitions


def stages_of(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> Stages:
    """Return the stages of a plan. *tables* should include tables that stay, so that no pair with their ports is cut.
    *enforcement*: as in `chains_of`.
    """
    tables = tuple(tables)
    chains = chains_of(tables, enforcement)
    sequence = FabricTransition(_transitions(chains)).plan(additions_first=True)
    turned = frozenset(chain.turned.port.key for chain in chains if chain.turned is not None)
    early, late = _early_losses_and_late_gains(chains)
    if len(sequence.changed) < 2 and not (turned or early or late):
        return Stages((tables,), tuple(sequence.changed), sequence.cycles)
    owner = {chain.tables[0].peer: chain.port for chain in chains if chain.tables[0].peer is not None}
    owner |= {table.port.key: chain.port for chain in chains for table in chain.tables}
    staged = {table.port.key: table for chain in chains for table in chain.tables if chain.turned is not None}
    between = sequence.changed or [{}]
    all_changed = [*([{}] if turned or early else []), *between, *(between[-1:] if turned or late else [])]
    last = len(all_changed) - (2 if turned or late else 1)
    now: dict[PortKey, Entries] = {table.port.key: table.before for table in tables}
    stages = []
    for number, changed in enumerate(all_changed):
        stage = []
        for table in tables:
            key = table.port.key
            goal_table = staged.get(key, table)
            target = table.after
            if number < len(all_changed) - 1 and (table.differs or goal_table.differs):
                partitions = changed.get(owner.get(key, table.port), frozenset()) | early.get(key, frozenset())
                partitions |= partitions_with_fewer_entries(goal_table.before.values(), goal_table.after.values())
                if number == last:
                    partitions = frozenset(
                        entry.partition for entry in (*now[key].values(), *goal_table.after.values())
                    )
                start = goal_table.before if number == 0 and key in staged else now[key]
                target = _stage_entries(start, goal_table, partitions - late.get(key, frozenset()))
            is_written = table.differs or goal_table.differs
            stage.append(replace(table, before=now[key], after=target) if is_written else table)
            now[key] = target
        stages.append(tuple(stage))
    return Stages(tuple(stages), tuple(all_changed), sequence.cycles, turned)


def _early_losses_and_late_gains(
    chains: Iterable[Chain],
) -> tuple[dict[PortKey, frozenset[int]], dict[PortKey, frozenset[int]]]:
    """Return, by port, the partitions that a table loses before all other changes, and those that it gets after all
    others.

    These are partitions that one table of a chain loses and the other gets. If both tables had such a partition at the
    same time, more packets would pass than before and after the change.
    """
    early: dict[PortKey, frozenset[int]] = {}
    late: dict[PortKey, frozenset[int]] = {}
    for chain in chains:
        if len(chain.tables) < 2 or not all(table.differs for table in chain.tables):
            continue
        end, leaf = chain.tables
        (e0, e1), (l0, l1) = (
            [memberships_of(entries.values()) for entries in (t.before, t.after)] for t in (end, leaf)
        )
        if e0 == l0 or e1 == l1:
            continue
        for base in e0.keys() | e1.keys():
            ends, leaves = ((each[0].get(base, 0), each[1].get(base, 0)) for each in ((e0, e1), (l0, l1)))
            before, after = map(min, zip(ends, leaves, strict=True))
            if min(max(ends), max(leaves)) <= max(before, after):
                continue
            losing, gaining = (end, leaf) if ends[0] > ends[1] else (leaf, end)
            if before > after:
                late[gaining.port.key] = late.get(gaining.port.key, frozenset()) | {base}
            else:
                early[losing.port.key] = early.get(losing.port.key, frozenset()) | {base}
    return early, late


def _stage_entries(now: Entries, table: TableChange, changed: Collection[int]) -> Entries:
    """Return the entries of *table* in which the partitions *changed* are as planned, and all others as in *now*.

    A P_Key whose planned index is taken waits at another one; without a free index it is left out.
    """
    entries = {index: key for index, key in now.items() if key.partition not in changed}
    wanted: dict[int, dict[int, PKey]] = {}
    for index, key in table.after.items():
        if key.partition in changed:
            wanted.setdefault(key.partition, {})[index] = key
    waiting = {}
    for base, planned in wanted.items():
        fitting = {index: key for index, key in planned.items() if index not in entries}
        entries |= fitting
        strongest = max(planned.values(), key=lambda key: key & FULL_BIT)
        if strongest not in fitting.values():
            waiting[base] = strongest
    for base, key in waiting.items():
        place = _waiting_index(entries, now, table, base, min(wanted[base]))
        if place is not None:
            entries[place] = key
    return entries


def _waiting_index(entries: Entries, now: Entries, table: TableChange, base: int, index: int) -> int | None:
    """Return the index at which a P_Key waits while *index*, its planned one, is taken; None if no index is free.

    It is the present index of its partition *base* in *now*, else a free one, if possible in the same block and planned
    for no other P_Key. Index 0 of an end port is not used, because IPoIB uses the P_Key there.
    """
    own = [at for at, key in sorted(now.items()) if key.partition == base and at not in entries]
    block = index // P_KEYS_PER_BLOCK
    free = [at for at in range(table.capacity) if at not in entries and (at or table.port.is_external)]
    free.sort(key=lambda at: (at in table.after, at // P_KEYS_PER_BLOCK != block, at))
    return next(iter([*own, *free]), None)
