"""Whatever policy and tables there are: indexes stay, reach is that of the policy, a second plan has nothing to do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.keys.pkey import PKey, may_talk
from ibkeys.partitions.opensm_tables import packed
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.reach.count import ReachCounts, count_reach
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.port_id import PortKey
from tests.corpus import DATA
from tests.plan.generated import KEYS, NETS, TABLES, policies
from tests.plan.planning import (
    perform,
    sm_at,
    sweep,
    swept,
)


@given(data=st.data(), netfile=st.sampled_from(NETS), allow_both=st.booleans())
def test_no_key_that_survives_changes_its_index_and_reach_is_that_of_the_policy(
    data: st.DataObject, netfile: Path, allow_both: bool
) -> None:
    net = Subnet.from_file(netfile, "ibsim")
    ends = [port for node in net.nodes for port in node.end_ports if node.is_switch or port.peer is not None]
    leaves = [port.peer for port in ends if port.peer is not None and port.peer.node.is_switch]
    for port in [*ends, *leaves]:
        port.p_keys = data.draw(TABLES)
    policy = parse_policy(data.draw(policies([port.guid for port in ends])))
    manager = sm_at(data.draw(st.sampled_from(ends)).guid)
    plan = make_plan(policy, sweep(net), PlanOptions("both", allow_both), manager, full=True)
    for table in plan.tables:
        if table.port.is_external:
            end = next(other for other in plan.tables if other.port.key == table.peer)
            assert table.after == dict(enumerate(packed(end.after)))
            continue
        wanted = set(table.after.values())
        for index, key in table.before.items():
            if key in wanted and list(table.before.values()).count(key) == 1:
                assert table.after[index] == key
    tables = [table for table in plan.tables if not table.port.is_external]
    assert len(tables) == len(ends)
    was = talking({table.port.key: table.before for table in tables})
    will = talking({table.port.key: table.after for table in tables})
    assert plan.reach == ReachCounts(len(will - was), len(was - will))
    # A second plan, from what the first one made, has nothing to do.
    perform(net, plan)
    assert not make_plan(policy, sweep(net), PlanOptions("both", allow_both), manager).pending


def talking(tables: Mapping[PortKey, Mapping[int, PKey]]) -> set[tuple[PortKey, PortKey]]:
    return {
        (a, b)
        for a, b in combinations(sorted(tables), 2)
        if any(may_talk(x, y) for x in tables[a].values() for y in tables[b].values())
    }


@given(
    st.lists(
        st.tuples(st.frozensets(KEYS.map(PKey), max_size=4), st.frozensets(KEYS.map(PKey), max_size=4)), max_size=9
    )
)
def test_reach_by_sets_equals_reach_pair_by_pair(changes: list[tuple[frozenset[PKey], frozenset[PKey]]]) -> None:
    was, will = (
        talking({(at, 1): dict(enumerate(change[side])) for at, change in enumerate(changes)}) for side in (0, 1)
    )
    assert count_reach(changes) == ReachCounts(len(will - was), len(was - will))


def test_two_thousand_hosts_with_sixty_partitions_are_planned_from_few_distinct_placements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Equal ports are worked out once: that is why 2,048 hosts take no longer."""
    from ibkeys.plan import planner

    calls = 0

    def counting(*args: object) -> object:
        nonlocal calls
        calls += 1
        return opensm_free(*args)  # type: ignore[arg-type]

    opensm_free = planner.place
    monkeypatch.setattr(planner, "place", counting)
    text = "".join(f"X{n}=0x{n:x}, defmember=full : ALL_CAS ;\n" for n in range(1, 61))
    plan = make_plan(
        parse_policy(text), swept(DATA / "fabrics" / "ft648.net"), PlanOptions(), sm_at(0xB8CEF60300100001)
    )
    assert calls == 3  # the SM's port, the other hosts, the switches
    assert len([table for table in plan.tables if not table.port.is_external]) == 702
    assert plan.reach == ReachCounts(0, 54 * 53 // 2 + 54 * 647)
