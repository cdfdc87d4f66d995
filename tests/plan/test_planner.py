"""Plans: enforcement, indexes that stay, what is reported, how pairs are counted."""

from __future__ import annotations

import pytest

from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.reach.count import ReachCounts
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.enforcement import Enforcement
from tests.fabricsim import between_switches, set_p_key_capacity
from tests.plan.planning import (
    NODE02,
    OPEN,
    SM,
    TWO_SWITCH,
    end_tables,
    leaf_tables,
    perform,
    plan_of,
    problems,
    sm_at,
    sweep,
)

SWITCH1, SWITCH2 = 0x2C90200401000, 0x2C90200401040


def test_a_fabric_that_is_as_the_policy_says_has_nothing_to_change_but_enforcement() -> None:
    plan = plan_of(OPEN)
    assert plan.tables == ()
    assert [change.after for change in plan.enforcement] == [Enforcement(True, True)] * 6
    assert not plan_of(OPEN, enforce="off").pending


@pytest.mark.parametrize(
    ("enforce", "after"), [("both", (True, True)), ("in", (True, False)), ("out", (False, True)), ("off", None)]
)
def test_enforcement_is_planned_on_leaf_ports_only(enforce: str, after: tuple[bool, bool] | None) -> None:
    plan = plan_of("X=5 : ALL_CAS=full ;", enforce=enforce)
    assert {change.port.key for change in plan.enforcement} == set(
        [(guid, port) for guid in (SWITCH1, SWITCH2) for port in (1, 2, 3)] if after else []
    )
    assert all(change.after == Enforcement(*after) for change in plan.enforcement if after)
    assert bool(leaf_tables(plan)) == (after is not None)


def test_enforcement_off_clears_the_bits_and_writes_no_leaf_table() -> None:
    net = Subnet.from_file(TWO_SWITCH, "ibsim")
    perform(net, plan_of("X=5 : ALL_CAS=full ;"))
    plan = plan_of("X=6 : ALL_CAS=full ;", net=net, enforce="off")
    assert not leaf_tables(plan)
    assert [change.after for change in plan.enforcement] == [Enforcement(False, False)] * 6


def test_what_a_switch_cannot_do_is_reported_once_and_not_planned() -> None:
    net = Subnet.from_file(TWO_SWITCH, "ibsim")
    one, two = (node for node in net.nodes if node.is_switch)
    assert one.switch_info is not None
    one.switch_info[16] &= ~0x40  # OutboundEnforcementCap
    set_p_key_capacity(two, enforcement_cap=0)
    plan = plan_of("X=5 : ALL_CAS=full ;", net=net)
    assert problems(plan) == [("enforcement-not-supported", one.guid), ("enforcement-not-supported", two.guid)]
    assert "OutboundEnforcementCap is 0" in plan.problems[0].message
    assert "PartitionEnforcementCap is 0" in plan.problems[1].message
    assert {(change.port.node_guid, change.after) for change in plan.enforcement} == {
        (one.guid, Enforcement(True, False))
    }
    assert {where[0] for where in leaf_tables(plan)} == {one.guid}


def test_enforcement_between_switches_is_switched_off() -> None:
    net = Subnet.from_file(TWO_SWITCH, "ibsim")
    port = between_switches(net)
    port.info[43] |= 0x0C
    plan = plan_of(OPEN, net=net, enforce="off")
    assert [(change.port.key, change.after) for change in plan.enforcement] == [
        ((port.node.guid, port.number), Enforcement(False, False))
    ]
    assert [kind for kind, _ in problems(plan)] == ["between-switches"]


def test_tables_that_are_too_small_are_reported_with_what_does_not_fit() -> None:
    net = Subnet.from_file(TWO_SWITCH, "ibsim")
    host = next(node for node in net.nodes if node.guid + 1 == NODE02)
    set_p_key_capacity(host, partition_cap=3)
    switch = next(node for node in net.nodes if node.guid == SWITCH2)
    set_p_key_capacity(switch, enforcement_cap=4)
    text = " ".join(f"X{n}=0x{n:02x}00 : ALL_CAS=full ;" for n in range(1, 6))
    plan = plan_of(text, net=net)
    assert problems(plan)[0] == ("table-full", NODE02)
    assert "no room for 0x8300, 0x8400, 0x8500: 3 of 3" in plan.problems[0].message
    assert [kind for kind, _ in problems(plan)[1:]] == ["leaf-table-full"] * 3
    assert {change.port.node_guid for change in plan.enforcement} == {SWITCH1}


def test_guids_that_are_no_end_ports_are_reported_with_their_line() -> None:
    plan = plan_of("X=5 : 0xdead=full,\n 0x2c903000a1020 ;\n" + OPEN)
    assert [(problem.kind, problem.port) for problem in plan.problems] == [
        ("guid-not-found", None),
        ("guid-no-end-port", None),
    ]
    assert plan.problems[0].message.startswith("p.conf:1:7: 0x000000000000dead: no port that a link")
    assert "'node02 mlx4_0'" in plan.problems[1].message
    assert f"0x{NODE02:016x}" in plan.problems[1].message


def test_a_key_that_belongs_to_index_0_is_reported_where_it_may_not_move() -> None:
    text = f"Default : ALL=full ; Boot=5, indx0 : 0x{NODE02:x}=full ;"
    plan = plan_of(text)
    assert end_tables(plan)[NODE02] == {0: 0xFFFF, 1: 0x8005}
    assert problems(plan) == [("index-0", NODE02)]
    assert plan.index_moves == ()
    moved = plan_of(text, allow_index_moves=(0x7FFF,))
    assert end_tables(moved)[NODE02] == {0: 0x8005, 1: 0xFFFF}
    assert [(move.port.port_guid, move.pkey, move.source, move.target) for move in moved.index_moves] == [
        (NODE02, 0xFFFF, 0, 1)
    ]


def test_partitions_that_are_born_and_that_die() -> None:
    net = Subnet.from_file(TWO_SWITCH, "ibsim")
    perform(net, plan_of("X=5 : ALL_CAS=full ;"))
    plan = plan_of("Y=6 : ALL_CAS=full ;", net=net)
    assert (plan.partitions.born, plan.partitions.dying) == ((6,), (5,))


def test_reach_is_counted_in_pairs_of_end_ports() -> None:
    assert plan_of(OPEN).reach == ReachCounts(0, 0)
    # 8 end ports, 28 pairs: only those with the SM's port are left.
    assert plan_of("Default : ALL, SELF=full ;").reach == ReachCounts(0, 21)


def test_a_table_that_could_not_be_read_is_reported_and_left_alone() -> None:
    found = sweep(Subnet.from_file(TWO_SWITCH, "ibsim"))
    (port,) = found.find_guid(NODE02)
    port.p_key_raw = None
    plan = make_plan(parse_policy("X=5 : ALL_CAS=full ;"), found, PlanOptions(), sm_at(SM))
    assert problems(plan) == [("unreadable", NODE02)]
    assert port.peer is not None
    touched = {table.port.key for table in plan.tables} | {change.port.key for change in plan.enforcement}
    assert not touched & {(port.node.guid, 1), (port.peer.node.guid, port.peer.num)}


def test_a_leaf_port_that_could_not_be_found_is_reported() -> None:
    found = sweep(Subnet.from_file(TWO_SWITCH, "ibsim"))
    (port,) = found.find_guid(NODE02)
    port.peer = None
    plan = make_plan(parse_policy("X=5 : ALL_CAS=full ;"), found, PlanOptions(), sm_at(SM))
    assert problems(plan) == [("unreadable", NODE02)]
    assert "its links are not known" in plan.problems[0].message
    assert NODE02 in end_tables(plan)
