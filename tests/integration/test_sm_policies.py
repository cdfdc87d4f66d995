"""A running OpenSM is given the policies between two policies: after each sweep the tables are as predicted.

Nothing here sleeps: OpenSM is heard through its log.
"""

from __future__ import annotations

import json

import pytest

from ibkeys.change.wanted import Entries
from ibkeys.partitions.opensm_tables import Placement, place_leaf
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.model import PartitionPlan, SmOptions
from ibkeys.plan.sm_policies import policies_between
from tests.corpus import DATA
from tests.integration.hosted import opensm, plan_for
from tests.integration.test_served_mkeys import Subnet

SM = 0x2C903000A1011
TENANTS = """Default=0x7fff, ipoib : ALL=limited, SELF=full ;
Red=0x10, ipoib, mtu=5 : 0x2c903000a1021=full, 0x2c903000a1031=full ;
Blue=0x20 : mgid=ff15::20,sl=1
    0x2c903000a1041=full, 0x2c903000a1051 ;
"""
SWAP = TENANTS.replace("Red=0x10", "X=0x30").replace("Blue=0x20", "Red=0x10").replace("X=0x30", "Blue=0x20")
GREEN = TENANTS.replace("Red=0x10", "Green=0x11")
PAIRS = {
    "replaced": (TENANTS, TENANTS.replace("Red=0x10", "Green=0x11"), "", 2),
    "full and limited": (TENANTS, TENANTS.replace("a1041=full", "a1041").replace("a1051", "a1051=full"), "", 2),
    "reused and moved on": (TENANTS, SWAP.replace("0x20", "0x40"), "", 4),
    "circle": (TENANTS, SWAP, "", 4),
    "first policy": ("", TENANTS, "", 2),
    "only more": (TENANTS, TENANTS + "All=0x50 : ALL_CAS, ALL_SWITCHES=full, SELF=full ;\n", "", 1),
    "index 0 and automatic": (
        TENANTS.replace("Red=0x10", "Red=0x10, indx0"),
        TENANTS.replace("Red=0x10", "Auto, indx0"),
        "",
        2,
    ),
    "both forms": (
        TENANTS + "S=0x60 : 0x2c903000a1021=both, 0x2c903000a1061=limited ;\n",
        TENANTS.replace("Red=0x10", "Green=0x11") + "S=0x60 : 0x2c903000a1021, 0x2c903000a1061=both ;\n",
        "allow_both_pkeys TRUE\n",
        2,
    ),
}


def tables(served: Subnet) -> dict[tuple[int, int], dict[int, int]]:
    done = served.ibkeys("pkey-show", "--all", "-f", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return {
        (int(port["node_guid"], 16), port["port"]): {key["index"]: int(key["pkey"], 16) for key in port["pkeys"]}
        for port in json.loads(done.stdout)["ports"]
    }


@pytest.mark.parametrize("name", PAIRS)
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
        assert bool(found.circles) == (name == "circle")
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
