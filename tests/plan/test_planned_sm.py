"""The port of the subnet manager in a plan: who it is, that it stays connected and full."""

from __future__ import annotations

import pytest

from ibkeys.errors import UsageError
from ibkeys.mad.attributes import PortInfo, SMInfo
from ibkeys.mad.const import CapabilityMask, SMState
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.subnet_manager import find_sm_port, shown_subnet_manager
from tests.plan.planning import (
    NODE02,
    NODE03,
    NODE04,
    OPEN,
    SM,
    TWO_SWITCH,
    end_tables,
    leaf_tables,
    plan_of,
    problems,
    sm_at,
    sweep,
    swept,
)


def test_unconfigured_ports_are_disconnected_but_never_the_sm_switches_and_routers() -> None:
    text = f"Default : ALL, SELF=full, 0x{NODE04:x} ; X=5 : 0x{NODE02:x}=full ;"
    plan = plan_of(text, disconnect_unconfigured=True)
    cut = {guid for guid, table in end_tables(plan).items() if not table}
    assert cut == {NODE03, 0x2C903000A1051, 0x2C903000A1061}
    assert all(not leaf_tables(plan)[table.peer] for table in plan.tables if table.peer and table.port.port_guid in cut)
    assert not any(table == {} for table in end_tables(plan_of(text)).values())


def test_no_port_behind_which_an_sm_runs_is_disconnected_whichever_is_named() -> None:
    found = sweep(Subnet.from_file(TWO_SWITCH, "ibsim"))
    for guid, state in ((NODE02, SMState.MASTER), (NODE03, SMState.STANDBY)):
        (port,) = found.find_guid(guid)
        port.sm_info = SMInfo.new(guid=guid, sm_state=state).raw
    (silent,) = found.find_guid(NODE04)
    assert silent.info is not None
    silent.info = PortInfo(silent.info).replace(capability_mask=CapabilityMask.IS_SM).raw
    named = sm_at(SM, "active", "named with --sm-guid")
    plan = make_plan(parse_policy(OPEN), found, PlanOptions(disconnect_unconfigured=True), named, force=True)
    cut = {guid for guid, table in end_tables(plan).items() if not table}
    assert cut == {0x2C903000A1051, 0x2C903000A1061}


def test_disconnecting_needs_to_know_the_port_of_the_sm() -> None:
    for guid in (None, 0x99):
        with pytest.raises(UsageError, match="--sm-guid"):
            make_plan(
                parse_policy("Default : ALL=full ;"),
                swept(TWO_SWITCH),
                PlanOptions(disconnect_unconfigured=True),
                sm_at(guid),
            )


def test_an_sm_that_does_not_stay_full_is_reported_in_capitals() -> None:
    plan = plan_of("Default : SELF=full, ALL=limited ;")
    assert problems(plan) == [("sm-limited", SM)]
    assert "FULL MEMBER" in plan.problems[0].message


def test_an_active_sm_is_named_as_the_one_that_would_undo_it() -> None:
    plan = make_plan(
        parse_policy(OPEN), swept(TWO_SWITCH), PlanOptions(), sm_at(SM, "active", "the SM at LID 1 is master")
    )
    assert problems(plan) == [("active-sm", SM)]
    assert (plan.fabric.sm_guid, plan.fabric.sm_evidence) == (SM, "the SM at LID 1 is master")


def test_a_policy_that_names_the_sm_needs_to_know_its_port() -> None:
    for guid in (None, 0x99):
        with pytest.raises(UsageError, match="--sm-guid"):
            make_plan(parse_policy("X=5 : ALL ;"), swept(TWO_SWITCH), PlanOptions(), sm_at(guid))
    assert (
        make_plan(parse_policy("Default : ALL=full ;"), swept(TWO_SWITCH), PlanOptions(), sm_at(None)).fabric.sm_guid
        is None
    )


def test_the_sms_port_is_the_one_that_master_sm_lid_names() -> None:
    port = find_sm_port(swept(TWO_SWITCH))
    assert port is not None
    assert port.guid == SM
    assert find_sm_port(Topology()) is None


def test_who_is_master_and_where_it_cannot_be_told() -> None:
    found = sweep(Subnet.from_file(TWO_SWITCH, "ibsim"))
    (port,) = found.find_guid(NODE02)
    shown = shown_subnet_manager(found)
    assert (shown.port_guid, shown.presence) == (SM, "none")
    assert "MasterSMLID is still that of 'node01 mlx4_0'" in (shown_subnet_manager(found).evidence or "")
    assert port.info is not None
    port.info = PortInfo(port.info).replace(capability_mask=CapabilityMask.IS_SM).raw
    silent = shown_subnet_manager(found)
    assert (silent.port_guid, silent.presence) == (SM, "unknown")
    assert "'node02 mlx4_0'" in (silent.evidence or "")
    port.sm_info = SMInfo.new(guid=NODE02, sm_state=SMState.STANDBY).raw
    assert shown_subnet_manager(found).presence == "unknown"
    assert "standby" in (shown_subnet_manager(found).evidence or "")
    port.sm_info = SMInfo.new(guid=NODE02, sm_state=SMState.MASTER).raw
    master = shown_subnet_manager(found)
    assert (master.port_guid, master.presence) == (NODE02, "active")
    assert shown_subnet_manager(Topology()).port_guid is None


def test_an_active_sm_is_no_problem_where_nothing_is_to_change() -> None:
    plan = make_plan(
        parse_policy("Default=0x7fff : ALL=full ;"),
        swept(TWO_SWITCH),
        PlanOptions(enforce="off"),
        sm_at(SM, "active", "master"),
    )
    assert (plan.pending, problems(plan)) == (False, [])
