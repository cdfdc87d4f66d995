"""Undoing while other OpenSMs may take over: none of them keeps the policy that is undone without a word."""

from __future__ import annotations

import pytest

from ibkeys.apply.undo import plan_undo
from ibkeys.errors import Refused
from tests.apply.opensm.bench import GREEN, MORE, OLD, Bench


def test_a_standby_that_got_the_policy_after_the_change_loses_it_too(bench: Bench) -> None:
    """It was off during the change, and partition-spread gave it the master's policy since."""
    before = bench.tables()
    bench.apply(GREEN)
    after = bench.tables()
    standby = bench.opensm.add_standby(GREEN)
    undone = bench.undo(1)
    assert (bench.opensm.host.file.data, standby.file.data) == (OLD.encode(), OLD.encode())
    assert any("did not write /etc/opensm/partitions.conf on sm2" in note for note in undone.notes)
    assert bench.tables() == before
    bench.undo(2)
    assert (bench.opensm.host.file.data, standby.file.data) == (GREEN.encode(), GREEN.encode())
    assert bench.tables() == after


def test_a_standby_with_the_former_policy_is_left(bench: Bench) -> None:
    bench.apply(GREEN)
    standby = bench.opensm.add_standby(OLD)
    bench.undo(1)
    assert (standby.file.data, "replace" in standby.log) == (OLD.encode(), False)


def test_a_standby_with_another_policy_stops_the_undo(bench: Bench) -> None:
    bench.apply(GREEN)
    standby = bench.opensm.add_standby(MORE)
    with pytest.raises(Refused, match=r"partitions.conf on sm2, on a standby, would differ") as refused:
        bench.undo(1)
    assert refused.value.interlock == "standby-differs"
    assert bench.states() == {1: "done"}
    bench.run(lambda changing, carrier: plan_undo(changing, 1, carrier=carrier), "standby-differs")
    assert (bench.opensm.host.file.data, standby.file.data) == (OLD.encode(), MORE.encode())


def test_an_sm_whose_file_is_not_reached_stops_the_undo(bench: Bench) -> None:
    bench.apply(GREEN)
    bench.opensm.out_of_reach = ("the SM at node05",)
    with pytest.raises(Refused, match=r"the SM at node05; reach it with hosts=") as refused:
        bench.undo(1)
    assert refused.value.interlock == "standby-differs"
    assert bench.opensm.host.file.data == GREEN.encode()


def test_a_standby_whose_own_policy_the_change_replaced_gets_it_back_with_a_note(bench: Bench) -> None:
    standby = bench.opensm.add_standby(MORE)
    bench.apply(GREEN, "standby-differs")
    assert standby.file.data == GREEN.encode()
    undone = bench.undo(1)
    assert (bench.opensm.host.file.data, standby.file.data) == (OLD.encode(), MORE.encode())
    assert any("gets its own former policy back" in note for note in undone.notes)


def test_an_undo_that_stopped_between_the_files_goes_on(bench: Bench) -> None:
    bench.apply(GREEN)
    standby = bench.opensm.add_standby(GREEN)
    bench.cut_off("replace", 1, lambda: bench.undo(1))
    assert standby.file.data != GREEN.encode()
    bench.undo(1)
    assert (bench.opensm.host.file.data, standby.file.data) == (OLD.encode(), OLD.encode())
    assert bench.states() == {1: "undone", 2: "done"}
