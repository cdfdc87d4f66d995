"""A GUID at two places: no plan gives either of them anything, and no plan is written to the wrong one."""

from __future__ import annotations

import pytest

from ibkeys.errors import Refused, UsageError
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.sim.subnet import Subnet
from ibkeys.store.paths import StorePaths
from tests.apply.applying import MORE, apply, opened, undo
from tests.apply.lab import Lab
from tests.corpus import DATA
from tests.plan.planning import NODE02, NODE03, SM, TWO_SWITCH, end_tables, problems, sm_at, sweep
from tests.plan.plans import entries

# --- when a plan is made ---------------------------------------------------------------------------------------------


def test_nodes_with_the_same_guid_are_reported_and_left_alone() -> None:
    found = sweep(Subnet.from_file(TWO_SWITCH, "ibsim"))
    (port,) = found.find_guid(NODE02)
    (other,) = found.find_guid(NODE03)
    other.node.info = port.node.info
    plan = make_plan(parse_policy("X=5 : ALL_CAS=full ;"), found, PlanOptions(), sm_at(SM))
    assert [kind for kind, _ in problems(plan)] == ["duplicate-guid"] * 2
    assert (port.node.guid, 1) not in {table.port.key for table in plan.tables}


def stolen(net: Subnet, *places: str) -> None:
    """Let ports show the port GUID of node02, each with its own NodeGUID."""
    for name in places:
        net.port(name, 1).guid = NODE02


@pytest.mark.parametrize("liars", [["node05 mlx4_0"], ["node05 mlx4_0", "node06 mlx4_0"]])
def test_a_port_guid_at_two_places_is_a_problem_and_neither_gets_anything(liars: list[str]) -> None:
    net = Subnet.from_file(TWO_SWITCH)
    stolen(net, *liars)
    places = [net.port(name, 1) for name in ("node02 mlx4_0", *liars)]
    plan = make_plan(
        parse_policy(f"Default : ALL=limited, SELF=full ; X=5 : 0x{NODE02:x}=full, 0x{NODE03:x}=full ;"),
        sweep(net),
        PlanOptions(),
        sm_at(SM),
    )
    assert problems(plan) == [("duplicate-guid", NODE02)] * len(places)
    for place, problem in zip(places, plan.problems, strict=True):
        assert problem.port is not None
        assert problem.port.node_guid == place.node.guid
        others = [other for other in places if other is not place]
        assert all(f"0x{other.node.guid:016x} port 1" in problem.message for other in others)
    touched = {table.port.key for table in plan.tables} | {change.port.key for change in plan.enforcement}
    for place in places:
        assert place.peer is not None
        assert not touched & {(place.node.guid, 1), (place.peer.node.guid, place.peer.number)}
    assert end_tables(plan)[NODE03] == {0: 0x7FFF, 1: 0x8005}  # the others are planned


def test_planes_of_one_ca_show_one_port_guid_and_are_planned() -> None:
    net = Subnet.from_file(DATA / "fabrics" / "dual-home.net")
    first, second = (net.port("db02 mlx5_0", number) for number in (1, 2))
    second.guid = first.guid
    policy = parse_policy(f"Default : ALL=full ; X=5 : 0x{first.guid:x}=full ;")
    plan = make_plan(policy, sweep(net), PlanOptions(), sm_at(None, "none"))
    assert not [kind for kind, _ in problems(plan) if kind == "duplicate-guid"]
    tables = {table.port.port: table.after for table in plan.tables if table.port.node_guid == first.node.guid}
    assert tables == {1: {0: 0xFFFF, 1: 0x8005}, 2: {0: 0xFFFF, 1: 0x8005}}
    net.port("db01 mlx5_0", 1).guid = first.guid  # a third place, on another node
    plan = make_plan(policy, sweep(net), PlanOptions(), sm_at(None, "none"))
    assert [kind for kind, _ in problems(plan)] == ["duplicate-guid"] * 3


def test_a_stolen_guid_of_the_subnet_manager_is_named_as_such() -> None:
    net = Subnet.from_file(TWO_SWITCH)
    net.port("node05 mlx4_0", 1).guid = SM
    with pytest.raises(UsageError, match=f"several nodes show its GUID 0x{SM:016x}"):
        make_plan(parse_policy("Default : ALL=limited, SELF=full ;"), sweep(net), PlanOptions(), sm_at(SM))


# --- when it is applied, or undone -----------------------------------------------------------------------------------


def test_a_port_guid_that_another_node_shows_by_now_is_not_written(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan(MORE, {1: "io", 2: "io", 3: "io"})
    lab.host(5).guid = lab.host(2).guid
    before = lab.image()
    with opened(lab, stores) as fabric:
        with pytest.raises(
            Refused, match="its port GUID 0x0002c903000a1021 is also reported by 'node05 mlx4_0'"
        ) as refused:
            apply(fabric, plan)
        assert refused.value.interlock == "stale"
        assert lab.image() == before
        work = apply(fabric, plan, "stale")
        left_out = [text for _, text in work.failed if "is also reported by 'node05 mlx4_0'" in text]
        assert len(left_out) == 3  # two tables, and the bits of the leaf port
    now = lab.image()
    left = {str(lab.host(2)), str(lab.leaf(2)), str(lab.host(5)), str(lab.leaf(5))}
    assert {name for name, image in now.items() if image == before[name]} >= left
    assert now[str(lab.host(1))] != before[str(lab.host(1))]


def test_a_plan_that_gives_two_nodes_p_keys_by_one_guid_is_not_applied_to_either(lab: Lab, stores: StorePaths) -> None:
    """As plans were made before a GUID at two places was a problem."""
    lab.host(5).guid = lab.host(2).guid
    plan = lab.plan({2: entries(0xFFFF, 0x8001), 5: entries(0xFFFF, 0x8001)}, {2: "io", 5: "io"})
    before = lab.image()
    with opened(lab, stores) as fabric:
        with pytest.raises(Refused, match="and 3 more"):
            apply(fabric, plan)
        assert len(apply(fabric, plan, "stale").failed) == 6  # the tables of four ports, the bits of two
    assert lab.image() == before


def test_what_was_written_before_a_guid_was_stolen_can_be_undone(lab: Lab, stores: StorePaths) -> None:
    before = lab.image()
    with opened(lab, stores) as fabric:
        apply(fabric, lab.plan(MORE))
    lab.host(5).guid = lab.host(2).guid
    with opened(lab, stores) as fabric:
        undo(fabric)
    assert lab.image() == before
