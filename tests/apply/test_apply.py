"""Applying plans on the simulator; what is stored is looked at on the simulator's own side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.apply.apply import Permissions, plan_apply
from ibkeys.errors import MKeyNeeded, Refused
from ibkeys.fabric.subnet_manager import SubnetManager
from ibkeys.keys.pkey import PKey
from ibkeys.mad.const import AttributeID, Method
from ibkeys.plan.model import PartitionPlan
from ibkeys.store.journal import Journal
from ibkeys.store.paths import StorePaths
from tests.apply.applying import MORE, apply, interrupted_at, opened, resume, state_of, undo
from tests.apply.lab import ALL, Lab
from tests.fabricsim import interlocks, set_p_key_capacity, swap_cables, tool, writer
from tests.plan.plans import entries, tables
from tests.spy import at_sets, sets, spy

DEFAULT = entries(0xFFFF)


def test_tables_and_enforcement_are_as_planned_and_given_back_byte_for_byte(lab: Lab, stores: StorePaths) -> None:
    before = lab.image()
    plan = lab.plan(MORE, {1: "io", 2: "i", 3: "o"})
    with opened(lab, stores) as fabric:
        work = apply(fabric, plan)
        assert [phase.name for phase in work.phases] == [
            "leaf-add", "end-add", "end-remove", "leaf-remove", "enforcement-on",
        ]  # fmt: skip
        assert [lab.host(number).p_keys[:3] for number in (1, 2, 3)] == [
            [0xFFFF, 0x8001, 0],
            [0x7FFF, 0x8001, 0],
            [0x7FFF, 0, 0x8002],
        ]
        assert lab.leaf(3).p_keys[:3] == [0x7FFF, 0x8002, 0]
        assert [lab.leaf(n).info[43] & 0x0C for n in (1, 2, 3, 4)] == [0x0C, 0x08, 0x04, 0]
        assert state_of(stores) == "done"
        undo(fabric)
    assert lab.image() == before
    assert state_of(stores) == "undone"


def test_sets_are_the_blocks_that_differ_and_gets_are_those_stated(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({1: entries(0xFFFF, 0x8001), 4: {0: PKey(0xFFFF), 40: PKey(0x8001)}}, {4: "i"})
    with opened(lab, stores) as fabric:
        fabric.sweep()
        watching = spy(fabric)
        fabric.sweep()
        sweep = len(watching)
        watching.clear()
        with writer(fabric) as w:
            w.subnet_manager = SubnetManager(0, "none", "not asked here: its SMPs are not counted")
            work = plan_apply(w, plan, ALL)
            read = len(watching)
            capacity_blocks = sum(-(-port.p_key_capacity // 32) for n in (1, 4) for port in (lab.host(n), lab.leaf(n)))
            assert read == sweep + capacity_blocks
            watching.clear()
            w.apply(work)
    sent = [(mad[3], int.from_bytes(mad[16:18])) for mad in watching]
    blocks = 4
    assert sent.count((Method.SET, AttributeID.P_KEY_TABLE)) == blocks
    assert sent.count((Method.GET, AttributeID.P_KEY_TABLE)) == 2 * blocks + capacity_blocks
    assert sent.count((Method.SET, AttributeID.PORT_INFO)) == 1
    assert sent.count((Method.GET, AttributeID.PORT_INFO)) == 3 + 4
    assert sent.count((Method.GET, AttributeID.NODE_INFO)) == blocks + 1
    assert len(sent) == 3 * blocks + capacity_blocks + 4 + 4 + blocks + 1


def test_a_plan_that_is_true_already_sends_no_set_and_leaves_no_trace(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores) as fabric:
        work = apply(fabric, lab.plan({1: DEFAULT}))
    assert not work.pending
    assert not stores.journal.exists()  # type: ignore[union-attr]


def test_removals_need_permission(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({2: entries(0x7FFF)})
    with opened(lab, stores) as fabric, writer(fabric) as w, pytest.raises(Refused) as raised:
        plan_apply(w, plan)
    assert str(raised.value).startswith("the plan removes 2 P_Keys (full to limited counts as one) from 2 ports: ")
    assert raised.value.interlock == "removals"
    assert "allow_removals=True" in str(raised.value)


def test_breaks_need_permission_and_name_the_ports(lab: Lab, stores: StorePaths) -> None:
    for node in lab.net.nodes:
        if not node.is_switch:
            set_p_key_capacity(node, 2)
    lab.put({number: entries(0, 0x8001) for number in (4, 5)})
    plan = lab.plan({number: entries(0, 0x8002) for number in (4, 5)}, leaves=False)
    with opened(lab, stores) as fabric, writer(fabric) as w, pytest.raises(Refused) as raised:
        plan_apply(w, plan, Permissions(removals=True))
    assert "'node04 mlx4_0' 0x0002c903000a1040 port 1, 'node05 mlx4_0'" in str(raised.value)
    assert "allow_break=True" in str(raised.value)
    with opened(lab, stores) as fabric:
        apply(fabric, plan)
    assert [lab.host(number).p_keys for number in (4, 5)] == [[0, 0x8002]] * 2


def test_a_dry_run_shows_what_would_be_refused_and_sends_no_set(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({2: entries(0x7FFF)})
    with opened(lab, stores) as fabric:
        watching = spy(fabric)
        with writer(fabric, dry_run=True) as w:
            work = plan_apply(w, plan)
    assert not sets(watching)
    assert [refusal.interlock for refusal in work.refusals] == ["removals"]
    assert not stores.journal.exists()  # type: ignore[union-attr]


def test_a_fabric_that_changed_since_is_refused_where_the_plan_touches_it(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan(MORE)
    lab.host(6).p_keys = [0xFFFF, 0x8055]  # the plan does not touch it
    with opened(lab, stores) as fabric, writer(fabric) as w:
        assert not interlocks(plan_apply(w, plan, ALL))
    lab.host(2).p_keys = [0xFFFF, 0, 0, 0x8010]
    with opened(lab, stores) as fabric:
        with pytest.raises(Refused) as raised:
            apply(fabric, plan)
        assert raised.value.interlock == "stale"
        assert "1 port changed in the meantime or cannot be read: 'node02 mlx4_0'" in str(raised.value)
        assert "index 3 is 0x8010, not empty" in str(raised.value)
        apply(fabric, plan, "stale")
    assert lab.host(2).p_keys[:4] == [0x7FFF, 0x8001, 0, 0x8010]


def test_a_port_that_is_gone_is_stale_and_left_out_when_that_is_overridden(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan(MORE)
    lab.net.node("node03 mlx4_0").silent = 2
    with opened(lab, stores) as fabric:
        with pytest.raises(Refused, match=r"stale: 1 port changed .*'node03 mlx4_0' .* \(not found on the fabric\)"):
            apply(fabric, plan)
        work = apply(fabric, plan, "stale")
        assert lab.host(2).p_keys[1] == 0x8001
        assert len(work.failed) == 1
        assert state_of(stores) == "open"
        lab.net.node("node03 mlx4_0").silent = 0
        resume(fabric)
    assert lab.host(3).p_keys[2] == 0x8002
    assert state_of(stores) == "done"


def test_a_host_that_was_plugged_in_elsewhere_is_stale(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({2: entries(0xFFFF, 0x8001)}, {2: "io"})
    leaf = lab.leaf(2)
    swap_cables(lab.host(2), lab.host(6), lab.net)
    before = lab.image()
    linked = r"stale: 2 ports changed .*port 2 \(it is linked to 'node06 mlx4_0'.* now\)"
    with opened(lab, stores) as fabric:
        with pytest.raises(Refused, match=linked):
            apply(fabric, plan)
        assert lab.image() == before
        apply(fabric, plan, "stale")
    assert leaf.outbound_enforcement == 1


def test_resume_is_refused_where_a_host_was_plugged_in_elsewhere_since(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({2: entries(0xFFFF, 0x8001)}, {2: "io"})
    before = lab.image()
    with opened(lab, stores) as fabric:
        with pytest.raises(KeyboardInterrupt):
            apply(fabric, plan, check=interrupted_at(2))
        swap_cables(lab.host(2), lab.host(6), lab.net)
        with pytest.raises(Refused, match=r"it is linked to .* now.*roll back \(`ibkeys undo 1`\)"):
            resume(fabric)
        undo(fabric)
    assert lab.image() == before


@pytest.mark.parametrize(
    ("after", "enforce", "interlock", "says"),
    [
        (
            entries(0x8001, 0xFFFF),
            "",
            "index-0",
            "the P_Key at index 0, which IPoIB and many tools use, is emptied or replaced on 1 port: 'node02",
        ),
        (entries(0x8001, 0xFFFF), "", "index-move", "1 P_Key to be moved to another index"),
        (entries(0, 0x8001), "", "default-pkey", "the last default P_Key (0x7fff or 0xffff) is lost"),
        ({}, "io", "enforce-blind", "enforcement without the default P_Key cuts"),
    ],
)
def test_interlocks_say_one_sentence(
    lab: Lab, stores: StorePaths, after: Any, enforce: str, interlock: str, says: str
) -> None:
    plan = lab.plan({2: after}, {2: enforce} if enforce else None)
    with opened(lab, stores) as fabric, writer(fabric, dry_run=True) as w:
        work = plan_apply(w, plan, ALL)
    found = {objection.interlock: objection.message for objection in work.objections}
    assert found[interlock].startswith(says)
    assert "0x0002c90" in found[interlock]


def test_an_active_sm_is_refused_and_force_goes_on(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({2: entries(0xFFFF, 0x8001)})
    lab.net.set_sm("node04 mlx4_0")
    with opened(lab, stores) as fabric:
        with pytest.raises(Refused, match="active-sm"):
            apply(fabric, plan)
        with writer(fabric, force=True) as w:
            w.apply(plan_apply(w, plan, ALL))
    assert lab.host(2).p_keys[1] == 0x8001


def test_limiting_the_sms_own_default_is_refused(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0x7FFF) for number in (3, 4)})
    lab.net.set_sm("node04 mlx4_0")
    with opened(lab, stores) as fabric, writer(fabric, dry_run=True) as w:
        work = plan_apply(w, plan, ALL)
    [found] = [objection for objection in work.objections if objection.interlock == "default-pkey"]
    assert "0xffff of the SM is lost" in found.message
    assert "node04" in found.message
    assert "node03" not in found.message


def test_disconnecting_the_port_that_holds_the_sm_by_now_is_refused(lab: Lab, stores: StorePaths) -> None:
    lab.put(dict.fromkeys((3, 4), DEFAULT))
    plan = lab.plan({number: {} for number in (3, 4)})
    plan = replace(plan, options=replace(plan.options, disconnect_unconfigured=True))
    lab.net.set_sm("node04 mlx4_0")
    with opened(lab, stores) as fabric, writer(fabric, dry_run=True) as w:
        work = plan_apply(w, plan, ALL)
    [found] = [objection for objection in work.objections if objection.interlock == "default-pkey"]
    assert "node04" in found.message
    assert "node03" not in found.message


def test_the_sms_port_and_the_own_port_come_last(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0xFFFF, 0x8001) for number in range(1, 7)})
    lab.net.set_sm("node02 mlx4_0")
    with opened(lab, stores) as fabric:
        order: list[str] = []

        def note(out: Any) -> None:
            changed = {str(port) for port in lab.ports if 0x8001 in port.p_keys}
            order.extend(changed - set(order))

        spy(fabric, after=at_sets(note))
        with writer(fabric, force=True) as w:
            w.apply(plan_apply(w, plan, ALL))
    assert order[4:6] == [str(lab.leaf(2)), str(lab.leaf(1))]
    assert order[10:] == [str(lab.host(2)), str(lab.host(1))]


def test_hidden_m_keys_are_refused_before_anything_is_sent(lab: Lab, stores: StorePaths) -> None:
    for number in (4, 5):
        lab.host(number).m_key, lab.host(number).protect_bits = 0xABC, 1
    plan = lab.plan({number: entries(0xFFFF, 0x8001) for number in (3, 4, 5)})
    with opened(lab, stores) as fabric, writer(fabric) as w:
        with pytest.raises(MKeyNeeded, match=r"hides its M_Key.* \(and 1 more port\); nothing was changed"):
            plan_apply(w, plan, ALL)
        assert 0x8001 not in lab.host(3).p_keys


def test_no_set_leaves_before_its_before_image_is_on_disk(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores) as fabric:
        count = 0

        def look(out: Any) -> None:
            nonlocal count
            with Journal(stores.journal, create=False) as journal:
                images = [entry.image for entry in journal.entries(1)]
            modifier, data = int.from_bytes(out.mad[20:24]), out.mad[64:128]
            assert any(image.attribute_modifier == modifier and image.after == data for image in images)
            count += 1

        spy(fabric, after=at_sets(look))
        apply(fabric, lab.plan(MORE, {1: "io"}))
    assert count == 11


def test_ports_with_m_keys_are_written_with_their_keys_and_the_journal_has_none(lab: Lab, stores: StorePaths) -> None:
    for node in lab.net.nodes:
        for port in node.end_ports:
            port.m_key, port.protect_bits = 0x1122334455667788, 2
    before = lab.image()
    with opened(lab, stores, m_key=0x1122334455667788) as fabric:
        apply(fabric, lab.plan(MORE, {1: "io", 2: "io"}))
        assert lab.host(2).p_keys[:2] == [0x7FFF, 0x8001]
        undo(fabric)
    assert lab.image() == before
    assert all(port.m_key_violations == 0 for node in lab.net.nodes for port in node.end_ports)
    assert all(port.m_key == 0x1122334455667788 for port in lab.ports)
    assert bytes.fromhex("1122334455667788") not in stores.journal.read_bytes()  # type: ignore[union-attr]


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[dict[int, Any], dict[int, Any], str, str, int]:
    """Tables before and after of four hosts on two switches, enforcement before and after, and capacity."""
    capacity = draw(st.sampled_from([3, 4, 64]))
    keys = [0x7FFF, 1, 2, 3, 4]
    before, after = (
        {number: draw(tables(min(capacity, 4), keys, both=True)) for number in (1, 2, 4, 5)} for _ in range(2)
    )
    bits = st.sampled_from(["", "i", "o", "io"])
    return before, after, draw(bits), draw(bits), capacity


def prepared(case: tuple[dict[int, Any], dict[int, Any], str, str, int]) -> tuple[Lab, PartitionPlan]:
    before, after, enforce_before, enforce_after, capacity = case
    lab = Lab()
    for node in lab.net.nodes:
        set_p_key_capacity(node, enforcement_cap=capacity) if node.is_switch else set_p_key_capacity(node, capacity)
    lab.put(before, enforce_before)
    return lab, lab.plan(after, dict.fromkeys(after, enforce_after))


OVERRIDES = ("index-0", "index-move", "default-pkey", "enforce-blind")


@given(fabrics())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_packet_that_passes_before_and_after_is_dropped_after_any_set(case: Any) -> None:
    lab, plan = prepared(case)
    before, after = case[0], case[1]
    former = lab.image()
    remaining, _ = prepared((after, after, case[3], case[3], case[4]))
    numbers, partitions = sorted(before), [0x7FFF, 1, 2, 3, 4]
    lasting = lab.reach(numbers, partitions) & remaining.reach(numbers, partitions)
    guids = {number: lab.host(number).guid for number in numbers}
    named = {(*sorted(pair), each.partition) for each in plan.breaks for pair in each.pairs}  # type: ignore[misc]
    cut: set[tuple[int, int, int]] = set()

    def check(out: Any) -> None:
        for one, other, partition in lasting - lab.reach(numbers, partitions):
            cut.add((*sorted((guids[one], guids[other])), partition))  # type: ignore[arg-type]

    with tool(lab.net) as fabric:
        spy(fabric, after=at_sets(check))
        with writer(fabric, *OVERRIDES) as w:
            work = plan_apply(w, plan, ALL)
            w.apply(work)
            assert cut <= named
            assert {key: value for key, value in lab.image().items() if value != former[key]} == {
                key: value for key, value in remaining.image().items() if value != former[key]
            }
