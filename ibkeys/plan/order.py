"""The order in which the tables of a plan are written, so that two promises hold at every moment, but for the pairs
that `find_breaks` names. Pairs of ports that may talk before and after stay connected, and pairs that may talk neither
before nor after never become connected.

Each table passes through three states: present, *grown*, planned. A grown table has every P_Key of the present and of
the planned state, each with the stronger of its two memberships. While tables grow, each has at least its former
P_Keys; while they shrink, each has at least its planned ones. No table shrinks before all have grown. So no order
within a phase can cut a pair.

If one port leaves a partition that another enters, grown tables would connect the two, although they must not talk.
Such a plan is carried out in stages (`ibkeys.plan.stages`), each with phases of its own: the first port leaves in an
earlier stage than the other enters.

A P_Key whose planned index is still taken by another P_Key waits at a free index. So it is briefly in the table twice,
but never absent. If no index is free, the table cannot grow. It is then *swapped*, block by block, after all other
tables have grown and before any shrinks. One such table between two ports cuts no pair, because a block is written at
once. Two such tables may cut a pair: `find_breaks` names the ports and pairs. The functions are pure. Sources: IBA
10.9.3 (membership), 14.2.5.7 (one Set writes 32 entries).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ibkeys.change.wanted import EnforcementChange, Entries, TableChange
from ibkeys.keys.pkey import EMPTY, FULL_BIT, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.port_kinds import memberships_of
from ibkeys.plan.stages import stages_of
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId, PortKey

PhaseName = Literal[
    "enforcement-off",
    "leaf-add",
    "end-add",
    "swap",
    "end-remove",
    "end-clear",
    "leaf-remove",
    "leaf-clear",
    "enforcement-on",
    "rewrite",
    "between",
    "policy",
    "former",
    "members-add",
    "members-remove",
    "members-set",
]
OF_SETS: Final[Mapping[str, str]] = {
    "enforcement-off": "enforcement off",
    "leaf-add": "additions, leaf ports",
    "end-add": "additions, end ports",
    "swap": "replacements in full tables",
    "end-remove": "removals, end ports",
    "end-clear": "removals, end ports, second part",
    "leaf-remove": "removals, leaf ports",
    "leaf-clear": "removals, leaf ports, second part",
    "enforcement-on": "enforcement on",
}
"""The phases in which ibkeys itself sends Sets, with their names in messages."""
PHASES: Final[Mapping[str, str]] = {
    **OF_SETS,
    "rewrite": "a policy that makes OpenSM rewrite every table",
    "between": "an intermediate policy",
    "policy": "the policy of the plan",
    "former": "the former policy",
    "members-add": "members added to UFM's partitions",
    "members-remove": "members removed from UFM's partitions",
    "members-set": "members of UFM's partitions, all at once",
}
"""All phases with their names in messages: first those of Sets, then policies for OpenSM, then calls to UFM."""
ADDING: Final[frozenset[PhaseName]] = frozenset({"enforcement-off", "leaf-add", "end-add"})
"""The phases of a stage in which tables only gain P_Keys. After them every table with room has grown."""


@dataclass(frozen=True, slots=True)
class TableStep:
    """A step of a phase: entries to write into the table of one port. `EMPTY` clears an entry. The blocks may be
    written in any order."""

    port: PortId
    writes: Entries

    @property
    def blocks(self) -> list[int]:
        """The numbers of the blocks that the step writes, in order."""
        return sorted({index // P_KEYS_PER_BLOCK for index in self.writes})


@dataclass(frozen=True, slots=True)
class EnforcementStep:
    """A step of a phase: enforcement bits to write at one port. None leaves a direction as it is."""

    port: PortId
    inbound: bool | None
    outbound: bool | None


PlanStep = TableStep | EnforcementStep


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps that may be made in any order and at the same time, except that steps of ``swap`` are made one after the
    other, in this order. The next phase begins when all steps are verified.
    """

    name: PhaseName
    steps: tuple[PlanStep, ...]


@dataclass(frozen=True, slots=True)
class GrownTable:
    """A table with its former and its planned entries. ``late``: the planned entries for which the table has no
    room."""

    entries: Entries
    late: Entries


def order_of(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange] = ()) -> list[Phase]:
    """Return the phases in which *tables* and *enforcement* are written, in order. Phases without a step are left out.

    If ports leave a partition that others enter, *tables* should include the tables that do not change, and
    *enforcement* the leaf ports whose enforcement does not change. Otherwise pairs with these ports may be disconnected
    for a moment.
    """
    enforcement = tuple(enforcement)
    stages = stages_of(tables, enforcement)
    reversed_ones = [each for each in enforcement if each.port.key in stages.turned]
    others = [each for each in enforcement if each.port.key not in stages.turned]
    phases: list[Phase] = []
    for number, stage in enumerate(stages.tables):
        is_first, is_last = number == 0, number == len(stages.tables) - 1
        off = [*(others if is_first else ()), *(reversed_ones if is_last else ())]
        on = [*(reversed_ones if is_first else ()), *(others if is_last else ())]
        phases += phases_of(stage, off, on)
    return phases


def phases_of(
    tables: Iterable[TableChange], off: Iterable[EnforcementChange] = (), on: Iterable[EnforcementChange] = ()
) -> list[Phase]:
    """Return the phases of one stage, in order. *off*: the changes of which the stage makes those that switch
    enforcement off; *on*: the changes of which it makes those that switch enforcement on."""
    steps: dict[PhaseName, list[PlanStep]] = {name: [] for name in _IN_ORDER}
    for table in sorted(tables, key=lambda table: table.port.is_external):
        if not table.differs:
            continue
        grown = grow(table)
        if table.port.is_external:
            names: tuple[PhaseName, PhaseName, PhaseName] = ("leaf-add", "leaf-remove", "leaf-clear")
        else:
            names = ("end-add", "end-remove", "end-clear")
        parts = {names[0]: _difference(table.before, grown.entries)}
        if grown.late:
            for block in _swaps(grown.entries, table.after):
                steps["swap"].append(TableStep(table.port, block))
        else:
            parts[names[1]], parts[names[2]] = _shrink(grown.entries, table.after)
        for name, writes in parts.items():
            if writes:
                steps[name].append(TableStep(table.port, writes))
    for name, changes, wanted in (("enforcement-off", off, False), ("enforcement-on", on, True)):
        for change in changes:
            bits = _bits_becoming(wanted, change.before, change.after)
            if bits != (None, None):
                steps[name].append(EnforcementStep(change.port, *bits))
    return [Phase(name, tuple(steps[name])) for name in _IN_ORDER if steps[name]]


_IN_ORDER: Final[tuple[PhaseName, ...]] = get_args(PhaseName)


def grow(table: TableChange) -> GrownTable:
    """Return a table with its former and its planned entries, as far as it has room for both."""
    before, after = table.before, table.after
    grown = dict(before)
    waiting: list[tuple[int, PKey]] = []
    for index in sorted(after):
        old, new = before.get(index), after[index]
        if old is None:
            grown[index] = new
        elif old.partition == new.partition:
            grown[index] = PKey(old | new)
        else:
            waiting.append((index, new))
    late: dict[int, PKey] = {}
    for index, key in waiting:
        if not (_has_stand_in(grown, after, key) or _put_aside(grown, table, index, key)):
            late[index] = key
    return GrownTable(grown, late)


def _has_stand_in(grown: dict[int, PKey], after: Entries, key: PKey) -> bool:
    """Return whether the table already has a P_Key of the partition of *key* that may stand in for it for now. If *key*
    is full, that P_Key is made full, where its index has no planned entry.
    """
    for index, present in grown.items():
        if present.partition != key.partition:
            continue
        if index not in after:
            grown[index] = PKey(present | key)
            return True
        if after[index] in (key, PKey(key | FULL_BIT)):
            return True
    return False


def _put_aside(grown: dict[int, PKey], table: TableChange, index: int, key: PKey) -> bool:
    """Put *key* at a free index, if possible in the block of *index*, its planned index; return whether an index was
    free. Index 0 of an end port is not used, because IPoIB uses the P_Key there."""
    block = index // P_KEYS_PER_BLOCK * P_KEYS_PER_BLOCK
    own = range(block, min(block + P_KEYS_PER_BLOCK, table.capacity))
    for free in (*own, *range(table.capacity)):
        if free not in grown and free not in table.after and (free or table.port.is_external):
            grown[free] = key
            return True
    return False


def _difference(before: Entries, after: Entries) -> dict[int, PKey]:
    return {
        index: after.get(index, EMPTY) for index in sorted({*before, *after}) if before.get(index) != after.get(index)
    }


def _shrink(grown: Entries, after: Entries) -> tuple[dict[int, PKey], dict[int, PKey]]:
    """Return the entries to write first, and those to write second, to change the table *grown* into *after*.

    If a P_Key waits in a block until its planned index in another block is written, the entries of the first block are
    cleared second.
    """
    first: dict[int, PKey] = {}
    later: dict[int, PKey] = {}
    blocks_cleared_later = {
        index // P_KEYS_PER_BLOCK
        for index in grown
        if index not in after and _waits_for_other_block(index, grown, after)
    }
    for index, key in _difference(grown, after).items():
        is_later = key == EMPTY and index // P_KEYS_PER_BLOCK in blocks_cleared_later
        (later if is_later else first)[index] = key
    return first, later


def _waits_for_other_block(index: int, grown: Entries, after: Entries) -> bool:
    """Return whether the P_Key at *index*, an entry to clear, has its planned index in another block, and is not there
    yet."""
    partition = grown[index].partition
    homes = [home for home, key in after.items() if key.partition == partition]
    homes = [home for home in homes if after[home].is_full] or homes
    is_there = any(home in grown and grown[home].partition == partition for home in homes)
    return bool(homes) and not is_there and all(home // P_KEYS_PER_BLOCK != index // P_KEYS_PER_BLOCK for home in homes)


def _swaps(grown: Entries, after: Entries) -> Iterator[dict[int, PKey]]:
    """Yield the changes from *grown* to *after*, block by block. First come blocks that take no membership away that
    the port has now and in *after*."""
    open_blocks: dict[int, dict[int, PKey]] = {}
    for index, key in _difference(grown, after).items():
        open_blocks.setdefault(index // P_KEYS_PER_BLOCK, {})[index] = key
    now = dict(grown)
    lasting = memberships_of(after.values())
    while open_blocks:
        number = next(
            (each for each in open_blocks if _keeps_memberships(now, open_blocks[each], lasting)),
            next(iter(open_blocks)),
        )
        block = open_blocks.pop(number)
        write(now, block)
        yield block


def _keeps_memberships(now: Entries, block: Entries, lasting: Mapping[int, int]) -> bool:
    """Return whether writing *block* into the table *now* leaves the memberships that it has of *lasting*."""
    written = dict(now)
    write(written, block)
    later, present = memberships_of(written.values()), memberships_of(now.values())
    return all(later.get(base, 0) >= min(level, present.get(base, 0)) for base, level in lasting.items())


def write(table: dict[int, PKey], writes: Entries) -> None:
    """Write the entries *writes* into *table*; `EMPTY` removes an entry."""
    for index, key in writes.items():
        if key:
            table[index] = key
        else:
            table.pop(index, None)


def _bits_becoming(wanted: bool, before: Enforcement, after: Enforcement) -> tuple[bool | None, bool | None]:
    """Return (inbound, outbound), each *wanted* if that bit changes to *wanted*, else None."""
    return (
        wanted if before.inbound != wanted == after.inbound else None,
        wanted if before.outbound != wanted == after.outbound else None,
    )


def new_members(tables: Iterable[TableChange]) -> dict[int, set[PortKey]]:
    """Return, by the number of a partition, the ports that get a P_Key of it and do not have one in any form."""
    found: dict[int, set[PortKey]] = {}
    for table in tables:
        had = {key.partition for key in table.before.values()}
        for key in table.after.values():
            if key.partition not in had:
                found.setdefault(key.partition, set()).add(table.port.key)
    return found


def removals(tables: Iterable[TableChange]) -> Iterator[tuple[PortId, PKey]]:
    """Yield (port, P_Key) for each P_Key that a port loses. A change from full to limited counts as a loss of the full
    P_Key; a change from limited to full is no loss."""
    for table in tables:
        remaining = set(table.after.values())
        for key in dict.fromkeys(table.before.values()):
            if key not in remaining and PKey(key | FULL_BIT) not in remaining:
                yield table.port, key


def tables_without_room(tables: Collection[TableChange]) -> dict[tuple[int, int], TableChange]:
    """Return the tables that change and have no room to grow, by port."""
    return {table.port.key: table for table in tables if table.differs and grow(table).late}


def sets_of(step: PlanStep) -> int:
    """Return the number of Sets that a step takes."""
    return 1 if isinstance(step, EnforcementStep) else len(step.blocks)
