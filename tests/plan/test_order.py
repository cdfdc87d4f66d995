"""The order of writing: nobody who may talk before and after is cut in between, but for the pairs that are named, and
nobody is joined who may talk neither before nor after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.change.wanted import EnforcementChange, TableChange, moves
from ibkeys.keys.pkey import EMPTY, PKey
from ibkeys.plan.breaks import find_breaks
from ibkeys.plan.order import (
    OF_SETS,
    PHASES,
    EnforcementStep,
    PhaseName,
    PlanStep,
    TableStep,
    grow,
    order_of,
    removals,
    write,
)
from ibkeys.plan.port_kinds import memberships_of
from ibkeys.plan.stages import stages_of
from tests.plan import plans
from tests.plan.plans import Table, chain, change, entries, host, leaf, may_talk, packed, pairs_of
from tests.sample import SOAK


def names(*tables: TableChange) -> list[str]:
    return [phase.name for phase in order_of(tables)]


def test_each_phase_has_words_that_are_not_its_name() -> None:
    assert PHASES.keys() == set(get_args(PhaseName))
    assert not PHASES.keys() & set(PHASES.values())
    assert OF_SETS.keys() < PHASES.keys()


def test_adding_writes_the_leaf_port_first_and_removing_the_end_port() -> None:
    end, port = chain(1, entries(0xFFFF, 0x8001), entries(0xFFFF, 0, 0x8002))
    assert names(end, port) == ["leaf-add", "end-add", "end-remove", "leaf-remove"]


def test_a_key_that_moves_within_a_block_of_a_packed_leaf_table_moves_in_one_set() -> None:
    _, port = chain(1, entries(0xFFFF, 0x8001, 0x8002), entries(0xFFFF, 0, 0x8002))
    [remove] = order_of([port])
    assert remove.name == "leaf-remove"
    assert [step.writes for step in remove.steps] == [{1: PKey(0x8002), 2: EMPTY}]  # type: ignore[union-attr]


def test_a_key_waits_at_a_free_index_while_its_own_is_taken() -> None:
    table = change(leaf(1), entries(0xFFFF, 0x8001), entries(0xFFFF, 0x8002))
    [add, remove] = order_of([table])
    assert [step.writes for step in (*add.steps, *remove.steps)] == [  # type: ignore[union-attr]
        {2: PKey(0x8002)},
        {1: PKey(0x8002), 2: EMPTY},
    ]


def test_a_key_never_waits_at_index_0_of_an_end_port() -> None:
    table = change(host(1), entries(0, 0x8001), entries(0, 0x8002), capacity=2)
    assert grow(table).late == {1: 0x8002}
    assert not grow(change(leaf(1), entries(0, 0x8001), entries(0, 0x8002), capacity=2)).late


def test_full_to_limited_comes_with_the_removals_and_limited_to_full_with_the_additions() -> None:
    down = change(host(1), entries(0xFFFF), entries(0x7FFF))
    up = change(host(2), entries(0x7FFF), entries(0xFFFF))
    assert [(phase.name, len(phase.steps)) for phase in order_of([down, up])] == [("end-add", 1), ("end-remove", 1)]
    assert [(port, str(key)) for port, key in removals([down, up])] == [(down.port, "0xffff")]


def test_what_waits_in_one_block_for_another_is_cleared_after_it() -> None:
    full = entries(*range(0x8001, 0x8021), 0x8100)  # block 0 is full, block 1 has one
    table = change(leaf(1), full, {**full, 5: PKey(0x8200), 31: PKey(0x8100)} | {}, 64)
    table = change(leaf(1), full, {index: key for index, key in table.after.items() if index != 32}, 64)
    phases = order_of([table])
    assert [phase.name for phase in phases] == ["leaf-add", "leaf-remove", "leaf-clear"]
    assert [step.blocks for phase in phases for step in phase.steps] == [[1], [0], [1]]  # type: ignore[union-attr]


def test_enforcement_goes_off_first_and_on_last() -> None:
    end, port = chain(1, entries(0xFFFF), entries(0xFFFF, 0x8001))
    phases = order_of([end, port], [plans.enforcing(1, "i", "o"), plans.enforcing(2, "", "io")])
    assert [phase.name for phase in phases] == ["enforcement-off", "leaf-add", "end-add", "enforcement-on"]
    assert phases[0].steps == (EnforcementStep(leaf(1), False, None),)
    assert phases[-1].steps == (EnforcementStep(leaf(1), None, True), EnforcementStep(leaf(2), True, True))


def test_a_plan_without_changes_has_no_phases() -> None:
    assert order_of([change(host(1), entries(0xFFFF), entries(0xFFFF))]) == []


def test_one_full_table_between_two_ports_breaks_nothing() -> None:
    before, after = entries(0xFFFF, 0x8001), entries(0xFFFF, 0x8002)
    full = change(host(1), before, after, capacity=2)
    roomy = change(host(2), before, after)
    assert names(full, roomy) == ["end-add", "swap", "end-remove"]
    assert find_breaks([full, roomy]) == ()


def test_two_full_tables_that_leave_their_only_partition_for_another_break_their_pair() -> None:
    tables = [change(host(number), entries(0, 0x8001), entries(0, 0x8002), capacity=2) for number in (1, 2, 3)]
    [found] = find_breaks(tables[:2])
    assert (found.partition, found.pairs) == (2, ((0x101, 0x102),))
    assert {each.pairs for each in find_breaks(tables)} == {
        ((0x101, 0x102),),
        ((0x101, 0x103),),
        ((0x102, 0x103),),
    }


def test_a_full_leaf_table_of_two_blocks_cuts_a_pair_that_leaves_one_partition_for_another() -> None:
    # the old partition goes with the first block, the new one comes with the second
    rest = {index: PKey(0x9000 + index) for index in range(3, 63)}
    port = change(leaf(1), {1: PKey(0xFFFF), **rest}, {1: PKey(0x9000 + 62), **rest, 62: PKey(0x8002)}, 63)
    port = change(
        port.port,
        {0: PKey(0x9100), 2: PKey(0x9101), **port.before},
        {0: PKey(0x9100), 2: PKey(0x9101), **port.after},
        63,
    )
    ends = [change(host(n), entries(0xFFFF), entries(0x8002), peer=leaf(n).key) for n in (1, 2)]
    assert [phase.name for phase in order_of([port])] == ["swap"]
    [found] = find_breaks([port, *ends])
    assert (found.ports, found.pairs) == ((leaf(1),), ((0x101, 0x102),))


def test_two_full_tables_that_exchange_a_partition_both_hold_break_their_pair() -> None:
    # 0x8001 moves within a full table to another block while 0x8002 takes its place
    before = entries(*range(0x8001, 0x8041))
    after = {**before, 0: before[40], 40: before[0]}
    tables = [change(host(number), before, after, capacity=64) for number in (1, 2)]
    found = find_breaks(tables)
    assert {each.partition for each in found} <= {1, 41}
    assert {each.pairs for each in found} == {((0x101, 0x102),)}
    assert all(each.ports == (host(1), host(2)) for each in found)
    assert "no room to change 'host1' 0x" in found[0].message


# --- partitions that are reused ---------------------------------------------------------------------------------------


def moving(number: int, before: int, after: int) -> tuple[TableChange, TableChange]:
    """A host that leaves one partition for another, full in both; 0 for none."""
    return chain(number, entries(0, before and before | 0x8000), entries(0, after and after | 0x8000))


def test_a_former_tenant_leaves_before_the_next_one_enters() -> None:
    tables = [*moving(1, 1, 0), *moving(2, 1, 0), *moving(3, 0, 1), *moving(4, 0, 1)]
    assert names(*tables) == ["end-remove", "leaf-remove", "leaf-add", "end-add"]
    assert find_breaks(tables) == ()


def test_a_tenant_that_moves_on_gets_its_new_partition_before_it_leaves_the_one_that_is_reused() -> None:
    tables = [*moving(1, 1, 2), *moving(2, 1, 2), *moving(3, 0, 1), *moving(4, 0, 1)]
    assert names(*tables) == ["leaf-add", "end-add", "end-remove", "leaf-remove", "leaf-add", "end-add"]
    assert find_breaks(tables) == ()


def test_enforcement_goes_off_before_all_and_on_after_all_where_a_partition_is_reused() -> None:
    tables = [*moving(1, 1, 0), *moving(3, 0, 1)]
    phases = order_of(tables, [plans.enforcing(1, "i", "o"), plans.enforcing(3, "", "io")])
    assert [phase.name for phase in phases] == [
        "enforcement-off", "end-remove", "leaf-remove", "leaf-add", "end-add", "enforcement-on",
    ]  # fmt: skip


def test_a_key_stands_elsewhere_while_its_index_is_needed_for_one_that_leaves_in_a_later_stage() -> None:
    # hosts 1 and 2 leave partition 2 when both are in 3, after host 3 left that; 5 has the index of 2 in the end
    one = chain(1, entries(0, 0x8002), entries(0, 0x8005, 0x8003))
    others = [*moving(2, 2, 3), *moving(3, 3, 0), *moving(4, 6, 7), *moving(5, 6, 7), *moving(6, 0, 6)]
    now = dict(one[0].before)
    seen = []
    for phase in order_of([*one, *others]):
        for step in phase.steps:
            if step.port == one[0].port:
                write(now, step.writes)  # type: ignore[union-attr]
                seen.append(dict(now))
    assert seen == [
        entries(0, 0x8002, 0, 0x8005),
        entries(0, 0x8002, 0x8003, 0x8005),
        entries(0, 0x8005, 0x8003),
    ]


def test_tenants_that_change_places_are_a_circle_that_takes_a_break_of_its_pairs_and_joins_nobody() -> None:
    tables = [*moving(1, 1, 2), *moving(2, 1, 2), *moving(3, 2, 1), *moving(4, 2, 1)]
    [found] = find_breaks(tables)
    assert found.kind == "circle"
    assert {port.key for port in found.ports} == {host(number).key for number in (1, 2, 3, 4)}
    assert found.pairs in (((0x101, 0x102),), ((0x103, 0x104),))
    assert found.message.startswith("a circle of ports that wait for each other: 'host")
    assert found.message.count(" must leave or be limited in partition 0x") == 2


def test_index_moves_are_those_of_partitions() -> None:
    table = change(host(1), entries(0xFFFF, 0x8001), entries(0x7FFF, 0, 0x0001))
    assert moves(table.before, table.after) == [(1, 2, 0x8001)]


@given(plans.chains(), st.randoms(use_true_random=False))
@settings(max_examples=600 if SOAK else 200, deadline=None)
def test_no_pair_is_cut_that_may_talk_before_and_after_and_none_joined_that_may_not(
    found: list[tuple[TableChange, TableChange]], random: object
) -> None:
    tables = [table for pair in found for table in pair]
    now = {table.port.key: dict(table.before) for table in tables}
    ends = {number: pair[0].port.key for number, pair in enumerate(found)}
    leaves = {number: pair[1].port.key for number, pair in enumerate(found)}
    partitions = {key.partition for table in tables for key in (*table.before.values(), *table.after.values())}

    def talk(state: dict[tuple[int, int], dict[int, PKey]]) -> set[tuple[int, int, int]]:
        return {
            (one, other, partition)
            for one, other in pairs_of(ends)
            for partition in partitions
            if may_talk([state[ends[one]], state[ends[other]]], [state[leaves[one]], state[leaves[other]]], partition)
        }

    def pairs(talking: set[tuple[int, int, int]]) -> set[tuple[int, int]]:
        return {(one, other) for one, other, _ in talking}

    before, after = talk(now), talk({table.port.key: dict(table.after) for table in tables})
    lasting, lasting_pairs = before & after, pairs(before) & pairs(after)
    acquainted = pairs(before) | pairs(after)
    guids = {number: pair[0].port.port_guid for number, pair in enumerate(found)}
    named = {
        (*sorted(pair), each.partition)
        for each in find_breaks(tables)
        for pair in each.pairs  # type: ignore[misc]
    }
    reused = len(stages_of(tables).tables) > 1
    for phase in order_of(tables):
        writes = []
        for step in phase.steps:
            assert isinstance(step, TableStep)
            for block in step.blocks:
                writes.append((step.port.key, {i: key for i, key in step.writes.items() if i // 32 == block}))
        if phase.name != "swap":
            random.shuffle(writes)  # type: ignore[attr-defined]
        for port, block in writes:
            write(now[port], block)
            assert not pairs(talk(now)) - acquainted
            cut = lasting - talk(now)
            cut_guids = {(*sorted((guids[one], guids[other])), partition) for one, other, partition in cut}  # type: ignore[type-var]
            assert cut_guids <= named
            lost = {tuple(sorted((guids[one], guids[other]))) for one, other in lasting_pairs - pairs(talk(now))}  # type: ignore[type-var]
            assert lost <= {pair[:2] for pair in named}
            assert phase.name == "swap" or reused or not (cut or lost)
    assert now == {table.port.key: dict(table.after) for table in tables}
    if named and not reused:
        assert any(phase.name == "swap" for phase in order_of(tables))


# --- leaf ports that do not mirror their end port ---------------------------------------------------------------------


def passing(end: Mapping[int, PKey], leaf: Mapping[int, PKey] | None) -> dict[int, int]:
    """What counts of an end port: of it and an enforcing leaf port the lesser membership."""
    mine = memberships_of(end.values())
    if leaf is None:
        return mine
    its = memberships_of(leaf.values())
    return {base: min(mine[base], its[base]) for base in mine.keys() & its.keys()}


def talking(passed: Mapping[int, Mapping[int, int]]) -> set[tuple[int, int, int]]:
    return {
        (one, other, base)
        for one, other in pairs_of(passed)
        for base in passed[one].keys() & passed[other].keys()
        if max(passed[one][base], passed[other][base]) == 2
    }


@dataclass
class Walk:
    """Hosts with leaf ports, written Set by Set in the order of `order_of`; what happened to pairs on the way."""

    chains: list[tuple[TableChange, TableChange]]
    enforcement: list[EnforcementChange]
    cut: set[tuple[int, int]] = field(default_factory=set)
    joined: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.tables = [table for pair in self.chains for table in pair]
        self.now = {table.port.key: dict(table.before) for table in self.tables}
        self.bits = {each.port.key: [each.before.inbound, each.before.outbound] for each in self.enforcement}

    @property
    def capacity(self) -> dict[tuple[int, int], int]:
        return {table.port.key: table.capacity for table in self.tables}

    def talk(self) -> set[tuple[int, int, int]]:
        return talking(
            {
                end.port.port_guid or 0: passing(
                    self.now[end.port.key], self.now[leaf.port.key] if any(self.bits[leaf.port.key]) else None
                )
                for end, leaf in self.chains
            }
        )

    def go(self, random: Random) -> None:
        before = self.talk()
        goal = Walk(
            [(replace(end, before=end.after), replace(leaf, before=leaf.after)) for end, leaf in self.chains],
            [replace(each, before=each.after) for each in self.enforcement],
        )
        after = goal.talk()
        lasting, acquainted = before & after, pairs(before) | pairs(after)
        for write_one in self.writes(random):
            write_one()
            now = self.talk()
            self.joined |= pairs(now) - acquainted
            self.cut |= pairs(lasting - now) | (pairs(before) & pairs(after) - pairs(now))
            assert all(index < self.capacity[key] for key, table in self.now.items() for index in table)
        assert (self.now, self.bits) == (goal.now, goal.bits)

    def writes(self, random: Random) -> Iterator[Callable[[], None]]:
        for phase in order_of(self.tables, self.enforcement):
            found = [one for step in phase.steps for one in self.of_step(step)]
            if phase.name != "swap":
                random.shuffle(found)
            yield from found

    def of_step(self, step: PlanStep) -> list[Callable[[], None]]:
        if isinstance(step, EnforcementStep):
            return [partial(self.set_bits, step)]
        blocks = [{i: key for i, key in step.writes.items() if i // 32 == block} for block in step.blocks]
        return [partial(write, self.now[step.port.key], block) for block in blocks]

    def set_bits(self, step: EnforcementStep) -> None:
        old = self.bits[step.port.key]
        self.bits[step.port.key] = [
            was if bit is None else bit for was, bit in zip(old, (step.inbound, step.outbound), strict=True)
        ]


def pairs(talk: set[tuple[int, int, int]]) -> set[tuple[int, int]]:
    return {(one, other) for one, other, _ in talk}


@st.composite
def walks(draw: st.DrawFn) -> Walk:
    """Tables of leaf ports that are often not like that of their end port; some tables stay. Some have little room, and
    then no limited P_Key: what a full table with one lets pass on the way, `find_breaks` only estimates."""
    is_tight = draw(st.booleans())
    full = [*range(0x8001, 0x8001 + draw(st.integers(1, 4)))]
    keys = st.sampled_from(full if is_tight else [*full, *range(1, 4)])
    table = st.lists(keys, max_size=3, unique_by=lambda key: key & 0x7FFF).map(lambda found: entries(*found))
    bits = st.sampled_from(["", "i", "o", "io", "io"])
    chains, enforcement = [], []
    for number in range(1, draw(st.integers(2, 4)) + 1):
        ends = [draw(table)] * 2 if draw(st.integers(0, 3)) == 0 else [draw(table), draw(table)]
        leaves = [draw(table) if draw(st.integers(0, 2)) == 0 else packed(end) for end in ends]
        rooms = [draw(st.sampled_from([max(2, *map(len, each)), 4])) if is_tight else 64 for each in (ends, leaves)]
        chains.append(
            (
                change(host(number), *ends, rooms[0], leaf(number).key),
                change(leaf(number), *leaves, rooms[1], host(number).key),
            )
        )
        enforcement.append(plans.enforcing(number, draw(bits), draw(bits)))
    return Walk(chains, enforcement)


def lone(number: int, end: tuple[Table, Table], port: tuple[Table, Table], room: int = 64) -> list[TableChange]:
    """A host and its leaf port, whose tables have nothing to do with each other."""
    return [
        change(host(number), *end, peer=leaf(number).key),
        change(leaf(number), *port, room, host(number).key),
    ]


def test_enforcement_goes_off_after_what_the_leaf_port_blocked_is_gone() -> None:
    tables = [*lone(1, (entries(0x8001), {}), ({}, {})), *chain(2, entries(0x8001), entries(0x8001))]
    off = [plans.enforcing(1, "io", ""), plans.enforcing(2, "io", "io")]
    assert [phase.name for phase in order_of(tables, off)] == ["end-remove", "enforcement-off"]
    assert find_breaks(tables, off) == ()


def test_it_goes_off_after_another_has_left_what_the_leaf_port_blocked_and_the_leaf_port_has_what_comes() -> None:
    # host 1 keeps 1, which its leaf port lacks, and comes into it with the end of enforcement; host 2 leaves it
    tables = [*lone(1, (entries(0x8001), entries(0x8001)), ({}, {})), *chain(2, entries(0x8001), {})]
    off = [plans.enforcing(1, "io", ""), plans.enforcing(2, "io", "io")]
    assert [phase.name for phase in order_of(tables, off)] == [
        "end-remove", "leaf-remove", "leaf-add", "enforcement-off", "leaf-remove",
    ]  # fmt: skip
    assert find_breaks(tables, off) == ()


def test_enforcement_comes_on_first_where_the_leaf_port_will_not_have_what_comes() -> None:
    tables = [*lone(1, ({}, entries(0x8001)), ({}, {})), *chain(2, entries(0x8001), entries(0x8001))]
    on = [plans.enforcing(1, "", "i"), plans.enforcing(2, "io", "io")]
    assert [phase.name for phase in order_of(tables, on)] == ["enforcement-on", "end-add"]


def test_no_room_for_what_the_leaf_port_must_have_meanwhile_is_a_break_of_the_pairs_that_wait_for_it() -> None:
    # 1 and 2 talk in 1 before and in 2 after, which only the end of enforcement at the full leaf port 1 opens
    tables = [
        *lone(1, (entries(0x8001, 0x8002), entries(0, 0x8002)), (entries(0x8001), entries(0x8009)), 1),
        *chain(2, entries(0x8001, 0x8002), entries(0x8001, 0x8002)),
        *chain(3, entries(0x8002), {}),
    ]
    off = [plans.enforcing(1, "io", ""), *(plans.enforcing(number, "io", "io") for number in (2, 3))]
    [found] = find_breaks(tables, off)
    assert (found.kind, found.pairs) == ("no-room", ((0x101, 0x102),))


def test_a_table_loses_what_the_other_one_of_its_link_gets_before_that_gets_it() -> None:
    tables = [
        *lone(1, (entries(0x8001), {}), ({}, entries(0x8001))),
        *chain(2, entries(0x8001), entries(0x8001)),
    ]
    enforcement = [plans.enforcing(number, "io", "io") for number in (1, 2)]
    assert [phase.name for phase in order_of(tables, enforcement)] == ["end-remove", "leaf-add"]


@given(walks(), st.randoms(use_true_random=False))
@settings(max_examples=600 if SOAK else 200, deadline=None)
def test_neither_gap_nor_bridge_where_leaf_ports_do_not_mirror_and_enforcement_goes_on_and_off(
    walk: Walk, random: Random
) -> None:
    named = {(min(pair), max(pair)) for each in find_breaks(walk.tables, walk.enforcement) for pair in each.pairs}
    walk.go(random)
    assert walk.joined == set()
    assert walk.cut <= named


@given(plans.chains())
def test_no_key_that_stays_at_its_index_is_ever_written(found: list[tuple[TableChange, TableChange]]) -> None:
    for table in (table for pair in found for table in pair):
        staying = {index for index, key in table.before.items() if table.after.get(index) == key}
        for phase in order_of([table]):
            for step in phase.steps:
                assert isinstance(step, TableStep)
                assert not staying & set(step.writes)
                assert all(index < table.capacity for index in step.writes)
