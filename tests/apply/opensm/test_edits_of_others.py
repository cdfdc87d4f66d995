"""A policy that somebody else writes meanwhile is neither overwritten nor brought into force."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibkeys.apply.apply import plan_apply
from ibkeys.apply.apply_plan import ApplyHooks, FinishedApply
from ibkeys.apply.opensm.course import OpensmPlanning
from ibkeys.change.confirming.confirmation import block_confirmation, confirm
from ibkeys.errors import HostRefused, Incomplete, Refused, StoreError, UsageError
from ibkeys.plan.model import PartitionPlan, PolicySource
from ibkeys.port_text import PortText
from ibkeys.store.journal import Journal
from tests.apply.opensm.bench import ALL, GREEN, MORE, OLD, Bench, unconfirmed
from tests.apply.opensm.madeup import put, valid
from tests.fabricsim import tool


@pytest.mark.parametrize("moment", range(8))
def test_an_edit_of_somebody_else_stops_it_and_stays(bench: Bench, moment: int) -> None:
    """At whichever look, replacement or signal it happens."""
    theirs = (OLD + "# mine\n").encode()
    words: list[str] = []

    def edit(word: str) -> None:
        words.append(word)
        if len(words) == moment + 1:
            bench.opensm.host.file.data, bench.opensm.host.file.inode = theirs, 99

    bench.opensm.host.before_each = edit
    if moment == 0:  # that is before the change is planned
        bench.apply(GREEN)
        return
    with pytest.raises(Refused) as refused:
        bench.apply(GREEN)
    assert refused.value.interlock == "stale"
    assert bench.opensm.host.file.data == theirs
    if moment == 1:  # none of ours was in place yet
        bench.undo(1)
    else:
        with pytest.raises((Refused, UsageError)):
            bench.undo(1)
    assert bench.opensm.host.file.data == theirs


@pytest.mark.parametrize("is_linked_elsewhere", [False, True])
def test_what_somebody_wrote_after_us_is_not_brought_into_force_by_going_back(
    bench: Bench, is_linked_elsewhere: bool
) -> None:
    theirs = OLD.encode() + b"Theirs=0x66 : ALL_CAS=full ;\n"
    failed: list[tuple[Any, str]] = []

    def ended(run: FinishedApply) -> None:
        bench.opensm.host.file.data = theirs
        if is_linked_elsewhere:
            bench.opensm.host.leads_to = Path("/etc/opensm/other.conf")
        bench.opensm.host.log.clear()
        failed.extend(run.plan.carrier.go_back(run.operation).failed)

    bench.apply(GREEN, hooks=ApplyHooks(on_end=ended))
    [(port, text)] = failed
    assert port is None
    assert isinstance(text, PortText)
    assert "now leads to /etc/opensm/other.conf" in text if is_linked_elsewhere else "\n+Theirs=0x66" in text.details
    assert "signal" not in bench.opensm.host.log
    assert bench.opensm.host.file.data == theirs


def test_a_policy_that_was_changed_after_the_plan_is_not_overwritten(bench: Bench) -> None:
    """Also where no live port shows it: OpenSM has read it."""
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, MORE)
    plan = replace(plan, live_policy=PolicySource("p", hashlib.sha256(OLD.encode()).hexdigest(), OLD.encode()))
    theirs = OLD.replace("ipoib :", "ipoib, mtu=5 :").encode()
    bench.opensm.host.file.data = theirs
    with pytest.raises(Refused, match="was changed after the plan was made") as refused:
        bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier))
    assert refused.value.interlock == "stale"
    assert "+Default=0x7fff, ipoib, mtu=5 : ALL=limited, SELF=full ;" in refused.value.details
    assert bench.opensm.host.file.data == theirs
    assert bench.states() == {}
    bench.opensm.host.file.data = OLD.encode()
    bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier))
    assert bench.states() == {1: "done"}


def test_a_run_that_wrote_no_file_yet_is_not_resumed_over_a_later_policy(bench: Bench) -> None:
    def die(word: str) -> None:
        if word == "replace":
            raise HostRefused("gone", "")

    bench.opensm.host.before_each = die
    with pytest.raises(HostRefused):
        bench.apply(MORE)
    bench.opensm.host.before_each = lambda word: None
    theirs = (OLD + "Theirs=0x66 : ALL_CAS=full ;\n").encode()
    bench.opensm.host.file.data = theirs
    bench.opensm.write()
    with pytest.raises(Refused) as refused:
        bench.resume()
    assert refused.value.interlock == "stale"
    assert bench.opensm.host.file.data == theirs


def test_a_resumed_run_does_not_write_over_what_somebody_else_wrote_meanwhile(bench: Bench) -> None:
    bench.opensm.is_deaf = True
    with pytest.raises(Incomplete):
        bench.apply(MORE)
    bench.opensm.is_deaf = False
    bench.opensm.host.file.data = OLD.encode() + b"# theirs\n"
    with pytest.raises(Refused, match="neither its former content nor what the operation wrote") as refused:
        bench.resume()
    assert refused.value.interlock == "stale"
    assert bench.opensm.host.file.data.endswith(b"# theirs\n")


def test_a_step_with_nothing_to_do_signals_nobody(bench: Bench) -> None:
    lay_out = OpensmPlanning.lay_out
    bench.monkeypatch.setattr(
        OpensmPlanning, "lay_out", lambda self, course, texts: lay_out(self, course, [*texts, texts[-1]])
    )
    plan = bench.apply(MORE)
    assert len(plan.phases) == 2
    assert bench.opensm.host.log.count("signal") == 1
    assert bench.states() == {1: "done"}


def test_an_unconfirmed_run_whose_file_is_back_already_signals_nobody(bench: Bench) -> None:
    def by_guard(run: FinishedApply) -> None:
        bench.opensm.host.file.data = OLD.encode()
        bench.opensm.write()
        bench.opensm.host.log.clear()
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=by_guard))
    assert bench.done.gone_back
    assert not bench.done.failed
    assert not {"signal", "replace"} & {*bench.opensm.host.log}


def test_an_unconfirmed_run_whose_first_signal_is_not_heard_signals_again(bench: Bench) -> None:
    def unheard(run: FinishedApply) -> None:
        bench.opensm.is_deaf = True
        bench.opensm.host.log.clear()

        def once_more(word: str) -> None:
            bench.opensm.is_deaf = bench.opensm.host.log.count("signal") < 2

        bench.opensm.host.before_each = once_more
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=unheard))
    assert bench.done.gone_back
    assert not bench.done.failed
    assert bench.opensm.host.log.count("signal") == 2
    assert bench.states() == {1: "undone", 2: "done"}


def test_a_standby_that_is_restored_while_the_master_keeps_its_policy_is_noted_as_done(bench: Bench) -> None:
    """The master's file was not replaced, so nothing of it is restored, and it is told nothing."""

    def as_of_a_standby(run: FinishedApply) -> None:
        files = vars(run.plan.carrier)["_course"].files
        files.append(replace(files[0], seen=replace(files[0].seen, path=Path("/etc/opensm/masters.conf"))))
        bench.opensm.host.log.clear()
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=as_of_a_standby))
    assert bench.opensm.host.file.data == OLD.encode()
    assert "signal" not in bench.opensm.host.log
    with Journal.read(bench.journal) as journal:
        assert [entry.status for entry in journal.files(2)] == ["done"]
        assert journal.find(2).state == "done"


def test_an_unconfirmed_run_does_not_overwrite_a_port_that_somebody_else_changed(bench: Bench) -> None:
    def changed(run: FinishedApply) -> None:
        put(bench.opensm.net.port("node02 mlx4_0", 1), {0: 0x7FFF, 1: 0x8099})
        bench.opensm.host.log.clear()
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=changed))
    assert [text for _, text in bench.done.failed if "nothing was rolled back" in text and "0x8099" in text]
    assert bench.opensm.host.file.data == MORE.encode()
    assert not {"signal", "replace"} & {*bench.opensm.host.log}


def test_an_unconfirmed_run_goes_back_where_opensm_has_made_everybody_a_full_member(bench: Bench) -> None:
    before = bench.tables()

    def open_to_all(run: FinishedApply) -> None:
        bench.opensm.host.file.data = b"Oops=0x10 : nonsense\n"
        bench.opensm.write()
        bench.opensm.host.file.data = MORE.encode()
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=open_to_all))
    assert not bench.done.failed
    assert bench.tables() == before


def _plan_for_another_sm(bench: Bench, policy: str) -> PartitionPlan:
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, policy)
    bench.opensm.host.log.clear()
    return replace(plan, fabric=replace(plan.fabric, sm_guid=0x2C903000A1021))


def test_a_plan_made_while_the_sm_of_another_port_was_master_is_stale_where_it_uses_self(bench: Bench) -> None:
    plan = _plan_for_another_sm(bench, GREEN)
    with pytest.raises(Refused, match=r"port GUID 0x0002c903000a1021 was master.*`ibkeys plan`") as refused:
        bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier))
    assert refused.value.interlock == "stale"
    assert "signal" not in bench.opensm.host.log


def test_it_is_applied_where_it_means_the_same_through_any_sm(bench: Bench) -> None:
    plan = _plan_for_another_sm(bench, GREEN.replace("ALL=limited, SELF=full", "ALL=full"))
    bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier))
    assert "signal" in bench.opensm.host.log


def test_somebody_elses_work_is_named_before_the_permission_to_remove(bench: Bench) -> None:
    """Else --allow-removals is typed first, and does not help."""
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, GREEN)
    plan = replace(plan, live_policy=PolicySource("p", hashlib.sha256(OLD.encode()).hexdigest(), OLD.encode()))
    with pytest.raises(Refused) as refused:
        bench.run(lambda changing, carrier: plan_apply(changing, plan, None, None, carrier))
    assert refused.value.interlock == "removals"
    bench.opensm.host.file.data = OLD.replace("ipoib :", "ipoib, mtu=5 :").encode()
    with pytest.raises(Refused, match="was changed after the plan was made") as refused:
        bench.run(lambda changing, carrier: plan_apply(changing, plan, None, None, carrier))
    assert refused.value.interlock == "stale"


@pytest.mark.parametrize("of", ["file", "port"])
def test_a_rollback_that_is_refused_is_not_tried_again_by_itself(bench: Bench, of: str) -> None:
    def changed(run: FinishedApply) -> None:
        if of == "file":
            bench.opensm.host.file.data = MORE.encode() + b"# theirs\n"
        else:
            put(bench.opensm.net.port("node02 mlx4_0", 1), {0: 0x7FFF, 1: 0x8099})
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=changed))
    assert bench.done.is_rollback_refused
    assert bench.done.failed
    assert not block_confirmation(bench.journal, 1)
    [record] = bench.records()
    assert (record.state, record.rollback, record.is_unfinished) == ("done", "refused", True)
    with Journal(bench.journal) as journal, pytest.raises(StoreError, match="its rollback was refused"):
        confirm(journal, 1, lambda kept: None)


def test_the_child_of_a_killed_apply_does_not_overwrite_a_port_that_somebody_else_changed(bench: Bench) -> None:
    bench.apply(MORE)
    with Journal(bench.journal) as journal:
        assert journal.move_stage(1, "ended", "unconfirmed")  # and its process was killed
    port = bench.opensm.net.port("node02 mlx4_0", 1)
    put(port, {0: 0x7FFF, 1: 0x8099})
    bench.opensm.host.log.clear()
    assert block_confirmation(bench.journal, 1)
    with pytest.raises(Refused, match=r"node02.* neither found nor wrote.*--override stale"):
        bench.undo_by_child(1)
    assert valid(port) == {0: 0x7FFF, 1: 0x8099}
    assert not {"replace", "signal"} & {*bench.opensm.host.log}
    assert not block_confirmation(bench.journal, 1)
    assert [each.rollback for each in bench.records()] == ["refused"]


def test_the_child_goes_back_where_opensm_has_made_everybody_a_full_member(bench: Bench) -> None:
    before = bench.tables()
    bench.apply(MORE)
    with Journal(bench.journal) as journal:
        assert journal.move_stage(1, "ended", "unconfirmed")
    bench.opensm.host.file.data = b"Oops=0x10 : nonsense\n"
    bench.opensm.write()
    bench.opensm.host.file.data = MORE.encode()
    assert block_confirmation(bench.journal, 1)
    bench.undo_by_child(1)
    assert bench.tables() == before
    assert bench.states() == {1: "undone", 2: "done"}


def test_an_undo_by_the_child_of_a_killed_apply_is_refused_once(bench: Bench) -> None:
    bench.apply(MORE)
    with Journal(bench.journal) as journal:
        assert journal.move_stage(1, "ended", "unconfirmed")  # and its process was killed
    bench.opensm.host.file.data = MORE.encode() + b"# theirs\n"
    assert block_confirmation(bench.journal, 1)
    assert [each.rollback for each in bench.records()] == ["unfinished"]
    with pytest.raises(Refused):
        bench.undo(1)
    assert not block_confirmation(bench.journal, 1)
    assert [each.rollback for each in bench.records()] == ["refused"]
    bench.opensm.host.file.data = MORE.encode()
    bench.resume()
    assert [(each.state, each.stage, each.rollback) for each in bench.records()] == [("done", "ended", None)]
    bench.undo(1)
    assert bench.states() == {1: "undone", 2: "done"}


def test_an_interrupted_undo_of_a_confirmed_apply_that_is_refused_is_not_called_unconfirmed(bench: Bench) -> None:
    bench.apply(MORE)
    bench.cut_off_undo(1)
    bench.opensm.host.file.data = OLD.encode() + b"# theirs\n"
    with pytest.raises(Refused, match="has been changed since that operation wrote it"):
        bench.undo(1)
    undone = bench.records()[0]
    assert (undone.state, undone.rollback, undone.is_unfinished) == ("done", None, True)
