"""Two policies on one fabric: what differs is what a plan from one to the other does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, UsageError
from ibkeys.partitions.membership import end_ports_of, resolve
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.plan.policies.compare import PolicyComparison, compare_policies
from ibkeys.sim.subnet import Subnet
from tests.plan.generated import NETS, policies
from tests.plan.planning import NODE02, NODE03, NODE04, SM, TWO_SWITCH, perform, sm_at, sweep, swept

BASE = "Default : ALL=limited, SELF=full ;\n"


def compare(a: str, b: str, sm: int | None = SM, both: bool = False) -> PolicyComparison:
    return compare_policies(parse_policy(BASE + a), parse_policy(BASE + b), swept(TWO_SWITCH), sm, both)


def test_who_joins_leaves_and_changes_per_partition() -> None:
    found = compare(
        f"X=0x21 : {NODE02:#x}=full, {NODE03:#x} ;\n", f"X=0x21 : {NODE02:#x}, {NODE04:#x}=full ;\nY=6 : 0x99 ;\n"
    )
    [partition] = found.partitions
    assert (partition.base, partition.names) == (0x21, ("X", "X"))
    assert {each.port.guid: (each.before, each.after) for each in partition.standings} == {
        NODE02: ("full", "limited"),
        NODE03: ("limited", None),
        NODE04: (None, "full"),
    }
    assert (found.reach.gained, found.reach.lost) == (1, 1)
    assert found.unmatched == ((), (0x99,))
    assert found.differs


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("", ""),
        (f"X=5 : {NODE02:#x}=full ;\n", f"# c\nX=5 : {NODE02:#x} ;\nX=5 : {NODE02:#x}=full ;\n"),
        ("X=5 : ALL_SWITCHES=full, ALL_CAS=full ;", "X=5 : ALL=full ;"),
        ("Q=9, ipoib : 0x99 ;", "R=9 : NONE ;"),
    ],
)
def test_another_text_may_mean_the_same(a: str, b: str) -> None:
    assert not compare(a, b).differs


def test_names_groups_and_index_0_differ_too() -> None:
    found = compare(f"X=5, ipoib : {NODE02:#x}=full ;", f"Y=5, ipoib, mtu=5, indx0 : {NODE02:#x}=full ;")
    [partition] = found.partitions
    assert partition.is_renamed
    assert [group["mtu"] for groups in partition.groups for group in groups] == [4, 5]
    [pinned] = found.pinned
    assert (pinned.port.guid, pinned.before, str(pinned.after)) == (NODE02, None, "0x8005")
    assert (found.reach.gained, found.reach.lost) == (0, 0)


def test_both_forms_count_only_where_they_are_allowed() -> None:
    a, b = f"X=5 : {NODE02:#x}=full ;", f"X=5 : {NODE02:#x}=both ;"
    assert not compare(a, b).differs
    assert [each.after for each in compare(a, b, both=True).partitions[0].standings] == ["both"]


def test_a_policy_that_depends_on_an_unknown_subnet_manager_is_not_guessed() -> None:
    with pytest.raises(UsageError, match="name it with `ibkeys plan --sm-guid GUID`"):
        compare("", "", sm=None)
    with pytest.raises(FileFormatError):
        compare("", "X=5 : 0xzz ;")


@given(data=st.data(), netfile=st.sampled_from(NETS), both=st.booleans())
def test_the_difference_is_what_a_plan_from_one_to_the_other_does(
    data: st.DataObject, netfile: Path, both: bool
) -> None:
    net = Subnet.from_file(netfile, "ibsim")
    ends = [port for node in net.nodes for port in node.end_ports if node.is_switch or port.peer is not None]
    manager = sm_at(data.draw(st.sampled_from(ends)).guid)
    guids = [port.guid for port in ends]
    before, after = (parse_policy(data.draw(policies(guids))) for _ in range(2))
    options = PlanOptions("off", both)
    perform(net, make_plan(before, sweep(net), options, manager))
    fabric = sweep(net)
    found = compare_policies(before, after, fabric, manager.port_guid, both)
    plan = make_plan(after, fabric, options, manager)
    assert found.reach == plan.reach
    changed = {each.port.guid for partition in found.partitions for each in partition.standings}
    assert changed == {
        table.port.port_guid for table in plan.tables if set(table.before.values()) != set(table.after.values())
    }
    # The members of the first policy, changed as it says, are those of the second.
    own = end_ports_of(fabric.end_ports())
    was, now = (
        {
            (each.base, guid): (guid in each.full, guid in each.limited)
            for each in resolve(policy, own, manager.port_guid, both).memberships
            for guid in each.full | each.limited
        }
        for policy in (before, after)
    )
    for partition in found.partitions:
        for each in partition.standings:
            was.pop((partition.base, each.port.guid), None)
            if each.after is not None:
                was[partition.base, each.port.guid] = (each.after != "limited", each.after != "full")
    assert was == now
    assert not compare_policies(after, after, fabric, manager.port_guid, both).differs
