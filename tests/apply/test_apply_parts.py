"""Plans that are applied in part, as asked for or not: what stops, what stays, and resume."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from ibkeys.apply.apply import Permissions, plan_apply, plan_resume
from ibkeys.apply.undo import plan_undo
from ibkeys.change.interrupts import Interrupts
from ibkeys.errors import DeviceGone, Incomplete, NoReply, Refused, StoreError
from ibkeys.mad.const import AttributeID, Method
from ibkeys.store.journal import Journal
from ibkeys.store.paths import StorePaths
from ibkeys.umad.port import Outgoing
from tests.apply.applying import MORE, apply, interrupted_at, opened, resume, state_of, undo
from tests.apply.lab import ALL, Lab
from tests.fabricsim import set_p_key_capacity, subnet, writer
from tests.plan.plans import entries
from tests.spy import at_sets, sets, spy

# --- the first switches only, and what resume asks again -------------------------------------------------------------


def test_the_first_leaf_switches_then_the_rest(lab: Lab, stores: StorePaths) -> None:
    before = lab.image()
    numbers = range(2, 7)
    plan = lab.plan({number: entries(0x7FFF, 0x8001) for number in numbers})
    with opened(lab, stores) as fabric:
        with writer(fabric) as w:
            work = plan_apply(w, plan, Permissions(removals=True, first=1))
            w.apply(work)
        assert work.rest
        assert [0x8001 in lab.host(n).p_keys for n in numbers] == [True] * 2 + [False] * 3
        assert lab.host(2).p_keys[0] == 0xFFFF  # full to limited is a removal: not before all have grown
        assert state_of(stores) == "open"
        resume(fabric, permissions=Permissions(first=1))
        assert all(0x8001 in lab.host(n).p_keys for n in numbers)
        resume(fabric, permissions=Permissions(first=1))
        assert [lab.host(n).p_keys[0] for n in numbers] == [0x7FFF] * 2 + [0xFFFF] * 3
        resume(fabric)
        assert [port.p_keys[0] for n in numbers for port in (lab.host(n), lab.leaf(n))] == [0x7FFF] * 10
        assert state_of(stores) == "done"
        undo(fabric)
    assert lab.image() == before


def test_the_switch_of_the_own_port_is_the_last_canary(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0xFFFF, 0x8001) for number in range(1, 7)})
    with opened(lab, stores) as fabric, writer(fabric) as w:
        w.apply(plan_apply(w, plan, Permissions(first=1)))
    assert [0x8001 in lab.host(number).p_keys for number in range(1, 7)] == [False] * 3 + [True] * 3


def test_what_was_permitted_holds_for_resume(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0x8001, 0x7FFF) for number in (2, 3)})
    with opened(lab, stores) as fabric:
        with writer(fabric, "index-0", "index-move") as w:
            w.apply(plan_apply(w, plan, Permissions(removals=True, first=1)))
        resume(fabric)
    assert [lab.host(number).p_keys[:2] for number in (2, 3)] == [[0x8001, 0x7FFF]] * 2


def test_an_overridden_active_sm_is_asked_again_by_resume(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0xFFFF, 0x8001) for number in (2, 5)})
    lab.net.set_sm("node04 mlx4_0")
    with opened(lab, stores) as fabric:
        with writer(fabric, "active-sm") as w:
            w.apply(plan_apply(w, plan, Permissions(removals=True, first=1)))
        with pytest.raises(Refused, match="active-sm"):
            resume(fabric)


def test_nothing_to_resume_and_nothing_to_undo_say_so(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores) as fabric, writer(fabric) as w:
        with pytest.raises(StoreError, match="no unfinished apply"):
            plan_resume(w)
        with pytest.raises(StoreError, match="nothing to undo"):
            plan_undo(w)
        with pytest.raises(StoreError, match="has no operation 7, nor any other; `ibkeys plan` makes"):
            plan_undo(w, 7)


# --- what stops it in the middle -------------------------------------------------------------------------------------


def test_a_host_that_falls_silent_stops_the_removals_and_resume_finishes(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan(MORE)
    silent = lab.net.node("node02 mlx4_0")
    with opened(lab, stores, retries=0) as fabric:

        def fall_silent(out: Any) -> None:
            silent.silent = 1

        spy(fabric, after=at_sets(fall_silent))
        with pytest.raises(Incomplete) as raised:
            apply(fabric, plan)
    message = str(raised.value)
    assert message.startswith("1 port could not be written: ")
    assert (
        "no step after 'additions, end ports' was started; operation 1 of the journal is open: `ibkeys resume 1`"
        in message
    )
    assert lab.host(3).p_keys[0] == 0xFFFF  # not limited yet
    assert lab.host(3).p_keys[2] == 0x8002
    silent.silent = 0
    with opened(lab, stores) as fabric:
        resume(fabric)
    assert [lab.host(number).p_keys[:2] for number in (1, 2, 3)] == [[0xFFFF, 0x8001], [0x7FFF, 0x8001], [0x7FFF, 0]]
    assert state_of(stores) == "done"


def test_a_switch_that_dies_meanwhile_is_left_and_resume_finishes(lab: Lab, stores: StorePaths) -> None:
    before = lab.image()
    plan = lab.plan({number: entries(0x7FFF, 0x8001) for number in range(2, 7)}, {5: "io"})
    dead = lab.net.node("Infiniscale-IV Mellanox Technologies")
    count = 0
    with opened(lab, stores, retries=0) as fabric:

        def die(out: Any) -> None:
            nonlocal count
            count += 1
            dead.silent = 2 if count == 4 else dead.silent

        spy(fabric, after=at_sets(die))
        with pytest.raises(Incomplete, match="no step after 'additions, leaf ports' was started"):
            apply(fabric, plan)
    for make in (plan_resume, plan_undo):
        with opened(lab, stores, retries=0) as fabric, writer(fabric) as w, pytest.raises(Refused, match="stale"):
            w.apply(make(w))
    dead.silent = 0
    with opened(lab, stores) as fabric:
        resume(fabric)
        assert [lab.host(number).p_keys[:2] for number in range(2, 7)] == [[0x7FFF, 0x8001]] * 5
        undo(fabric)
    assert lab.image() == before


def test_a_lost_reply_is_settled_by_a_read_and_the_set_is_not_repeated(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0xFFFF, 0x8001) for number in range(1, 7)})
    lab.net.faults.lose_next("reply", method=Method.SET, count=3)
    with opened(lab, stores) as fabric:
        watching = spy(fabric)
        apply(fabric, plan)
    assert len(sets(watching)) == 12
    assert state_of(stores) == "done"


def test_a_set_that_provably_never_arrived_is_sent_again(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0xFFFF, 0x8001) for number in range(1, 7)}, {3: "io"})
    lab.net.faults.lose_next("request", method=Method.SET, node=lab.net.node("node05 mlx4_0"), count=2)
    lab.net.faults.lose_next("request", method=Method.SET, attribute=AttributeID.PORT_INFO)
    with opened(lab, stores) as fabric:
        watching = spy(fabric)
        apply(fabric, plan)
    assert len(sets(watching)) == 13 + 3
    assert state_of(stores) == "done"
    assert all(0x8001 in port.p_keys for port in lab.ports)


def test_after_a_lost_set_a_table_that_somebody_else_wrote_is_left_alone(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({5: entries(0xFFFF, 0x8001)})
    lab.net.faults.lose_next("request", method=Method.SET, node=lab.net.node("node05 mlx4_0"))

    seen: list[Outgoing] = []

    def somebody_writes(outgoing: Outgoing) -> None:
        seen.append(outgoing)
        if len(seen) == 2:  # the first is that of the leaf port
            lab.host(5).p_keys = [0xFFFF, 0, 0x8777]

    with opened(lab, stores) as fabric:
        watching = spy(fabric, after=at_sets(somebody_writes))
        with pytest.raises(Incomplete, match="was lost: index 1 is 0x0000 instead of 0x8001; index 2 is 0x8777"):
            apply(fabric, plan)
        assert len(sets(watching)) == 2


def test_a_set_that_is_lost_each_time_is_reported_and_resume_sends_it(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0xFFFF, 0x8001) for number in range(1, 7)})
    lab.net.faults.lose_next("request", method=Method.SET, node=lab.net.node("node05 mlx4_0"), count=3)
    with opened(lab, stores) as fabric:
        watching = spy(fabric)
        with pytest.raises(Incomplete, match="was lost each time: index 1 is 0x0000 instead of 0x8001"):
            apply(fabric, plan)
        assert len(sets(watching)) == 11 + 3
        watching.clear()
        resume(fabric)
        assert len(sets(watching)) == 1
    assert all(0x8001 in port.p_keys for port in lab.ports)


@pytest.mark.parametrize("seed", range(12))
def test_on_a_fabric_that_loses_mads_resume_comes_to_the_end_and_undo_too(stores: StorePaths, seed: int) -> None:
    lab = Lab(subnet("two-switch", seed))
    before = lab.image()
    plan = lab.plan({number: entries(0x7FFF, 0x8001 + number % 2) for number in range(2, 7)}, {2: "io", 5: "i"})
    with opened(lab, stores, retries=6) as fabric:
        lab.net.faults.drop = 0.08

        def persist(first: Any, again: Any) -> None:
            for turn in range(40):
                try:
                    with writer(fabric, force=True) as w:
                        w.apply((again if turn else first)(w))
                except (Incomplete, NoReply):
                    continue
                return
            raise AssertionError("it never came to an end")

        persist(lambda w: plan_apply(w, plan, ALL), plan_resume)
        assert [lab.host(number).p_keys[0] for number in range(2, 7)] == [0x7FFF] * 5
        assert state_of(stores) == "done"
        persist(plan_undo, plan_undo)
    assert lab.image() == before


def test_a_table_that_somebody_else_writes_meanwhile_is_not_written_over(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0xFFFF, 0x8001) for number in (4, 5)})
    with opened(lab, stores) as fabric:

        def interfere(out: Any) -> None:
            lab.host(5).p_keys = [0xFFFF, 0x8077]

        spy(fabric, after=at_sets(interfere))
        with pytest.raises(Incomplete, match="index 1 was empty when this change was planned and is 0x8077 now"):
            apply(fabric, plan)
        assert lab.host(5).p_keys[1] == 0x8077
        with pytest.raises(Refused, match="stale"):
            resume(fabric)
        undo(fabric, 1, "stale")
    assert lab.host(5).p_keys[1] == 0x8077
    assert lab.host(4).p_keys[1] == 0


def test_a_proof_that_breaks_off_does_not_hide_what_failed_before_it(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({number: entries(0xFFFF, 0x8001) for number in (4, 5)})
    with opened(lab, stores) as fabric, pytest.MonkeyPatch.context() as patch:

        def interfere(out: Any) -> None:
            lab.host(5).p_keys = [0xFFFF, 0x8077]

        def breaks_off(*arguments: Any) -> Any:
            raise DeviceGone("the adapter is gone")

        spy(fabric, after=at_sets(interfere))
        patch.setattr("ibkeys.apply.apply_plan.find_differences", breaks_off)
        with writer(fabric) as w:
            work = plan_apply(w, plan, ALL)
            with pytest.raises(DeviceGone):
                w.apply(work)
    assert [port.port_guid for port, _ in work.failed if port is not None] == [lab.host(5).guid]


def test_port_info_that_somebody_else_changes_meanwhile_is_not_written_over(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({2: entries(0xFFFF, 0x8001)}, {2: "io"})
    with opened(lab, stores) as fabric:

        def interfere(out: Any) -> None:
            lab.leaf(2).subnet_timeout = 9

        spy(fabric, after=at_sets(interfere))
        with pytest.raises(Incomplete, match="PortInfo changed since it was shown"):
            apply(fabric, plan)
        assert lab.leaf(2).info[43] & 0x0C == 0
        resume(fabric)
    assert lab.leaf(2).info[43] & 0x0C == 0x0C
    assert lab.leaf(2).subnet_timeout == 9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_between_two_batches_and_all_is_settled(
    lab: Lab, stores: StorePaths, number: signal.Signals
) -> None:
    before = lab.image()
    with opened(lab, stores) as fabric, Interrupts() as interrupts:
        spy(
            fabric,
            after=at_sets(lambda out: os.kill(os.getpid(), number) if out.mad[23] == 0 and out.mad[21] == 1 else None),
        )
        with pytest.raises(KeyboardInterrupt, match=rf"by {number.name}: .* operation 1 of the journal is open"):
            apply(fabric, lab.plan(MORE), check=interrupts.check)
    with Journal(stores.journal) as journal:
        assert {entry.status for entry in journal.entries(1)} == {"done"}
        assert len(journal.entries(1)) == 3  # the leaf ports
    with opened(lab, stores) as fabric:
        resume(fabric)
        assert lab.host(2).p_keys[:2] == [0x7FFF, 0x8001]
        undo(fabric)
    assert lab.image() == before


def test_a_hangup_may_be_survived(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores) as fabric, Interrupts(survive_hangup=True) as interrupts:
        spy(fabric, after=at_sets(lambda out: os.kill(os.getpid(), signal.SIGHUP)))
        apply(fabric, lab.plan(MORE), check=interrupts.check)
    assert state_of(stores) == "done"


def test_a_journal_that_cannot_be_written_stops_before_the_set(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores) as fabric, pytest.MonkeyPatch.context() as patch:
        record = Journal.record

        def full(self: Journal, operation: int, first: int, images: Any) -> Any:
            if first >= 3:
                raise StoreError("no space left for the journal")
            return record(self, operation, first, images)

        patch.setattr(Journal, "record", full)
        watching = spy(fabric)
        with pytest.raises(StoreError, match="no space left"):
            apply(fabric, lab.plan(MORE))
    assert len(sets(watching)) == 3  # the leaf ports, whose images were kept
    assert state_of(stores) == "open"


def test_an_operation_of_a_carrier_that_is_not_known_is_neither_resumed_nor_undone(
    lab: Lab, stores: StorePaths
) -> None:
    plan = lab.plan(MORE)
    with opened(lab, stores) as fabric, pytest.raises(KeyboardInterrupt):
        apply(fabric, plan, check=interrupted_at(3))
    with Journal(stores.journal) as journal, journal.database.transaction() as connection:
        connection.execute("UPDATE plans SET options = replace(options, '\"direct\"', '\"pigeon\"')")
    for make in (plan_resume, plan_undo):
        with opened(lab, stores) as fabric, writer(fabric) as w, pytest.raises(StoreError, match="'pigeon'"):
            make(w)


def test_with_first_nobody_removes_before_the_swaps_are_made(lab: Lab, stores: StorePaths) -> None:
    """Host 1, the local port, has no room and goes from 1 to 2 by a swap; host 5, on the other switch, leaves 1
    then."""
    set_p_key_capacity(lab.host(1).node, 2)
    lab.put({1: entries(0xFFFF, 0x8001), 5: entries(0xFFFF, 0x8001, 0x8002)})
    plan = lab.plan({1: entries(0xFFFF, 0x8002), 5: entries(0xFFFF, 0, 0x8002)}, leaves=False)
    with opened(lab, stores) as fabric, writer(fabric, "index-0") as w:
        work = plan_apply(w, plan, Permissions(removals=True, breaks=True, first=1))
    assert [phase.name for phase in work.phases] == ["swap"]
    assert work.rest == 1
