"""No gap and no bridge, packet by packet: what the simulator delivers after every Set of an apply, and of its undo.

Policies are drawn from few partitions, so that most plans reuse one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ibkeys.apply.apply import Permissions, plan_apply, plan_resume
from ibkeys.apply.undo import plan_undo
from ibkeys.errors import Refused
from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.notices import Packet
from ibkeys.store.paths import StorePaths
from tests.apply.applying import opened, state_of
from tests.apply.lab import ALL, Lab, watch
from tests.fabricsim import writer
from tests.plan.plans import Table, entries, tables

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
        node.set_p_key_capacity(enforcement_cap=capacity) if node.is_switch else node.set_p_key_capacity(capacity)
    lab.put({**tables, 6: {}}, enforce)
    return lab


@given(fabrics(), st.sampled_from([None, 1, 2]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
        watch(fabric, seen.look)
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
            w.apply(work := plan_undo(w))
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
    assert str(raised.value).endswith(
        "--allow-break goes ahead, or go by a policy that needs no reused partition first"
    )
    numbers = [1, 2, 3, 4]
    seen = Watched(lab, numbers, {(1, 2, 1), (3, 4, 2)}, {(1, 2, 2), (3, 4, 1)})
    assert talk(lab, numbers) == {(1, 2, 1), (3, 4, 2)}
    with opened(lab, stores) as fabric:
        watch(fabric, seen.look)
        with writer(fabric, *OVERRIDES) as w:
            w.apply(work := plan_apply(w, plan, ALL))
    assert work.breaks == plan.breaks
    assert seen.joined == set()
    assert len(seen.cut) == len(each.pairs) == 1


def test_who_stays_is_read_where_a_partition_is_reused_and_only_there(lab: Lab, stores: StorePaths) -> None:
    # host 5 stays in 1 and 2; host 1 passes from 1 to 2, which host 3 leaves: 1 is in both before it leaves 1
    lab.put({1: entries(0, 0x8001), 3: entries(0, 0x8002), 5: entries(0, 0x0001, 0x0002)})
    to = {1: entries(0, 0x8002), 3: entries(0, 0x8003)}
    numbers = [1, 3, 5]
    assert talk(lab, numbers) == {(1, 5, 1), (3, 5, 2)}
    seen = Watched(lab, numbers, {(1, 5, 1), (3, 5, 2)}, {(1, 5, 2)})
    gets = []
    with opened(lab, stores) as fabric:
        left = watch(fabric, seen.look)
        with writer(fabric, *OVERRIDES) as w:
            work = plan_apply(w, lab.plan({1: to[1]}), ALL)  # nobody leaves 2
            gets.append(sum(out.mad[3] == Method.GET and out.mad[17] == AttributeID.P_KEY_TABLE for out in left))
            assert not work.remaining.others
            left.clear()
            work = plan_apply(w, lab.plan(to), ALL)
            gets.append(sum(out.mad[3] == Method.GET and out.mad[17] == AttributeID.P_KEY_TABLE for out in left))
            w.apply(work)
    assert {table.port.port_guid for table in work.remaining.others} >= {lab.host(5).guid}
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
