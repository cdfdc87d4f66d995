"""A running OpenSM is given the policies between two policies: after each sweep the tables are as predicted.

Nothing here sleeps: OpenSM is heard through its log.
"""

from __future__ import annotations

import pytest

from ibkeys.change.wanted import Entries
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import SwitchInfo
from ibkeys.partitions.opensm_tables import Placement, place, place_leaf
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.model import PartitionPlan, SmOptions
from ibkeys.plan.sm_policies import policies_between
from tests.corpus import DATA
from tests.integration.hosted import Hosted, opensm, plan_for, undo, via
from tests.integration.subnet import Subnet
from tests.integration.tenants import PAIRS, SM, tables
from tests.sample import sampled


@pytest.mark.parametrize("name", sampled(PAIRS, ("reused and moved on", "full and limited", "index 0 and automatic")))
def test_of_each_policy_opensm_makes_the_tables_that_were_predicted(name: str) -> None:
    old, new, conf, count = PAIRS[name]
    with Subnet(DATA / "fabrics" / "two-switch.net") as served, opensm(served, old, conf) as running:
        plan = plan_for(served, new, *(["--allow-both-pkeys"] if conf else []))
        found = policies_between(
            parse_policy(old),
            parse_policy(plan.policy.require_text()),
            plan.tables,
            SM,
            plan.sm_options or SmOptions(),
            plan_digest(plan),
        )
        assert len(found.texts) == count
        assert bool(found.cycles) == (name == "circle")
        assert found.texts[-1] == new.encode()
        expected = tables(served)
        assert expected == {**expected, **{each.port.key: dict(each.before) for each in plan.tables}}
        for text, placed in zip(found.texts, found.tables, strict=True):
            running.give(text)
            expected |= predicted(plan, placed, expected)
            assert tables(served) == expected
        assert not any("ERR" in line for line in running.log.lines if "Partition" in line or "prtn" in line)


def predicted(
    plan: PartitionPlan, placed: dict[int, Placement], now: dict[tuple[int, int], dict[int, int]]
) -> dict[tuple[int, int], Entries]:
    """The tables of end ports, and of their leaf ports."""
    ends = {
        each.port.key: placed[each.port.port_guid].entries
        for each in plan.tables
        if each.port.port_guid and not each.port.is_external
    }
    leaves = {
        each.port.key: place_leaf(now[each.port.key], ends[each.peer], each.capacity).entries
        for each in plan.tables
        if each.port.is_external and each.peer is not None
    }
    return {**ends, **leaves}


def test_a_running_opensm_picks_p_keys_around_those_that_it_has() -> None:
    one, other = "0x2c903000a1021", "0x2c903000a1031"
    first = f"Gone : {one}=full ;\nStays=0x10 : {one}=full ;\nEmpty=0x2 : 0xdeadbeef=full ;\n"
    second = f"New : {other}=full ;\nStays : {other}=full ;\nLast : {other}=full ;\n"
    numbers = [each.base for each in parse_policy(second, known={1: "Gone", 0x10: "Stays"}).definitions]
    assert numbers == [0x2, 0x10, 0x3]
    with Subnet(DATA / "fabrics" / "two-switch.net") as served, opensm(served, first) as running:
        running.give(second.encode())
        found = next(table for table in tables(served).values() if 0x8010 in table.values())
        assert {key & 0x7FFF for key in found.values()} == {0x7FFF, *numbers}


@pytest.mark.parametrize("former", [[0xFFFF, 0x0001, 0x8001], [0xFFFF, 0x8001, 0x0001], [0, 1, 0x8001, 0x7FFF]])
def test_of_both_p_keys_of_a_partition_opensm_uses_the_first_place(former: list[int]) -> None:
    with Hosted(DATA / "fabrics" / "two-switch.net") as served:
        served.opensm("", "Default=0x7fff : ALL=full ;")
        port = next(port for node in served.net.nodes for port in node.end_ports if port.guid == 0x2C903000A1021)
        port.p_keys = former
        served.opensm("", "Default=0x7fff : ALL=full ;\nA=0x1 : 0x2c903000a1021=full ;")
        before = {index: PKey(key) for index, key in enumerate(former) if key}
        placed = place(before, [PKey(0x8001), PKey(0xFFFF)], 64)
        assert {index: key for index, key in enumerate(port.p_keys) if key} == placed.entries


def test_a_leaf_port_that_opensm_would_let_enforce_without_some_p_keys_is_refused() -> None:
    old = "Default=0x7fff : ALL=limited, SELF=full ;\n"
    new = old + "".join(f"P{n}={n} : 0x2c903000a1021=full ;\n" for n in range(1, 5))
    with Hosted(DATA / "fabrics" / "two-switch.net") as served:
        switch = next(node for node in served.net.nodes if node.is_switch)
        switch.enforcement_capacity = 4
        assert switch.switch_info is not None
        switch.switch_info[:] = SwitchInfo(bytes(switch.switch_info)).replace(partition_enforcement_cap=4).raw
        for port in switch.ports:
            port.resize_p_keys()
        with opensm(served, old) as running:
            before = served.wire()
            plan_for(served, new)
            done = via(served)
            assert done.returncode == 2, done.stderr
            assert "has no room for all P_Keys of its end port, and OpenSM lets such a port enforce" in done.stderr
            assert served.wire() == before
            assert running.policy.read_text() == old
            plan_for(served, new.replace("P4=4 : 0x2c903000a1021=full ;\n", ""))
            assert via(served).returncode == 0
            full = served.wire()
            plan_for(served, new)
            done = via(served)
            assert done.returncode == 2, "the leaf port's table is full and stays as it is, the end port's does not"
            assert "has no room for all P_Keys of its end port, and OpenSM lets such a port enforce" in done.stderr
            assert served.wire() == full


def test_a_leaf_port_has_not_drifted_where_its_end_port_has_no_room_for_the_policy() -> None:
    old = "Default=0x7fff : ALL=limited, SELF=full ;\n"
    old += "".join(f"P{n}={n} : 0x2c903000a1021=full ;\n" for n in range(1, 7))
    with Hosted(DATA / "fabrics" / "two-switch.net") as served:
        node = next(node for node in served.net.nodes if any(port.guid == 0x2C903000A1021 for port in node.end_ports))
        node.partition_capacity = 4
        for port in node.ports:
            port.resize_p_keys()
        with opensm(served, old):
            plan_for(served, old + "P6=6 : 0x2c903000a1031=full ;\n")
            done = via(served)
            assert done.returncode == 0, done.stderr
            assert "match OpenSM's" not in done.stderr
            plan_for(served, old.replace("P1=1 : 0x2c903000a1021=full ;\n", ""))
            assert via(served).returncode == 0
            refused = undo(served, "-v")
            assert refused.returncode == 4, refused.stderr
            assert "or its table has no room for all P_Keys of the policy" in refused.stderr
