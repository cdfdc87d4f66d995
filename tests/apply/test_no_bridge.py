"""No gap and no bridge, packet by packet: what the simulator delivers after every Set of an apply, and of its undo.

Policies are drawn from few partitions, so that most plans reuse one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ibkeys.apply.apply import Permissions, plan_apply, plan_resume
from ibkeys.apply.apply_plan import FinishedApply
from ibkeys.apply.carrier import Failed
from ibkeys.apply.undo import plan_undo
from ibkeys.errors import Refused
from ibkeys.mad.const import AttributeID, Method
from ibkeys.plan.model import Break, PartitionPlan
from ibkeys.sim.notices import Packet
from ibkeys.store.paths import StorePaths
from tests.apply.applying import apply, opened, state_of
from tests.apply.lab import ALL, Lab, key_of, valid
from tests.fabricsim import set_p_key_capacity, writer
from tests.plan.plans import Table, entries, packed, tables
from tests.sample import SOAK
from tests.spy import at_sets, spy

OVERRIDES = ("index-0", "index-move", "default-pkey", "enforce-blind")
Talk = set[tuple[int, int, int]]
"""(host, host, partition), the lesser number first."""


def talk(lab: Lab, numbers: list[int]) -> Talk:
    """Which hosts get packets to each other both ways, sent through the simulated switches."""
    passed = {
        (one, other, key & 0x7FFF)
        for one in numbers
        for other in numbers
        if one != other
        for key in lab.host(one).p_keys
        if key & 0x7FFF and delivered(lab, one, other, key)
    }
    return {(a, b, base) for a, b, base in passed if a < b and (b, a, base) in passed}


def delivered(lab: Lab, one: int, other: int, key: int) -> bool:
    return lab.net.packet(Packet(lab.host(one), lab.host(other), key)).endswith(": received")


def pairs(found: Talk) -> set[tuple[int, int]]:
    return {(a, b) for a, b, _ in found}


class Watched:
    """What packets did between *before* and *after*, told after each Set."""

    def __init__(self, lab: Lab, numbers: list[int], before: Talk, after: Talk) -> None:
        self.lab, self.numbers = lab, numbers
        self.lasting, self.lasting_pairs = before & after, pairs(before) & pairs(after)
        self.acquainted = pairs(before) | pairs(after)
        self.cut: set[tuple[int, int]] = set()
        self.joined: set[tuple[int, int]] = set()
        self.named: set[tuple[int, int]] = set()

    def name(self, breaks: Iterable[Break]) -> None:
        """Note the pairs that the tool says it cuts."""
        guids = {self.lab.host(number).guid: number for number in self.numbers}
        for pair in (pair for each in breaks for pair in each.pairs if set(pair) <= guids.keys()):
            one, other = sorted(guids[guid] for guid in pair)
            self.named.add((one, other))

    def look(self, out: Any) -> None:
        now = talk(self.lab, self.numbers)
        self.cut |= pairs(self.lasting - now) | (self.lasting_pairs - pairs(now))
        self.joined |= pairs(now) - self.acquainted


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[dict[int, Table], dict[int, Table], str, str, int]:
    """Tables of hosts before and after, some of which stay; enforcement before and after; the capacity of all."""
    capacity = draw(st.sampled_from([3, 4, 64, 64, 64]))
    partitions = [*draw(st.sampled_from([(), (0x7FFF,)])), *range(1, draw(st.integers(2, 4)))]
    before, after = ({n: draw(tables(min(capacity, 3), partitions, both=True)) for n in range(1, 6)} for _ in range(2))
    for number in draw(st.sets(st.integers(1, 5), max_size=2)):
        after[number] = before[number]
    bits = st.sampled_from(["", "i", "o", "io", "io"])
    return before, after, draw(bits), draw(bits), capacity


def prepared(tables: dict[int, Table], enforce: str, capacity: int) -> Lab:
    lab = Lab()
    for node in lab.net.nodes:
        set_p_key_capacity(node, enforcement_cap=capacity) if node.is_switch else set_p_key_capacity(node, capacity)
    lab.put({**tables, 6: {}}, enforce)
    return lab


@given(fabrics(), st.sampled_from([None, 1, 2]))
@settings(max_examples=60 if SOAK else 25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_after_every_set_no_lasting_pair_is_cut_and_no_strangers_are_joined(
    case: tuple[dict[int, Table], dict[int, Table], str, str, int], first: int | None
) -> None:
    before, after, enforce_before, enforce_after, capacity = case
    lab, goal = prepared(before, enforce_before, capacity), prepared(after, enforce_after, capacity)
    numbers = sorted(before)
    changing = {number: after[number] for number in numbers if after[number] != before[number]}
    plan = lab.plan(changing, dict.fromkeys(numbers, enforce_after))
    assume(plan.pending)
    seen = Watched(lab, numbers, talk(lab, numbers), talk(goal, numbers))
    guids = {lab.host(number).guid: number for number in numbers}
    with tempfile.TemporaryDirectory() as folder, opened(lab, StorePaths(None, Path(folder) / "j.db")) as fabric:
        spy(fabric, after=at_sets(seen.look))
        named = {tuple(sorted(guids[guid] for guid in pair)) for each in plan.breaks for pair in each.pairs}
        with writer(fabric, *OVERRIDES) as w:
            w.apply(plan_apply(w, plan, Permissions(True, True, first)))
        while first is not None and state_of(fabric.stores) == "open":
            with writer(fabric, *OVERRIDES) as w:
                w.apply(work := plan_resume(w, Permissions(first=first)))
                named |= {tuple(sorted(guids[g] for g in pair)) for each in work.breaks for pair in each.pairs}
        assert seen.joined == set()
        assert seen.cut <= named
        assert talk(lab, numbers) == talk(goal, numbers)
        with writer(fabric, *OVERRIDES) as w:
            w.apply(work := plan_undo(w, breaks=True))
        named |= {tuple(sorted(guids[guid] for guid in pair)) for each in work.breaks for pair in each.pairs}
        assert seen.joined == set()
        assert seen.cut <= named


def four_tenants(lab: Lab) -> None:
    lab.put({number: entries(0, 0x8001 if number < 3 else 0x8002) for number in range(1, 5)}, "io")


def test_a_circle_is_refused_and_with_permission_cuts_its_pair_and_joins_nobody(lab: Lab, stores: StorePaths) -> None:
    four_tenants(lab)
    plan = lab.plan({number: entries(0, 0x8002 if number < 3 else 0x8001) for number in range(1, 5)})
    [each] = plan.breaks
    with opened(lab, stores) as fabric, writer(fabric, *OVERRIDES) as w, pytest.raises(Refused) as raised:
        plan_apply(w, plan, Permissions(removals=True))
    assert raised.value.interlock == "breaks"
    assert "a circle of ports that wait for each other: 'node0" in str(raised.value)
    assert str(raised.value).endswith("allow_break=True permits it, or first apply a policy that reuses no partition")
    numbers = [1, 2, 3, 4]
    seen = Watched(lab, numbers, {(1, 2, 1), (3, 4, 2)}, {(1, 2, 2), (3, 4, 1)})
    assert talk(lab, numbers) == {(1, 2, 1), (3, 4, 2)}
    with opened(lab, stores) as fabric:
        spy(fabric, after=at_sets(seen.look))
        with writer(fabric, *OVERRIDES) as w:
            w.apply(work := plan_apply(w, plan, ALL))
    assert work.breaks == plan.breaks
    assert seen.joined == set()
    assert len(seen.cut) == len(each.pairs) == 1


def test_the_way_back_through_a_circle_is_asked_for_and_the_one_that_nobody_confirmed_is_not(
    lab: Lab, stores: StorePaths
) -> None:
    four_tenants(lab)
    before = lab.image()
    plan = lab.plan({number: entries(0, 0x8002 if number < 3 else 0x8001) for number in range(1, 5)})
    with opened(lab, stores) as fabric:
        apply(fabric, plan, *OVERRIDES)
        with writer(fabric, *OVERRIDES) as w, pytest.raises(Refused) as raised:
            plan_undo(w)
        assert raised.value.interlock == "breaks"
        assert str(raised.value).startswith("a circle of ports that wait for each other: 'node0")
        with writer(fabric, *OVERRIDES, dry_run=True) as w:
            assert [each.interlock for each in plan_undo(w).refusals] == ["breaks"]
        with writer(fabric, *OVERRIDES) as w:
            w.apply(plan_undo(w, breaks=True))
        assert lab.image() == before
        run = apply(fabric, plan, *OVERRIDES, on_end=lambda run: run.plan.failed.extend(go_back(run)))
    assert not run.failed
    assert lab.image() == before


def go_back(run: FinishedApply) -> list[Failed]:
    assert run.operation.id is not None
    run.operation.journal.set_state(run.operation.id, "done")
    run.operation.keeps_state = True
    run.plan.gone_back = True
    return run.plan.carrier.go_back(run.operation).failed


def test_the_way_back_names_the_pairs_that_a_full_table_cuts_with_ports_that_stay(lab: Lab, stores: StorePaths) -> None:
    # the table of host 4 is full; P_Keys of two blocks change places, and host 5, which stays, is in the one that goes
    # before it comes
    for number in (4, 5):
        set_p_key_capacity(lab.net.node(f"node0{number} mlx4_0"), 64)
    full = entries(*range(0x8001, 0x8041))
    lab.put({4: {**full, 0: full[40], 40: full[0]}, 5: entries(0, 0x8001, 0x8029)})
    plan = lab.plan({4: full}, leaves=False)
    assert plan.breaks
    with opened(lab, stores) as fabric:
        apply(fabric, plan, *OVERRIDES)
        with writer(fabric, *OVERRIDES, dry_run=True) as w:
            work = plan_undo(w)
    assert {pair for each in work.breaks for pair in each.pairs} >= {(lab.host(4).guid, lab.host(5).guid)}


def test_another_break_of_the_same_ports_is_named_too(lab: Lab, stores: StorePaths) -> None:
    four_tenants(lab)
    plan = lab.plan({number: entries(0, 0x8002 if number < 3 else 0x8001) for number in range(1, 5)})
    [circle] = plan.breaks
    others = replace(circle, partition=0x77), replace(circle, kind="no-room")
    with opened(lab, stores) as fabric, writer(fabric, *OVERRIDES) as w:
        assert plan_apply(w, replace(plan, breaks=others), ALL).breaks == (*others, circle)
        assert plan_apply(w, replace(plan, breaks=(circle,)), ALL).breaks == (circle,)


def test_who_stays_is_read_where_a_partition_is_reused_and_only_there(lab: Lab, stores: StorePaths) -> None:
    # host 5 stays in 1 and 2; host 1 passes from 1 to 2, which host 3 leaves: 1 is in both before it leaves 1
    lab.put({1: entries(0, 0x8001), 3: entries(0, 0x8002), 5: entries(0, 0x0001, 0x0002)})
    to = {1: entries(0, 0x8002), 3: entries(0, 0x8003)}
    numbers = [1, 3, 5]
    assert talk(lab, numbers) == {(1, 5, 1), (3, 5, 2)}
    seen = Watched(lab, numbers, {(1, 5, 1), (3, 5, 2)}, {(1, 5, 2)})
    gets = []
    with opened(lab, stores) as fabric:
        left = spy(fabric, after=at_sets(seen.look))
        with writer(fabric, *OVERRIDES) as w:
            work = plan_apply(w, lab.plan({1: to[1]}), ALL)  # nobody leaves 2
            gets.append(sum(mad[3] == Method.GET and mad[17] == AttributeID.P_KEY_TABLE for mad in left))
            assert not work.remaining.other_tables
            left.clear()
            work = plan_apply(w, lab.plan(to), ALL)
            gets.append(sum(mad[3] == Method.GET and mad[17] == AttributeID.P_KEY_TABLE for mad in left))
            w.apply(work)
    assert {table.port.port_guid for table in work.remaining.other_tables} >= {lab.host(5).guid}
    assert gets[1] > 2 * gets[0]
    assert seen.joined == seen.cut == set()


def test_the_first_switches_of_a_plan_that_reuses_a_partition_are_those_of_its_first_stage(
    lab: Lab, stores: StorePaths
) -> None:
    lab.put({1: entries(0, 0x8001), 2: entries(0, 0x8001), 4: {}, 5: {}}, "io")
    plan = lab.plan({1: entries(0, 0x8002), 2: entries(0, 0x8002), 4: entries(0, 0x8001), 5: entries(0, 0x8001)})
    with opened(lab, stores) as fabric, writer(fabric, *OVERRIDES) as w:
        work = plan_apply(w, plan, Permissions(True, False, 9))
    assert [phase.name for phase in work.phases] == ["leaf-add", "end-add"]
    assert {step.port.port_guid for step in work.phases[1].steps} == {lab.host(1).guid, lab.host(2).guid}
    assert work.rest == 8


# --- leaf ports that do not mirror their end port ---------------------------------------------------------------------


def put_leaf(lab: Lab, number: int, table: Table) -> None:
    lab.leaf(number).p_keys = [table.get(index, 0) for index in range(max(table, default=-1) + 1)]


def gets_of_tables(left: list[Any]) -> int:
    return sum(mad[3] == Method.GET and mad[17] == AttributeID.P_KEY_TABLE for mad in left)


def made(lab: Lab, stores: StorePaths, plan: PartitionPlan, numbers: list[int]) -> tuple[Watched, Watched]:
    """Apply a plan and undo it; what packets did on the way there and back."""
    before = talk(lab, numbers)
    goal = Lab()
    goal.put({number: valid(lab.host(number)) for number in range(1, 7)})
    for number in range(1, 7):
        put_leaf(goal, number, valid(lab.leaf(number)))
        goal.leaf(number).inbound_enforcement = lab.leaf(number).inbound_enforcement
        goal.leaf(number).outbound_enforcement = lab.leaf(number).outbound_enforcement
    ports = {key_of(port): port for port in goal.ports}
    for table in plan.tables:
        entries = [table.after.get(index, 0) for index in range(max(table.after, default=-1) + 1)]
        ports[table.port.key].p_keys = entries
    for change in plan.enforcement:
        port = ports[change.port.key]
        port.inbound_enforcement, port.outbound_enforcement = int(change.after.inbound), int(change.after.outbound)
    after = talk(goal, numbers)
    there, back = (Watched(lab, numbers, *ends) for ends in ((before, after), (after, before)))
    with opened(lab, stores) as fabric:
        seen = [there]
        spy(fabric, after=at_sets(lambda out: seen[0].look(out)))
        with writer(fabric, *OVERRIDES) as w:
            w.apply(work := plan_apply(w, plan, ALL))
        there.name(work.breaks)
        assert talk(lab, numbers) == after
        seen[0] = back
        with writer(fabric, *OVERRIDES) as w:
            w.apply(work := plan_undo(w, breaks=True))
        back.name(work.breaks)
        assert talk(lab, numbers) == before
    return there, back


def test_an_end_port_that_the_plan_leaves_alone_counts_where_its_stale_leaf_port_changes(
    lab: Lab, stores: StorePaths
) -> None:
    # the leaf port of host 1 has 1 and gets 2, which host 1 has; host 2, which nobody in 1 knows better, leaves 2
    lab.put({1: entries(0, 0x8002), 2: entries(0, 0x8001, 0x8002), 3: entries(0, 0x8001)}, "io")
    put_leaf(lab, 1, entries(0x8001))
    full = lab.plan({1: entries(0, 0x8002), 2: entries(0, 0x8001)})
    there, back = made(lab, stores, full, [1, 2, 3])
    assert [each.joined | each.cut for each in (there, back)] == [set(), set()]


def test_a_leaf_port_that_the_plan_leaves_alone_counts_where_it_enforces(lab: Lab, stores: StorePaths) -> None:
    # host 1 and host 2 change places in 1; behind its stale leaf port host 1 never was in 1 and talks in 3 all along
    lab.put({1: entries(0, 0x8001, 0x8003), 2: entries(0, 0x8002), 3: entries(0, 0x8003), 4: entries(0, 0x8002)}, "io")
    put_leaf(lab, 1, entries(0x8002, 0x8003))
    plan = lab.plan({1: entries(0, 0x8002, 0x8003), 2: {}, 4: {}}, leaves=False)
    there, back = made(lab, stores, plan, [1, 2, 3, 4])
    assert [each.joined | each.cut for each in (there, back)] == [set(), set()]
    with opened(lab, stores) as fabric, writer(fabric, *OVERRIDES) as w:
        work = plan_apply(w, plan, ALL)
    assert key_of(lab.leaf(1)) in {table.port.key for table in work.remaining.partner_tables}


def test_no_partner_is_read_where_no_partition_is_both_gained_and_lost(lab: Lab, stores: StorePaths) -> None:
    lab.put({1: entries(0, 0x8001), 2: entries(0, 0x8001)}, "io")
    plan = lab.plan({1: entries(0, 0x8002), 2: entries(0, 0x8002)}, leaves=False)
    with opened(lab, stores) as fabric:
        left = spy(fabric)
        with writer(fabric, *OVERRIDES) as w:
            work = plan_apply(w, plan, ALL)
    assert not work.remaining.partner_tables
    assert gets_of_tables(left) == 2 * -(-lab.host(1).p_key_capacity // 32)


def test_enforcement_that_goes_off_lets_nobody_into_what_is_to_go(lab: Lab, stores: StorePaths) -> None:
    lab.put({1: entries(0, 0x8001, 0x8002), 2: entries(0, 0x8001), 3: entries(0, 0x8002)}, "io")
    put_leaf(lab, 1, entries(0x8002))
    plan = lab.plan({1: entries(0, 0, 0x8002)}, {1: ""}, leaves=False)
    there, back = made(lab, stores, plan, [1, 2, 3])
    assert [each.joined | each.cut for each in (there, back)] == [set(), set()]


def test_nor_into_what_another_is_about_to_leave(lab: Lab, stores: StorePaths) -> None:
    lab.put({1: entries(0, 0x8001), 2: entries(0, 0x8001)}, "io")
    put_leaf(lab, 1, {})
    plan = lab.plan({2: entries(0, 0x8003)}, {1: ""})
    there, back = made(lab, stores, plan, [1, 2])
    assert [each.joined | each.cut for each in (there, back)] == [set(), set()]


def test_nor_to_one_whose_leaf_port_does_not_get_what_the_end_port_has(lab: Lab, stores: StorePaths) -> None:
    # host 4 has 1 and its leaf port goes from 1 to 2; host 3 comes into 1 because enforcement before it goes off
    lab.put({3: entries(0, 0x8001, 0x8002), 4: entries(0, 0x8001)}, "io")
    put_leaf(lab, 3, {})
    plan = lab.plan({4: entries(0, 0x8002)}, {3: ""})
    leaf_only = tuple(table for table in plan.tables if table.port.is_external)
    there, back = made(lab, stores, replace(plan, tables=leaf_only), [3, 4])
    assert [each.joined | each.cut for each in (there, back)] == [set(), set()]


def test_what_a_leaf_port_has_for_a_while_goes_again_when_the_apply_is_resumed(lab: Lab, stores: StorePaths) -> None:
    # enforcement takes host 1 out of 1 before host 2 comes in: until then its leaf port has 1, which the plan lacks
    lab.put({1: entries(0, 0x8001)})
    lab.put({2: {}}, "io")
    put_leaf(lab, 1, {})
    plan = lab.plan({2: entries(0, 0x8001)}, {1: "io"})
    seen = Watched(lab, [1, 2], set(), set())
    runs = 1
    with opened(lab, stores) as fabric:
        spy(fabric, after=at_sets(seen.look))
        with writer(fabric, *OVERRIDES) as w:
            w.apply(plan_apply(w, plan, Permissions(first=1)))
        assert 0x8001 in lab.leaf(1).p_keys
        while state_of(stores) == "open":
            runs += 1
            with writer(fabric, *OVERRIDES) as w:
                w.apply(plan_resume(w, Permissions(first=1)))
    assert runs > 2
    assert seen.joined == set()
    assert 0x8001 not in lab.leaf(1).p_keys
    assert lab.leaf(1).inbound_enforcement == 1
    assert 0x8001 in lab.host(2).p_keys


@st.composite
def torn(draw: st.DrawFn) -> tuple[Lab, PartitionPlan]:
    """A fabric on which leaf ports differ from their end ports, and a plan for some of the ports. All members are full:
    what an inbound check makes of limited ones behind other leaf tables is assumed, not known."""
    keys = st.sampled_from([0x8001, 0x8002, 0x8003][: draw(st.integers(1, 3))])
    table = st.lists(keys, max_size=2, unique=True).map(lambda found: entries(0, *found))
    lab, goal = Lab(), Lab()
    hosts = {number: [draw(table), draw(table)] for number in range(1, 5)}
    bits = {number: [draw(st.sampled_from(["", "io", "io"])) for _ in range(2)] for number in hosts}
    kept = draw(st.sets(st.sampled_from(range(1, 5)), max_size=3))
    for side, each in enumerate((lab, goal)):
        for number in hosts:
            each.put({number: hosts[number][0 if number in kept else side]}, bits[number][0])
    for number in hosts:
        if draw(st.booleans()):
            for each in (lab, goal):
                put_leaf(each, number, packed(draw(table)))
    ports = [port for number in hosts for port in (lab.host(number), lab.leaf(number)) if draw(st.booleans())]
    plan = lab.plan({number: valid(goal.host(number)) for number in hosts}, {n: each[1] for n, each in bits.items()})
    changes = tuple(
        replace(change, after=valid(next(port for port in goal.ports if key_of(port) == change.port.key)))
        for change in [*plan.tables, *lab.staying([5, 6])]
        if change.port.key in set(map(key_of, ports))
    )
    found = {change.port.key: change for change in changes if change.differs}
    return lab, replace(plan, tables=tuple(found.values()), breaks=())


@given(torn())
@settings(max_examples=60 if SOAK else 25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_after_every_set_on_a_torn_fabric_nobody_is_cut_or_joined(case: tuple[Lab, PartitionPlan]) -> None:
    lab, plan = case
    assume(plan.pending)
    numbers = [1, 2, 3, 4]
    with tempfile.TemporaryDirectory() as folder:
        stores = StorePaths(None, Path(folder) / "j.db")
        there, back = made(lab, stores, plan, numbers)
    assert there.joined == back.joined == set()
    assert there.cut <= there.named
    assert back.cut <= back.named
