"""Planned tables are those that real OpenSM programmed, but for what ibkeys-plan(1) lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.errors import FileFormatError
from ibkeys.keys.pkey import PKey
from ibkeys.partitions import opensm_tables as opensm
from ibkeys.partitions.opensm_tables import packed
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.sim.subnet import Subnet
from tests.partitions.recordings import Recording, load, recordings
from tests.plan.planning import (
    NODE02,
    end_tables,
    leaf_tables,
    perform,
    plan_of,
    sm_at,
    sweep,
    swept,
)

EVERYTHING = tuple(range(1, 0x8000))


def options(recording: Recording, moves: tuple[int, ...] = ()) -> PlanOptions:
    enforce = recording.options["part_enforce"]
    assert enforce in ("both", "in", "out", "off")
    return PlanOptions(enforce, recording.allow_both, allow_index_moves=moves)  # type: ignore[arg-type]


@pytest.mark.parametrize("file", recordings())
def test_planned_tables_have_the_p_keys_that_opensm_programmed(file: Path) -> None:
    """The one exception is in ibkeys-plan(1): OpenSM has no room for a default P_Key that it drove out of index 0."""
    recording = load(file)
    policy = recording.steps[0].policy
    if policy is None:
        return
    if not policy.accepted:
        with pytest.raises(FileFormatError, match="EVERY PORT A FULL MEMBER"):
            make_plan(policy, swept(recording.fabric))
        return
    plan = make_plan(policy, swept(recording.fabric), options(recording), sm_at(recording.sm_port_guid), full=True)
    tables, programmed = end_tables(plan), recording.steps[0].end_ports
    assert tables.keys() == programmed.keys()
    for guid, table in tables.items():
        if file.stem == "two-switch--overflow-indx0" and len(table) == recording.capacity["ca"]:
            assert {key & 0x7FFF for key in set(table.values()) - set(programmed[guid].values())} == {0x7FFF}
        else:
            assert set(table.values()) == set(programmed[guid].values())
    for where, leaf in leaf_tables(plan).items():
        end = next(table.peer for table in plan.tables if table.port.key == where)
        assert leaf == dict(enumerate(packed(next(t.after for t in plan.tables if t.port.key == end))))


@pytest.mark.parametrize("file", recordings())
def test_from_power_on_the_tables_are_opensms_index_by_index_but_for_what_the_man_page_lists(file: Path) -> None:
    recording = load(file)
    policy = recording.steps[0].policy
    if policy is None or not policy.accepted or file.stem == "two-switch--overflow-indx0":
        return
    plan = make_plan(
        policy, swept(recording.fabric), options(recording, EVERYTHING), sm_at(recording.sm_port_guid), full=True
    )
    for guid, table in end_tables(plan).items():
        programmed = recording.steps[0].end_ports[guid]
        if recording.allow_both and 0 not in programmed:  # OpenSM leaves index 0 empty
            assert table[0] == 0x7FFF
            assert [key for index, key in sorted(table.items()) if index] == [
                key for _, key in sorted(programmed.items()) if key != 0x7FFF
            ]
        else:
            assert table == programmed


def test_the_second_of_two_policies_keeps_indexes_as_opensm_does() -> None:
    recording = load(next(p.values[0] for p in recordings() if p.id == "two-switch--churn-1+churn-2--keep-indexes"))
    net = Subnet.from_file(recording.fabric, "ibsim")
    for step in recording.steps:
        assert step.policy is not None
        plan = make_plan(step.policy, sweep(net), options(recording), sm_at(recording.sm_port_guid), full=True)
        assert end_tables(plan) == step.end_ports
        assert leaf_tables(plan) == step.switch_ports
        assert plan.index_moves == ()
        perform(net, plan)
    assert not make_plan(step.policy, sweep(net), options(recording), sm_at(recording.sm_port_guid)).pending


def test_opensm_places_what_the_planner_calls_better_differently() -> None:
    """So that the list in the man page stays true: with allow_both_pkeys OpenSM leaves index 0 empty."""
    assert opensm.place({0: PKey(0xFFFF)}, [PKey(5), PKey(0x7FFF)], 64, allow_both=True).entries == {1: 5, 2: 0x7FFF}
    plan = plan_of("X=5 : ALL ;", allow_both_pkeys=True)
    assert end_tables(plan)[NODE02] == {0: 0x7FFF, 1: 5}
