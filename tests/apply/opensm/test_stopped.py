"""What keeps a change through OpenSM from beginning, or stops it half way, and what is left then."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.apply.apply import Permissions, plan_apply, plan_resume
from ibkeys.errors import FileError, HostRefused, Incomplete, Refused, UsageError
from ibkeys.plan.model import SmOptions
from tests.apply.opensm.bench import GREEN, MORE, OLD, Bench
from tests.apply.opensm.madeup import MadeUpOpensm
from tests.fabricsim import tool

FIRST = Permissions(removals=True, first=1)


def test_canaries_do_not_go_through_opensm_when_resumed_either(bench: Bench) -> None:
    bench.opensm.is_deaf = True
    with pytest.raises(Incomplete):
        bench.apply(MORE)
    with pytest.raises(UsageError, match="first= counts leaf switches"):
        bench.run(lambda changing, carrier: plan_resume(changing, FIRST, carrier=carrier))


def test_canaries_are_refused_in_the_library_too_and_no_phase_is_dropped(bench: Bench) -> None:
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, MORE)
    with pytest.raises(UsageError, match="first= counts leaf switches"):
        bench.run(lambda changing, carrier: plan_apply(changing, plan, FIRST, carrier=carrier))
    assert bench.states() == {}
    assert not {"replace", "signal"} & {*bench.opensm.host.log}


def test_what_stops_it_says_what_it_leaves(bench: Bench) -> None:
    with pytest.raises(HostRefused, match=r"no longer runs; operation 1 .* is open: `ibkeys resume 1` finishes it"):
        bench.cut_off_at_the_signal(GREEN, "process 7: no longer runs")


def test_what_hinders_is_refused_before_anything_is_written(bench: Bench) -> None:
    bench.opensm.host.reason = "/etc/opensm/partitions.conf: is a mount point itself"
    with pytest.raises(Refused, match="mount point itself; nothing was changed"):
        bench.apply(GREEN)
    assert bench.states() == {}
    assert "signal" not in bench.opensm.host.log


def test_a_file_in_the_layer_of_a_container_is_refused_until_that_is_overridden(bench: Bench) -> None:
    bench.opensm.host.is_layered = True
    with pytest.raises(Refused, match=r"its OpenSM would undo this change; .*overrides=.*container-layer") as refused:
        bench.apply(MORE)
    assert refused.value.interlock == "container-layer"
    assert bench.opensm.host.file.data == OLD.encode()
    assert bench.states() == {}
    bench.apply(MORE, "container-layer")
    assert bench.opensm.host.file.data == MORE.encode()
    bench.undo()
    assert bench.opensm.host.file.data == OLD.encode()


def test_what_was_begun_in_the_layer_of_a_container_goes_on_without_overriding_it_again(bench: Bench) -> None:
    with pytest.raises(HostRefused):
        bench.cut_off_at_the_signal(MORE, "not permitted")
    bench.opensm.host.is_layered = True
    bench.resume()
    assert bench.states() == {1: "done"}


def test_a_signal_that_cannot_be_sent_leaves_the_operation_open_and_resume_sends_it(bench: Bench) -> None:
    with pytest.raises(HostRefused):
        bench.cut_off_at_the_signal(MORE, "not permitted")
    assert bench.states() == {1: "open"}
    assert bench.opensm.host.file.data == MORE.encode()
    bench.resume()
    assert bench.states() == {1: "done"}


def test_self_that_stood_in_the_policy_before_is_not_new_to_resume(bench: Bench) -> None:
    """The policy in between names every port by its GUID."""
    bench.opensm.other_sms = 1
    with pytest.raises(HostRefused):
        bench.cut_off_at_the_signal(GREEN, "gone")
    assert b"SELF" not in (bench.opensm.host.file.data or b"")
    bench.resume()
    assert bench.opensm.host.file.data == GREEN.encode()
    assert bench.states() == {1: "done"}


def test_a_plan_for_other_options_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(MadeUpOpensm(OLD, SmOptions(part_enforce="off")), monkeypatch, tmp_path)
    with pytest.raises(UsageError, match=r"(?s)enforce='off'.*enforcement both.*enforcement off"):
        bench.apply(GREEN)


def test_a_file_that_opensm_does_not_see_goes_back_and_undo_leaves_it(bench: Bench) -> None:
    """As where the service has the old file mounted: another name leads to what it really reads."""
    bench.opensm.host.files = Unseen()
    with pytest.raises(FileError, match=r"OpenSM .*does not see the new file"):
        bench.apply(MORE)
    assert bench.opensm.host.file.data == OLD.encode()
    assert "signal" not in bench.opensm.host.log
    bench.opensm.host.files = None
    bench.undo()
    assert bench.opensm.host.file.data == OLD.encode()
    assert bench.states() == {1: "undone", 2: "done"}


class Unseen:
    """The files of a host on which the policy's other name still leads to the old one."""

    def read(self, path: Path, limit: int) -> bytes:
        return OLD.encode()


def test_a_change_whose_interrupted_undo_is_rolled_back_is_not_going_back_any_more(bench: Bench) -> None:
    bench.apply(MORE)
    bench.cut_off_undo(1)
    bench.undo(2)
    change, *_ = bench.records()
    assert (change.state, change.rollback) == ("done", None)
    bench.apply(GREEN)
    assert bench.states() == {1: "done", 2: "undone", 3: "done", 4: "done"}
