"""A running OpenSM is given the policies between two policies: after each sweep the tables are as predicted.

Nothing here sleeps: OpenSM is heard through its log.
"""

from __future__ import annotations

import pytest

from ibkeys.change.wanted import Entries
from ibkeys.partitions.opensm_tables import Placement, place_leaf
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.model import PartitionPlan, SmOptions
from ibkeys.plan.sm_policies import policies_between
from tests.corpus import DATA
from tests.integration.hosted import opensm, plan_for
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
