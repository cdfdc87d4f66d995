"""Plans: the tables that real OpenSM programmed, indexes that stay, what is reported, how pairs are counted."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, UsageError
from ibkeys.keys.pkey import PKey, may_talk
from ibkeys.mad.attributes import PortInfo, SMInfo
from ibkeys.mad.const import CapabilityMask, SMState
from ibkeys.partitions import opensm_tables as opensm
from ibkeys.partitions.export import pin
from ibkeys.partitions.opensm_tables import packed
from ibkeys.partitions.reader import parse_policy, read_policy
from ibkeys.plan.document import write_plan
from ibkeys.plan.document_reader import read_plan
from ibkeys.plan.model import Options, PartitionPlan, SmOptions
from ibkeys.plan.planner import make_plan
from ibkeys.reach.count import ReachCounts, count_reach
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.model import Topology
from ibkeys.topology.port_id import PortKey
from ibkeys.topology.subnet_manager import find_sm_port, shown_subnet_manager
from tests.corpus import DATA
from tests.fabricsim import between_switches
from tests.partitions.recordings import Recording, load, recordings
from tests.plan.planning import NODE02, NODE03, NODE04, SM, TWO_SWITCH, end_tables, problems, sm_at, sweep

EVERYTHING = tuple(range(1, 0x8000))
SWITCH1, SWITCH2 = 0x2C90200401000, 0x2C90200401040


@functools.cache
def swept(fabric: Path) -> Topology:
    """Return a fabric at power-on, read once. It is shared: look, do not change."""
    return sweep(Subnet.from_file(fabric, "ibsim"))


def options(recording: Recording, moves: tuple[int, ...] = ()) -> Options:
    enforce = recording.options["part_enforce"]
    assert enforce in ("both", "in", "out", "off")
    return Options(enforce, recording.allow_both, allow_index_moves=moves)  # type: ignore[arg-type]


def leaf_tables(plan: PartitionPlan) -> dict[PortKey, Mapping[int, PKey]]:
    return {table.port.key: table.after for table in plan.tables if table.port.is_external}


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


def perform(net: Subnet, plan: PartitionPlan) -> None:
    """Put the planned tables and bits into the simulated ports."""
    nodes = {node.guid: node for node in net.nodes}
    for table in plan.tables:
        port = nodes[table.port.node_guid].ports[table.port.port]
        port.p_keys = [table.after.get(index, PKey(0)) for index in range(table.capacity)]
    for change in plan.enforcement:
        info = nodes[change.port.node_guid].ports[change.port.port].info
        info[43] = info[43] & ~0x0C | change.after.inbound << 3 | change.after.outbound << 2


def plan_of(text: str, *, net: Subnet | None = None, sm: int = SM, **chosen: object) -> PartitionPlan:
    found = sweep(net) if net is not None else swept(TWO_SWITCH)
    return make_plan(parse_policy(text, "p.conf"), found, Options(**chosen), sm_at(sm))  # type: ignore[arg-type]


OPEN = "Default : ALL=full ;"


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
    two.set_p_key_capacity(enforcement_cap=0)
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
    host.set_p_key_capacity(partition_cap=3)
    switch = next(node for node in net.nodes if node.guid == SWITCH2)
    switch.set_p_key_capacity(enforcement_cap=4)
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
    plan = make_plan(parse_policy(OPEN), found, Options(disconnect_unconfigured=True), named, force=True)
    cut = {guid for guid, table in end_tables(plan).items() if not table}
    assert cut == {0x2C903000A1051, 0x2C903000A1061}


def test_disconnecting_needs_to_know_the_port_of_the_sm() -> None:
    for guid in (None, 0x99):
        with pytest.raises(UsageError, match="--sm-guid"):
            make_plan(
                parse_policy("Default : ALL=full ;"),
                swept(TWO_SWITCH),
                Options(disconnect_unconfigured=True),
                sm_at(guid),
            )


def test_an_sm_that_does_not_stay_full_is_reported_in_capitals() -> None:
    plan = plan_of("Default : SELF=full, ALL=limited ;")
    assert problems(plan) == [("sm-limited", SM)]
    assert "FULL MEMBER" in plan.problems[0].message


def test_an_active_sm_is_named_as_the_one_that_would_undo_it() -> None:
    plan = make_plan(parse_policy(OPEN), swept(TWO_SWITCH), Options(), sm_at(SM, "active", "the SM at LID 1 is master"))
    assert problems(plan) == [("active-sm", SM)]
    assert (plan.fabric.sm_guid, plan.fabric.sm_evidence) == (SM, "the SM at LID 1 is master")


def test_a_policy_that_names_the_sm_needs_to_know_its_port() -> None:
    for guid in (None, 0x99):
        with pytest.raises(UsageError, match="--sm-guid"):
            make_plan(parse_policy("X=5 : ALL ;"), swept(TWO_SWITCH), Options(), sm_at(guid))
    assert (
        make_plan(parse_policy("Default : ALL=full ;"), swept(TWO_SWITCH), Options(), sm_at(None)).fabric.sm_guid
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


def test_a_table_that_could_not_be_read_is_reported_and_left_alone() -> None:
    found = sweep(Subnet.from_file(TWO_SWITCH, "ibsim"))
    (port,) = found.find_guid(NODE02)
    port.p_key_raw = None
    plan = make_plan(parse_policy("X=5 : ALL_CAS=full ;"), found, Options(), sm_at(SM))
    assert problems(plan) == [("unreadable", NODE02)]
    assert port.peer is not None
    touched = {table.port.key for table in plan.tables} | {change.port.key for change in plan.enforcement}
    assert not touched & {(port.node.guid, 1), (port.peer.node.guid, port.peer.num)}


def test_a_leaf_port_that_could_not_be_found_is_reported() -> None:
    found = sweep(Subnet.from_file(TWO_SWITCH, "ibsim"))
    (port,) = found.find_guid(NODE02)
    port.peer = None
    plan = make_plan(parse_policy("X=5 : ALL_CAS=full ;"), found, Options(), sm_at(SM))
    assert problems(plan) == [("unreadable", NODE02)]
    assert "linked to" in plan.problems[0].message
    assert NODE02 in end_tables(plan)


def test_the_digest_is_bound_to_what_the_plan_touches_and_to_nothing_else() -> None:
    net = Subnet.from_file(TWO_SWITCH, "ibsim")
    text = f"Default : ALL=full ; X=5 : 0x{NODE02:x}=full ;"
    digest = plan_of(text, net=net, enforce="off").fabric.digest
    ports = {port.guid: port for node in net.nodes for port in node.end_ports}
    ports[NODE03].p_keys = [0xFFFF, 0x8005]  # not a member: its table changes with the plan
    assert plan_of(text, net=net, enforce="off").fabric.digest != digest
    ports[NODE03].p_keys = [0xFFFF]
    assert plan_of(text, net=net, enforce="off").fabric.digest == digest
    ports[NODE02].p_keys = [0xFFFF, 0x8001]
    assert plan_of(text, net=net, enforce="off").fabric.digest != digest


def test_a_full_plan_lists_every_table_and_has_the_same_digest() -> None:
    policy = parse_policy(f"Default : ALL=full ; X=5 : 0x{NODE02:x}=full ;")
    short, full = (make_plan(policy, swept(TWO_SWITCH), Options(), sm_at(SM), full=full) for full in (False, True))
    assert (len(short.tables), len(full.tables)) == (2, 14)
    assert short.fabric == full.fabric


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = plan_of(f"Boot=5, indx0 : ALL_CAS=full, 0xdead ; X=6 : 0x{NODE02:x} ;", allow_index_moves=(0x7FFF,))
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan


def test_a_plan_has_the_very_bytes_of_its_policy_and_the_options_of_an_opensm_that_would_make_the_same(
    tmp_path: Path,
) -> None:
    data = f"# caf\xe9, in latin-1\r\nX=5 : 0x{NODE02:x}=full ; # no newline at the end".encode("latin-1")
    (tmp_path / "p.conf").write_bytes(data)
    options = Options("in", allow_both_pkeys=True)
    plan = make_plan(read_policy(tmp_path / "p.conf"), swept(TWO_SWITCH), options, sm_at(SM))
    write_plan(plan, tmp_path / "plan.json")
    found = read_plan(tmp_path / "plan.json")
    assert found.policy.require_text() == data
    assert found.sm_options == SmOptions(True, "in", no_partition_enforcement=False, keep_pkey_indexes=True)


def test_a_policy_that_was_made_from_another_one_does_not_have_its_bytes() -> None:
    policy = parse_policy(f"X : 0x{NODE02:x}=full ;")
    assert (policy.data, pin(policy).data, pin(policy).digest) == (f"X : 0x{NODE02:x}=full ;".encode(), None, "")


# --- properties ------------------------------------------------------------------------------------------------------

PARTITIONS = [0x7FFF, 1, 2, 3, 0x0100]
NETS = [DATA / "fabrics" / f"{name}.net" for name in ("two-switch", "dual-home", "ring-router")]


@st.composite
def policies(draw: st.DrawFn, guids: list[int]) -> str:
    who = st.one_of(
        st.sampled_from(["ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF"]), st.sampled_from(guids).map(hex)
    )
    lines = []
    for number in range(draw(st.integers(1, 4))):
        flags = draw(st.sampled_from(["", ", indx0", ", defmember=full", ", defmember=both"]))
        items = draw(st.lists(st.tuples(who, st.sampled_from(["", "=full", "=limited", "=both"])), max_size=4))
        base = draw(st.sampled_from(PARTITIONS))
        lines.append(f"P{number}=0x{base:x}{flags} : {', '.join(each + how for each, how in items)} ;")
    return "\n".join(lines)


KEYS = st.sampled_from([base | bit for base in PARTITIONS for bit in (0, 0x8000)])
TABLES = st.lists(st.one_of(st.just(0), KEYS), max_size=8)


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
    plan = make_plan(policy, sweep(net), Options("both", allow_both), manager, full=True)
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
    assert not make_plan(policy, sweep(net), Options("both", allow_both), manager).pending


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
    plan = make_plan(parse_policy(text), swept(DATA / "fabrics" / "ft648.net"), Options(), sm_at(0xB8CEF60300100001))
    assert calls == 3  # the SM's port, the other hosts, the switches
    assert len([table for table in plan.tables if not table.port.is_external]) == 702
    assert plan.reach == ReachCounts(0, 54 * 53 // 2 + 54 * 647)


def test_opensm_places_what_the_planner_calls_better_differently() -> None:
    """So that the list in the man page stays true: with allow_both_pkeys OpenSM leaves index 0 empty."""
    assert opensm.place({0: PKey(0xFFFF)}, [PKey(5), PKey(0x7FFF)], 64, allow_both=True).entries == {1: 5, 2: 0x7FFF}
    plan = plan_of("X=5 : ALL ;", allow_both_pkeys=True)
    assert end_tables(plan)[NODE02] == {0: 0x7FFF, 1: 5}
