"""Undoing plans and single changes: byte for byte, what can be reached at once, and never round an interlock."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ibkeys.apply.apply_plan import ApplyHooks, FinishedApply
from ibkeys.apply.confirm import confirm_or_go_back
from ibkeys.apply.former_values import valid_or_0
from ibkeys.apply.undo import plan_undo
from ibkeys.change.counters import plan_clear
from ibkeys.change.enforce import plan_enforce
from ibkeys.change.pkeys import plan_set
from ibkeys.errors import Refused, UsageError
from ibkeys.keys.pkey import EMPTY, PKey
from ibkeys.store.journal import FileImage, Journal
from ibkeys.store.origin import this_process
from ibkeys.store.paths import StorePaths
from ibkeys.topology.enforcement import ENFORCEMENT_BYTE, INBOUND, OUTBOUND
from tests.apply.applying import MORE, apply, interrupted_at, opened, resume, state_of, undo
from tests.apply.lab import Lab
from tests.fabricsim import set_p_key_capacity, swap_cables, writer
from tests.plan.plans import entries


def test_undo_covers_pkey_set_and_enforce_set(lab: Lab, stores: StorePaths) -> None:
    before = lab.image()
    with opened(lab, stores) as fabric:
        with writer(fabric) as w:
            w.apply(plan_set(w, fabric.find_port(2), {3: PKey(0x8010), 40: PKey(0x8011)}))
        with writer(fabric) as w:
            w.apply(plan_enforce(w, fabric.find_port(7, 2), True, True))
        undo(fabric)
        assert lab.leaf(2).info[43] & 0x0C == 0
        undo(fabric)
    assert lab.image() == before


def test_the_way_back_meets_the_interlocks_that_a_fresh_change_meets(lab: Lab, stores: StorePaths) -> None:
    before = lab.image()
    with opened(lab, stores) as fabric:
        apply(fabric, lab.plan({2: entries(0x8001, 0xFFFF)}), "index-0", "index-move")
        with pytest.raises(Refused, match=r"index-0: .*; also triggered: index-move \(consent=.*index-move.*\)$"):
            undo(fabric)
        undo(fabric, None, "index-0", "index-move")
    assert lab.image() == before


def test_what_can_be_reached_goes_back_and_the_rest_later(lab: Lab, stores: StorePaths) -> None:
    before = lab.image()
    with opened(lab, stores, retries=0) as fabric:
        apply(fabric, lab.plan(MORE))
        lab.net.node("node02 mlx4_0").silent = 2
        work = undo(fabric, None, "stale")
        assert len(work.failed) == 1
        assert (state_of(stores, 1), state_of(stores, 2)) == ("done", "open")
        assert lab.host(3).p_keys[2] == 0
        lab.net.node("node02 mlx4_0").silent = 0
        undo(fabric)
    assert lab.image() == before
    assert (state_of(stores, 1), state_of(stores, 2)) == ("undone", "done")


def test_an_entry_of_0x8000_comes_back_as_it_was(lab: Lab, stores: StorePaths) -> None:
    lab.host(2).p_keys = [0xFFFF, 0x8000, 0, 0x8000]
    before = lab.image()
    with opened(lab, stores) as fabric:
        apply(fabric, lab.plan({2: entries(0xFFFF, 0x8005)}))
        assert lab.host(2).p_keys[:4] == [0xFFFF, 0x8005, 0, 0x8000]
        undo(fabric)
    assert lab.image() == before


def test_an_empty_entry_of_0x8000_stays_where_the_undo_puts_a_p_key_for_a_while(lab: Lab, stores: StorePaths) -> None:
    lab.host(2).p_keys = [0xFFFF, 0x8003, 0x8000, 0x8000]
    before = lab.image()
    with opened(lab, stores) as fabric:
        with writer(fabric) as w:
            w.apply(plan_set(w, fabric.find_port(2), {1: PKey(0x8010)}))
        undo(fabric)
    assert lab.image() == before


def test_a_p_key_that_an_interrupted_undo_put_elsewhere_for_a_while_is_taken_away(lab: Lab, stores: StorePaths) -> None:
    lab.host(2).p_keys = [0xFFFF, 0x8003, 0x8000]
    before = lab.image()

    def check() -> None:
        if lab.host(2).p_keys[2] == 0x8003:
            raise KeyboardInterrupt("by SIGTERM")

    with opened(lab, stores) as fabric:
        with writer(fabric) as w:
            w.apply(plan_set(w, fabric.find_port(2), {1: PKey(0x8010)}))
        with writer(fabric) as w, pytest.raises(KeyboardInterrupt):
            w.apply(plan_undo(w, 1, ApplyHooks(check=check)))
        assert lab.host(2).p_keys[2] == 0x8003
        undo(fabric, None, "index-move")
    assert lab.image() == before


INDEXES = (1, 2, 3, 4, 33)
P_KEYS = st.lists(st.sampled_from([0, 0x8000, 0x8003, 0x0003, 0x8010, 0x8011, 0x0013]), min_size=5, max_size=5).filter(
    lambda keys: max(Counter(key & 0x7FFF for key in keys if key & 0x7FFF).values(), default=0) <= 1
)


@settings(max_examples=40, deadline=None)
@given(P_KEYS, P_KEYS, st.lists(st.integers(2, 14), max_size=2))
def test_a_table_comes_back_byte_for_byte_after_an_undo_that_was_interrupted(
    tmp_path_factory: pytest.TempPathFactory, found: list[int], planned: list[int], stops: list[int]
) -> None:
    lab = Lab()
    for index, key in zip(INDEXES, found, strict=True):
        lab.host(2).p_keys[index] = key
    before, table = lab.image(), dict(zip(INDEXES, planned, strict=True))
    plan = lab.plan({2: entries(0xFFFF, *(valid_or_0(table.get(index, 0)) for index in range(1, 34)))}, leaves=False)
    assume(any(each.differs for each in plan.tables))
    with opened(lab, StorePaths(None, tmp_path_factory.mktemp("stores") / "journal.db")) as fabric:
        apply(fabric, plan, "index-move")
        for stop in stops:
            with suppress(KeyboardInterrupt), writer(fabric, "index-move") as w:
                w.apply(plan_undo(w, 1, ApplyHooks(check=interrupted_at(stop))))
                break
        if lab.image() != before:
            undo(fabric, 1, "index-move")
    assert lab.image() == before


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("mkey-rotate", "`ibkeys undo 1` rolls the last one back"),
        ("smkey-rotate", "`ibkeys smkey-rotate` changes it again"),
        ("harden", "`ibkeys undo 1` rolls the last one back"),
    ],
)
def test_an_options_file_with_keys_is_not_put_back(lab: Lab, stores: StorePaths, command: str, way: str) -> None:
    assert stores.journal is not None
    with Journal(stores.journal) as journal, journal.operation(command, this_process()) as operation:
        operation.record_file(FileImage("/etc/opensm/opensm.conf", b"m_key @m_key:1:x18l\n", b"m_key 0\n")).done()
    with opened(lab, stores) as fabric, writer(fabric) as w:
        for number in (None, 1):
            with pytest.raises(UsageError, match=f"content is not restored; {way}"):
                plan_undo(w, number)


def test_counters_and_m_keys_are_not_undone(lab: Lab, stores: StorePaths) -> None:
    lab.host(2).p_key_violations = 5
    with opened(lab, stores) as fabric:
        with writer(fabric) as w:
            w.apply(plan_clear(w, [fabric.find_port(2)]))
        with writer(fabric) as w, pytest.raises(UsageError, match="counters cannot be restored"):
            plan_undo(w)


def test_a_p_key_whose_index_is_gone_is_named_and_the_undo_stays_open(lab: Lab, stores: StorePaths) -> None:
    lab.host(2).p_keys = [0xFFFF, *[0] * 38, 0x8007]
    with opened(lab, stores) as fabric, writer(fabric) as w:
        w.apply(plan_set(w, fabric.find_port(2), {39: EMPTY}))
    set_p_key_capacity(lab.net.node("node02 mlx4_0"), 32)
    with opened(lab, stores) as fabric:
        with writer(fabric) as w, pytest.raises(Refused, match=r"index 39 is gone: the table has 32 entries now"):
            w.check(plan_undo(w))
        work = undo(fabric, None, "stale")
    assert [(str(port), text) for port, text in work.failed] == [
        ("'node02 mlx4_0' 0x0002c903000a1020 port 1", "index 39 is gone: the table has 32 entries now")
    ]
    assert state_of(stores, 1) == "done"
    assert state_of(stores, 2) == "open"


def test_an_enforcement_bit_that_the_operation_did_not_write_stays_as_somebody_else_set_it(
    lab: Lab, stores: StorePaths
) -> None:
    with opened(lab, stores) as fabric:
        apply(fabric, lab.plan({}, {2: "i"}))
        lab.leaf(2).outbound_enforcement = 1
        with pytest.raises(Refused, match=r"stale: 1 port .* \(an enforcement bit has changed since, which"):
            undo(fabric)
        undo(fabric, None, "stale")
        assert (lab.leaf(2).inbound_enforcement, lab.leaf(2).outbound_enforcement) == (0, 1)
        undo(fabric, 2)
    assert (lab.leaf(2).inbound_enforcement, lab.leaf(2).outbound_enforcement) == (1, 1)


def test_a_run_that_goes_back_by_itself_names_each_port_that_could_not_be_given_back(
    lab: Lab, stores: StorePaths
) -> None:
    def go_back(run: FinishedApply) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ibkeys.sim.nodes.SimPort.set_p_key_block", lambda self, block, data: None)
            confirm_or_go_back(run, 0.0, lambda: 0.0, lambda _: False, lambda _: None)

    with opened(lab, stores) as fabric:
        work = apply(fabric, lab.plan({2: entries(0xFFFF, 0x8001), 3: entries(0xFFFF, 0x8001)}), on_end=go_back)
    assert work.gone_back
    *ports, (nobody, summary) = work.failed
    assert {port.port_guid for port, _ in ports if port is not None} == {lab.host(2).guid, lab.host(3).guid}
    assert nobody is None
    assert summary.startswith("2 ports could not be written: ")
    assert "`ibkeys resume 2` finishes it" in summary


def test_a_leaf_port_with_another_host_than_then_loses_nothing_and_enforces_nothing_new(
    lab: Lab, stores: StorePaths
) -> None:
    lab.put({2: entries(0xFFFF), 3: entries(0xFFFF)}, "io")
    plan = lab.plan({2: entries(0xFFFF, 0x8001), 3: entries(0xFFFF, 0x8002)}, {2: "", 3: "io"})
    moved = r"stale: 2 ports .*port 2 \(it is linked to 'node03 .* now\), .*port 3 \(it is linked to 'node02 .* now\)"
    with opened(lab, stores) as fabric:
        apply(fabric, plan)
        swap_cables(lab.host(2), lab.host(3), lab.net)
        before = lab.image()
        with pytest.raises(Refused, match=moved):
            undo(fabric, 1)
        assert lab.image() == before
        undo(fabric, 1, "stale")
        assert [lab.host(number).p_keys[1] for number in (2, 3)] == [0, 0]
        assert [lab.leaf(number).p_keys[1] for number in (2, 3)] == [0x8002, 0x8001]
        assert [lab.leaf(number).outbound_enforcement for number in (2, 3)] == [1, 0]


def test_resume_does_not_overwrite_an_enforcement_bit_that_somebody_else_set(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({2: entries(0xFFFF, 0x8001)}, {2: "i"})
    with opened(lab, stores) as fabric:
        with pytest.raises(KeyboardInterrupt):
            apply(fabric, plan, check=interrupted_at(2))
        lab.leaf(2).outbound_enforcement = 1
        with pytest.raises(Refused, match=r"stale: 1 port .* \(its enforcement bits changed"):
            resume(fabric)
        assert (lab.leaf(2).inbound_enforcement, lab.leaf(2).outbound_enforcement) == (0, 1)
        lab.leaf(2).outbound_enforcement = 0
        resume(fabric)
    assert (lab.leaf(2).inbound_enforcement, lab.leaf(2).outbound_enforcement) == (1, 0)
    assert state_of(stores) == "done"


def give(lab: Lab, entries: dict[int, int]) -> None:
    """Let somebody else write entries of node02's table."""
    host = lab.host(2)
    host.p_keys = [entries.get(index, value) for index, value in enumerate(host.p_keys)]


def test_an_entry_of_somebody_else_in_a_block_that_an_undo_of_it_wrote_is_not_the_operations_own(
    lab: Lab, stores: StorePaths
) -> None:
    with opened(lab, stores) as fabric:
        with writer(fabric) as w:
            w.apply(plan_set(w, fabric.find_port(2), {1: PKey(0x8010)}))
        give(lab, {2: 0x8011})
        undo(fabric, 1, "stale")
        undo(fabric, 2)
        assert lab.host(2).p_keys[:3] == [0xFFFF, 0x8010, 0x8011]
        with pytest.raises(Refused, match=r"stale: 1 port .* \(index 2 is 0x8011"):
            undo(fabric, 1)
        assert lab.host(2).p_keys[:3] == [0xFFFF, 0x8010, 0x8011]
        undo(fabric, 1, "stale")
    assert lab.host(2).p_keys[:3] == [0xFFFF, 0, 0x8011]


def test_what_somebody_else_put_where_the_operation_had_written_is_never_overwritten(
    lab: Lab, stores: StorePaths
) -> None:
    give(lab, {1: 0x8003, 2: 0x8004})
    with opened(lab, stores) as fabric:
        apply(fabric, lab.plan({2: entries(0xFFFF, 0, 0x8005)}, leaves=False))
        give(lab, {1: 0x8021})
        undo(fabric, 1, "stale")  # as a rollback does because nobody confirmed
        undo(fabric, 2)
        with pytest.raises(Refused, match=r"stale: 1 port .* \(index 1 is 0x8021"):
            undo(fabric, 1)
    assert lab.host(2).p_keys[:3] == [0xFFFF, 0x8021, 0x8005]


def test_an_entry_that_came_between_a_part_of_an_apply_and_the_rest_stays(lab: Lab, stores: StorePaths) -> None:
    give(lab, {1: 0x8003})
    with opened(lab, stores) as fabric:
        with pytest.raises(KeyboardInterrupt):
            apply(fabric, lab.plan({2: entries(0xFFFF, 0, 0x8004)}, leaves=False), check=interrupted_at(6))
        assert lab.host(2).p_keys[:3] == [0xFFFF, 0x8003, 0x8004]
        give(lab, {5: 0x8022})
        resume(fabric, "stale")
        assert lab.host(2).p_keys[:6] == [0xFFFF, 0, 0x8004, 0, 0, 0x8022]
        with pytest.raises(Refused, match=r"stale: 1 port .* \(index 5 is 0x8022"):
            undo(fabric)
    assert lab.host(2).p_keys[5] == 0x8022


def test_resume_keeps_an_entry_that_came_before_the_block_was_first_written(lab: Lab, stores: StorePaths) -> None:
    give(lab, {1: 0x8003})
    with opened(lab, stores) as fabric:
        with pytest.raises(KeyboardInterrupt):
            apply(fabric, lab.plan({2: entries(0xFFFF, 0, 0x8004)}, leaves=False), check=interrupted_at(1))
        give(lab, {5: 0x8022})
        with pytest.raises(KeyboardInterrupt):
            resume(fabric, "stale", check=interrupted_at(6))
        with pytest.raises(Refused, match=r"stale: 1 port .* \(index 5 is 0x8022"):
            resume(fabric)
        resume(fabric, "stale")
        undo(fabric)
    assert lab.host(2).p_keys[:6] == [0xFFFF, 0x8003, 0, 0, 0, 0x8022]


def test_a_value_of_somebody_else_that_resume_overwrote_comes_back(lab: Lab, stores: StorePaths) -> None:
    give(lab, {1: 0x8003})
    with opened(lab, stores) as fabric:
        with pytest.raises(KeyboardInterrupt):
            apply(fabric, lab.plan({2: entries(0xFFFF, 0, 0x8004)}, leaves=False), check=interrupted_at(6))
        give(lab, {1: 0x8022})
        resume(fabric, "stale")
        assert lab.host(2).p_keys[:3] == [0xFFFF, 0, 0x8004]
        undo(fabric)
    assert lab.host(2).p_keys[:3] == [0xFFFF, 0x8022, 0]


def test_an_undo_leaves_an_entry_alone_that_only_the_operation_before_it_wrote(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores) as fabric:
        with writer(fabric) as w:
            w.apply(plan_set(w, fabric.find_port(2), {1: PKey(0x8010), 2: PKey(0x8011)}))
        give(lab, {1: 0})
        undo(fabric, 1)  # it clears index 2 only
        with writer(fabric) as w:
            w.apply(plan_set(w, fabric.find_port(2), {1: PKey(0x8010)}))
        undo(fabric, 2)
    assert lab.host(2).p_keys[:3] == [0xFFFF, 0x8010, 0x8011]


def test_an_undo_leaves_an_enforcement_bit_alone_that_only_the_operation_before_it_wrote(
    lab: Lab, stores: StorePaths
) -> None:
    info = lab.leaf(2).info
    with opened(lab, stores) as fabric:
        with writer(fabric) as w:
            w.apply(plan_enforce(w, fabric.find_port(7, 2), True, True))
        info[ENFORCEMENT_BYTE] &= ~OUTBOUND
        undo(fabric, 1)  # it switches inbound off only
        info[ENFORCEMENT_BYTE] |= OUTBOUND
        undo(fabric, 2)
    assert info[ENFORCEMENT_BYTE] & (INBOUND | OUTBOUND) == INBOUND | OUTBOUND
